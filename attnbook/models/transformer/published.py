"""Published weights of decoders: a folder with config.json and safetensors becomes a model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...mechanisms.positions.rotary import RotaryPositions
from ...mechanisms.positions.rotary_scaling import Interpolation, Llama3, RotaryScaling, YaRN
from ...validate import check_choice, check_integer, check_number, describe, require
from .decoder import decoder_parts, gpt2_parts
from .encoder_decoder import tie_weights
from .language_model import TransformerLM
from .parts import Parts, alternating
from .safetensors import read_json, read_safetensors

__all__ = ["load_decoder"]


def load_decoder(folder: str | os.PathLike, *, dtype: torch.dtype = torch.float32) -> TransformerLM:
    """The model in a folder as it is published: ``config.json``, and ``model.safetensors`` or an
    index and several of them.

    It computes what the class of the same name in ``transformers`` computes, for Llama, Mistral,
    Qwen3 and GPT-2. With a connection a small one is had by

    >>> from huggingface_hub import snapshot_download
    >>> name = "HuggingFaceTB/SmolLM2-135M"  # or Qwen/Qwen3-0.6B, openai-community/gpt2, …
    >>> folder = snapshot_download(name, allow_patterns=["*.json", "*.safetensors"])
    >>> model = load_decoder(folder)
    >>> words = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    >>> text = torch.tensor([words.encode("Attention is all you").ids])
    >>> words.decode([model(text).logits[0, -1].argmax()])

    Nothing in the folder is executed, and no memory is taken for what its files do not hold.

    Args:
        folder: the downloaded folder.
        dtype: of the model; the numbers of the files are brought to it.

    Returns:
        The model in evaluation mode, without dropout. Every id is a token: padding is what lies
        behind the lengths.

    Raises:
        ValueError: naming it, for an architecture, an activation, a scaling of positions or another
            option that this decoder lacks, a field that is missing or out of range, a tensor that
            is missing, superfluous or of another shape, and what
            :func:`~attnbook.models.transformer.safetensors.read_safetensors` refuses.
        FileNotFoundError: where a file is missing.
    """
    folder = Path(folder)
    config = _Config(read_json(folder / "config.json"))
    published = _ARCHITECTURES[config.choice("model_type", _ARCHITECTURES)]
    config.only(quantization_config=None)
    tensors = read_safetensors(folder)
    num_layers = config.integer(published.num_layers, most=max(1, len(tensors)))
    parts = published.parts(config, num_layers)
    with torch.device("meta"):  # shapes alone: no size in config.json has cost memory yet
        model = TransformerLM(config.integer("vocab_size"), parts, num_layers=num_layers, tie=False)
    tied = config.truth("tie_word_embeddings", published.tied)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    if tied:
        del shapes["output.weight"]
    state = _renamed(published, tensors, shapes, folder)
    state = {name: tensor.to(dtype, copy=True) for name, tensor in state.items()}
    model.load_state_dict(state, strict=False, assign=True)
    if tied:
        tie_weights(model.output, model.embedding)
    return model.eval()


class _Config:
    """The fields of config.json, each checked when it is asked for."""

    def __init__(self, fields: dict[str, Any], name: str = "config.json") -> None:
        self.fields, self.name = fields, name

    def get(self, field: str, default: Any = None) -> Any:
        """What a field holds; the default where it is missing or null."""
        value = self.fields.get(field)
        return default if value is None else value

    def integer(self, field: str, default: int | None = None, *, least=1, most=2**24) -> int:
        return check_integer(f"{field} in {self.name}", self.get(field, default), least, most)

    def number(self, field: str, default: float | None = None) -> float:
        return float(check_number(f"{field} in {self.name}", self.get(field, default), least=0))

    def truth(self, field: str, default: bool) -> bool:
        return check_choice(f"{field} in {self.name}", self.get(field, default), (True, False))

    def choice(self, field: str, known: dict[str, Any], default: str | None = None) -> str:
        value = self.get(field, default)
        require(
            isinstance(value, str) and value in known,
            f"{field} in {self.name} must be one of {', '.join(known)}, got {value!r}",
        )
        return value

    def only(self, **values: Any) -> None:
        """Refuse a field that asks for another thing than the one that is there."""
        for field, value in values.items():
            came = self.get(field, value)
            require(
                came == value,
                f"{field} in {self.name} must be {value!r}, which is all that this decoder has, "
                f"got {came!r}",
            )


def _llama(config: _Config, num_layers: int) -> Parts:
    """The parts of Llama, Mistral and Qwen3."""
    config.only(hidden_act="silu", mlp_bias=False)
    d_model, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    d_head = config.integer("head_dim", d_model // heads)
    block = partial(
        decoder_parts,
        d_model,
        heads,
        config.integer("intermediate_size"),
        num_kv_heads=config.integer("num_key_value_heads", heads),
        d_head=d_head,
        rotary=_rotary(config, d_head),
        normalise=config.get("model_type") == "qwen3",
        bias=config.truth("attention_bias", False),
        eps=config.number("rms_norm_eps"),
    )
    blocks = [block(window=window) for window in _windows(config, num_layers)]
    return replace(blocks[0], stack=alternating(*blocks))


def _windows(config: _Config, num_layers: int) -> list[int | None]:
    """How far each block sees; None: over the whole text."""
    kind = config.get("model_type")
    whole: list[int | None] = [None] * num_layers
    if kind == "llama" or (kind == "qwen3" and not config.truth("use_sliding_window", False)):
        return whole
    if "sliding_window" in config.fields and config.get("sliding_window") is None:
        return whole
    known: dict[str, int | None] = {
        "full_attention": None,
        "sliding_attention": config.integer("sliding_window", 4096, most=2**40),
    }
    first = config.integer("max_window_layers", least=0) if kind == "qwen3" else 0
    types = config.get(
        "layer_types",
        ["sliding_attention" if k >= first else "full_attention" for k in range(num_layers)],
    )
    require(
        isinstance(types, list) and len(types) == num_layers and all(t in [*known] for t in types),
        f"layer_types in config.json must be {num_layers} of {', '.join(known)}, got {types!r}",
    )
    return [known[t] for t in types]


_SCALINGS = {"default": RotaryScaling, "linear": Interpolation, "llama3": Llama3, "yarn": YaRN}


def _rotary(config: _Config, d_head: int) -> RotaryPositions:
    # one field since 2025, two before
    name = "rope_parameters" if "rope_parameters" in config.fields else "rope_scaling"
    fields = config.get(name, {})
    require(isinstance(fields, dict), f"{name} in config.json must be an object, got {fields!r}")
    rope = _Config(
        {"rope_theta": config.get("rope_theta", 10_000.0), **fields}, f"{name} of config.json"
    )
    rope.only(partial_rotary_factor=1.0)
    kind = rope.choice("rope_type", _SCALINGS, rope.get("type", "default"))
    elsewhere = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
    options = {k: v for k, v in rope.fields.items() if v is not None and k not in elsewhere}
    if kind == "yarn":
        length = config.get("max_position_embeddings")
        options = {"original_max_position_embeddings": length, **options}
    try:
        scaling = _SCALINGS[kind](**options)
    except TypeError as error:
        raise ValueError(f"{name} in config.json must be that of {kind}, got {error}") from None
    return RotaryPositions(d_head, base=rope.number("rope_theta"), scaling=scaling)


def _gpt2(config: _Config, num_layers: int) -> Parts:
    config.only(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False)
    config.only(activation_function="gelu_new", add_cross_attention=False)
    d_model = config.integer("n_embd")
    return gpt2_parts(
        d_model,
        config.integer("n_head"),
        config.integer("n_inner", 4 * d_model),
        config.integer("n_positions"),
        eps=config.number("layer_norm_epsilon"),
    )


class _Published(NamedTuple):
    """How an architecture is written down."""

    parts: Callable[[_Config, int], Parts]
    num_layers: str  # the field with the number of blocks
    tied: bool  # whether embedding and output are one where config.json is silent
    blocks: str  # where the blocks stand
    names: dict[str, str]  # of modules and parameters: ours, theirs


_LLAMA = _Published(
    _llama,
    "num_hidden_layers",
    False,
    "model.layers",
    {
        "embedding.weight": "model.embed_tokens.weight",
        "stack.norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
        "around_attention.norm": "input_layernorm",
        "attention.query_projection": "self_attn.q_proj",
        "attention.key_projection": "self_attn.k_proj",
        "attention.value_projection": "self_attn.v_proj",
        "attention.output_projection": "self_attn.o_proj",
        "attention.query_norm": "self_attn.q_norm",
        "attention.key_norm": "self_attn.k_norm",
        "around_feed_forward.norm": "post_attention_layernorm",
        "feed_forward.gate_projection": "mlp.gate_proj",
        "feed_forward.value_projection": "mlp.up_proj",
        "feed_forward.output": "mlp.down_proj",
    },
)
_GPT2 = _Published(
    _gpt2,
    "n_layer",
    True,
    "h",
    {
        "embedding.weight": "wte.weight",
        "positions.weight": "wpe.weight",
        "stack.norm.weight": "ln_f.weight",
        "stack.norm.bias": "ln_f.bias",
        "output.weight": "lm_head.weight",
        "around_attention.norm": "ln_1",
        "attention.query_projection": "attn.c_attn",
        "attention.key_projection": "attn.c_attn",
        "attention.value_projection": "attn.c_attn",
        "attention.output_projection": "attn.c_proj",
        "around_feed_forward.norm": "ln_2",
        "feed_forward.hidden": "mlp.c_fc",
        "feed_forward.output": "mlp.c_proj",
    },
)
_ARCHITECTURES = {"llama": _LLAMA, "mistral": _LLAMA, "qwen3": _LLAMA, "gpt2": _GPT2}

# Masks, and frequencies of the rotation, which older files hold though they are no weights.
_NO_WEIGHTS = re.compile(r"(^|\.)(attn\.bias|attn\.masked_bias|rotary_emb\.inv_freq)$")
_THIRDS = ("query_projection", "key_projection", "value_projection")


def _renamed(
    published: _Published,
    tensors: dict[str, torch.Tensor],
    shapes: dict[str, torch.Size],
    folder: Path,
) -> dict[str, torch.Tensor]:
    """The tensors by our names, each of the shape that the model wants."""
    gpt2 = published is _GPT2
    if gpt2:  # some files name the body alone
        tensors = {name.removeprefix("transformer."): t for name, t in tensors.items()}
    state, used = {}, {"lm_head.weight"}
    for name, shape in shapes.items():
        block = re.fullmatch(r"stack\.layers\.(\d+)\.(.+)\.(\w+)", name)
        if block is None:
            theirs = published.names[name]
        else:
            number, module, kind = block.groups()
            theirs = f"{published.blocks}.{number}.{published.names[module]}.{kind}"
        require(theirs in tensors, f"{folder} must hold the tensor {theirs}, it does not")
        used.add(theirs)
        tensor, wanted = tensors[theirs], tuple(shape)
        if gpt2 and block:  # y = x W + b with one W of queries, keys and values
            third = next((k for k, part in enumerate(_THIRDS) if part in name), None)
            wanted = wanted[::-1] if third is None else (*wanted[:0:-1], 3 * wanted[0])
        require(
            tuple(tensor.shape) == wanted and tensor.is_floating_point(),
            f"{theirs} in {folder} must be floating point numbers of shape {wanted}, as "
            f"config.json says, got {describe(tensor)}",
        )
        if gpt2 and block:
            tensor = tensor if third is None else tensor.chunk(3, dim=-1)[third]
            tensor = tensor.mT if tensor.dim() == 2 else tensor
        state[name] = tensor
    left = [name for name in tensors if name not in used and not _NO_WEIGHTS.search(name)]
    require(
        not left, f"{folder} must hold nothing that this decoder has no place for, got {left[:3]}"
    )
    return state
