"""What config.json says of a model that was built by hand, and whether it says all."""

from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..mechanisms.attention.multi_head import MultiHeadAttention
from ..mechanisms.layers.feed_forward import FeedForward, GatedFeedForward
from ..mechanisms.layers.norms import LayerNorm, RMSNorm
from ..mechanisms.positions.absolute import LearnedPositions
from ..mechanisms.positions.rotary import RotaryPositions
from ..models.transformer.language_model import TransformerLM
from ..models.transformer.layers import EncoderLayer
from ..validate import require
from .rotary import SCALINGS

__all__ = ["config_of", "settings_of"]

_LENGTH = "original_max_position_embeddings"


def config_of(model: TransformerLM) -> dict[str, Any]:
    """The fields of config.json for a model whose parts are those of
    :func:`~attnbook.decoder_parts` or :func:`~attnbook.gpt2_parts`, or a ``ValueError``. What else
    it may be told apart by is for :func:`settings_of`.
    """
    blocks, norm = list(model.stack.layers), model.stack.norm
    for block in blocks:
        require(
            type(block) is EncoderLayer and type(block.attention) is MultiHeadAttention,
            f"model must have blocks of MultiHeadAttention to be published, got {block!r:.200}",
        )
    if type(norm) is LayerNorm:
        return _gpt2(model, blocks, norm)
    if type(norm) is RMSNorm and not norm.offset:
        return _llama(model, blocks, norm)
    raise ValueError(
        "model must be made of decoder_parts or gpt2_parts to be published, or come from "
        f"load_decoder, got the last norm {norm!r}"
    )


def _gpt2(model: TransformerLM, blocks: list, norm: LayerNorm) -> dict[str, Any]:
    positions: Any = model.positions
    first = blocks[0]
    require(
        type(positions) is LearnedPositions and type(first.feed_forward) is FeedForward,
        f"model must have learned positions and a FeedForward to be a GPT-2, got {positions!r} and "
        f"{first.feed_forward!r:.200}",
    )
    return {
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "vocab_size": model.vocabulary_size,
        "n_embd": first.attention.d_model,
        "n_layer": len(blocks),
        "n_head": first.attention.num_heads,
        "n_inner": first.feed_forward.hidden.out_features,
        "n_positions": len(positions.weight),
        "layer_norm_epsilon": norm.eps,
    }


def _llama(model: TransformerLM, blocks: list, norm: RMSNorm) -> dict[str, Any]:
    attention, feed_forward = blocks[0].attention, blocks[0].feed_forward
    rotary = attention.rotary
    require(
        type(rotary) is RotaryPositions and type(feed_forward) is GatedFeedForward,
        f"model must have rotary positions and a gate to be a Llama, got {rotary!r} and "
        f"{feed_forward!r:.200}",
    )
    windows = [block.attention.window and block.attention.window.size for block in blocks]
    bias = attention.query_projection.bias is not None
    if attention.key_norm is not None:
        kind = "qwen3"
    elif bias and attention.output_projection.bias is None:
        kind = "qwen2"
    else:
        kind = "llama" if windows[0] is None else "mistral"
    fields = {
        "model_type": kind,
        "hidden_act": "silu",
        "vocab_size": model.vocabulary_size,
        "hidden_size": attention.d_model,
        "intermediate_size": feed_forward.value_projection.out_features,
        "num_hidden_layers": len(blocks),
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.num_kv_heads,
        "head_dim": attention.d_head,
        "rms_norm_eps": norm.eps,
        "max_position_embeddings": 4096,
    }
    if kind != "qwen2":
        fields["attention_bias"] = bias
    if kind == "mistral":
        fields["sliding_window"] = windows[0]
    elif kind != "llama":
        widths = {window for window in windows if window is not None}
        fields["use_sliding_window"] = bool(widths)
        fields["sliding_window"] = max(widths, default=None)
        fields["layer_types"] = [
            "full_attention" if window is None else "sliding_attention" for window in windows
        ]
    return fields | _rotary(rotary)


def _rotary(rotary: RotaryPositions) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": float(rotary.base)}
    if rotary.d_rotary < rotary.d_head:
        rope["partial_rotary_factor"] = rotary.d_rotary / rotary.d_head
    scaling: Any = rotary.scaling
    if scaling is None:
        return {"rope_parameters": rope}
    names = {kind: name for name, kind in SCALINGS.items()}
    require(
        type(scaling) in names and hasattr(scaling, "factor"),
        f"scaling must be one of {', '.join(SCALINGS)} to be published, got {scaling!r}",
    )
    options = {k: v for k, v in asdict(scaling).items() if v is not None}
    rope |= {"rope_type": names[type(scaling)]} | options
    length = options.get(_LENGTH, 4096)
    if rope["rope_type"] == "dynamic":
        del rope[_LENGTH]
    else:
        length = int(length * options["factor"])
    return {"rope_parameters": rope, "max_position_embeddings": length}


def settings_of(model: torch.nn.Module) -> dict[str, Any]:
    """What tells two models of one form apart, by name: the classes of modules, their plain values
    and functions, the shapes of parameters. Dropout and what is remembered about the files do not.
    """
    described: dict[str, Any] = {name: tuple(p.shape) for name, p in model.named_parameters()}
    for name, module in model.named_modules(remove_duplicate=False):
        if name.endswith("dropout"):
            continue
        described[f"class of {name}" if name else "class"] = type(module).__qualname__
        for key, value in vars(module).items():
            hidden = key.startswith("_") or key in ("training", "dropout", "published", "token_ids")
            if not hidden and not isinstance(value, Tensor):
                described[f"{name}.{key}".lstrip(".")] = _plain(value)
    described.pop("output.weight", None)  # one with the embedding, or not
    return described


def _plain(value: Any) -> Any:
    """A value that equals its like: a function by its name and arguments."""
    if isinstance(value, partial):
        return _plain(value.func), value.args, tuple(sorted(value.keywords.items()))
    return getattr(value, "__qualname__", value)
