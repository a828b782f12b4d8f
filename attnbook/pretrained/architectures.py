"""Architectures of published folders: parts by the fields of config.json, names of tensors."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ..models.transformer.decoder import decoder_parts, gemma_parts, gpt2_parts
from ..models.transformer.parts import Parts, alternating
from ..validate import require
from .config import Config
from .rotary import read_rotary, rotary_fields

__all__ = ["ARCHITECTURES", "Architecture", "text_part"]

FULL, SLIDING = "full_attention", "sliding_attention"
Windows = list[int | None]


def _llama(config: Config, num_layers: int) -> Parts:
    """The parts of Llama, Mistral, Qwen2, Qwen3 and Phi-3."""
    kind = config.get("model_type")
    config.only(hidden_act="silu", mlp_bias=False)
    d_model, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    d_head = config.integer("head_dim", 128 if kind == "qwen3" else d_model // heads)
    phi3 = kind == "phi3"
    if phi3:  # fields that older files lack
        config = Config(
            {"max_position_embeddings": 4096, "original_max_position_embeddings": 4096}
            | config.fields
        )
        config.only(attention_bias=False)
    block = partial(
        decoder_parts,
        d_model,
        heads,
        config.integer("intermediate_size"),
        num_kv_heads=config.integer("num_key_value_heads", heads),
        d_head=d_head,
        rotary=read_rotary(
            config,
            d_head,
            *rotary_fields(config),
            theta=config.number("rope_theta", 10_000.0),
            partial=phi3,
            aliases={"su": "longrope", "yarn": "longrope"} if phi3 else None,
        ),
        normalise=kind == "qwen3",
        bias=kind == "qwen2" or config.truth("attention_bias", False),
        output_bias=False if kind == "qwen2" else None,
        eps=config.number("rms_norm_eps"),
    )
    blocks = [block(window=window) for window in _windows(config, num_layers)]
    return replace(blocks[0], stack=alternating(*blocks))


def _windows(config: Config, num_layers: int) -> Windows:
    """How far each block of a Llama and its relatives sees; None: over the whole text."""
    kind = config.get("model_type")
    qwen = kind in ("qwen2", "qwen3")
    whole: Windows = [None] * num_layers
    if kind == "llama" or (qwen and not config.truth("use_sliding_window", False)):
        return whole
    if config.fields.get("sliding_window", 4096 if kind != "phi3" else None) is None:
        return whole
    first = config.integer("max_window_layers", 28, least=0) if qwen else 0
    types = [SLIDING if k >= first else FULL for k in range(num_layers)]
    if kind != "phi3":
        types = _layer_types(config, types)
    window = config.integer("sliding_window", 4096, most=2**40)
    return [window if of == SLIDING else None for of in types]


def _layer_types(config: Config, default: list[str]) -> list[str]:
    """Which block sees the whole text and which a window."""
    types, number = config.get("layer_types", default), len(default)
    require(
        isinstance(types, list)
        and len(types) == number
        and all(of in (FULL, SLIDING) for of in types),
        f"layer_types in config.json must be {number} of {FULL}, {SLIDING}, got {types!r}",
    )
    return types


def _gemma(config: Config, num_layers: int) -> Parts:
    """The parts of Gemma 2 and of the text part of Gemma 3."""
    second = config.get("model_type") == "gemma2"
    config.only(hidden_activation="gelu_pytorch_tanh", use_bidirectional_attention=False)
    if not second:
        config.only(attn_logit_softcapping=None)  # transformers has the field and no cap
    pattern = 2 if second else config.integer("sliding_window_pattern", 6)
    types = [SLIDING if (k + 1) % pattern else FULL for k in range(num_layers)]
    types = _layer_types(config, types)
    window = config.integer("sliding_window", 4096, most=2**40)
    heads, d_head = config.integer("num_attention_heads", 8), config.integer("head_dim", 256)
    scale = config.number_or_none("query_pre_attn_scalar", 256.0)
    require(scale is not None, "query_pre_attn_scalar in config.json must be a number, got null")
    assert scale is not None
    block = partial(
        gemma_parts,
        config.integer("hidden_size"),
        heads,
        config.integer("intermediate_size"),
        num_kv_heads=config.integer("num_key_value_heads", 4),
        d_head=d_head,
        normalise=not second,
        bias=config.truth("attention_bias", False),
        eps=config.number("rms_norm_eps", 1e-6),
        scale=scale**-0.5,
        score_cap=config.number_or_none("attn_logit_softcapping", 50.0) if second else None,
        logit_cap=config.number_or_none("final_logit_softcapping", 30.0 if second else None),
    )
    fields, name = rotary_fields(config)
    if second:
        theta = config.number("rope_theta", 10_000.0)
        rotary = read_rotary(config, d_head, fields, name, theta=theta)
        kinds = {FULL: rotary, SLIDING: rotary}
    else:
        # two bases; older files scale that of the whole text alone
        both = Config({FULL: fields} if name == "rope_scaling" else fields, name)
        require(
            set(both.fields) <= {FULL, SLIDING},
            f"{name} in config.json must be one object for {FULL} and one for {SLIDING}, got "
            f"{fields!r}",
        )
        bases = {
            FULL: config.number("rope_theta", 1_000_000.0),
            SLIDING: config.number("rope_local_base_freq", 10_000.0),
        }
        kinds = {
            of: read_rotary(config, d_head, both.part(of), f"{of} of {name}", theta=theta)
            for of, theta in bases.items()
        }
    blocks = [block(rotary=kinds[of], window=window if of == SLIDING else None) for of in types]
    return replace(blocks[0], stack=alternating(*blocks))


def _gpt2(config: Config, num_layers: int) -> Parts:
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


class Architecture(NamedTuple):
    """How an architecture is written down.

    Where several modules of ours have one name of theirs, their matrices stand there as one, the
    outputs of the first above those of the second, in the order of ``names``.
    """

    name: str  # the class in transformers
    parts: Callable[[Config, int], Parts]
    names: dict[str, str]  # of modules and parameters: ours, theirs
    tied: bool = False  # whether embedding and output are one where config.json is silent
    num_layers: str = "num_hidden_layers"  # the field with the number of blocks
    blocks: str = "layers"  # where the blocks stand
    body: str = "model"  # where all but the output stands
    transposed: bool = False  # whether matrices of blocks are (in, out)


_NAMES = {
    "embedding.weight": "embed_tokens.weight",
    "stack.norm.weight": "norm.weight",
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
}
_PHI3_NAMES = _NAMES | {
    "attention.query_projection": "self_attn.qkv_proj",
    "attention.key_projection": "self_attn.qkv_proj",
    "attention.value_projection": "self_attn.qkv_proj",
    "feed_forward.gate_projection": "mlp.gate_up_proj",
    "feed_forward.value_projection": "mlp.gate_up_proj",
}
_GEMMA_NAMES = _NAMES | {
    "around_attention.norm_after": "post_attention_layernorm",
    "around_feed_forward.norm": "pre_feedforward_layernorm",
    "around_feed_forward.norm_after": "post_feedforward_layernorm",
}
_GPT2_NAMES = {
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
}
ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("LlamaForCausalLM", _llama, _NAMES),
    "mistral": Architecture("MistralForCausalLM", _llama, _NAMES),
    "qwen2": Architecture("Qwen2ForCausalLM", _llama, _NAMES),
    "qwen3": Architecture("Qwen3ForCausalLM", _llama, _NAMES),
    "phi3": Architecture("Phi3ForCausalLM", _llama, _PHI3_NAMES),
    "gemma2": Architecture("Gemma2ForCausalLM", _gemma, _GEMMA_NAMES, tied=True),
    "gemma3_text": Architecture("Gemma3ForCausalLM", _gemma, _GEMMA_NAMES, tied=True),
    "gpt2": Architecture(
        "GPT2LMHeadModel",
        _gpt2,
        _GPT2_NAMES,
        tied=True,
        num_layers="n_layer",
        blocks="h",
        body="transformer",
        transposed=True,
    ),
}
"""Architectures by their ``model_type``."""

_TEXT_PART = {"vocab_size": 262_208, "num_hidden_layers": 26, "hidden_size": 2304} | {
    "intermediate_size": 9216,
    "max_position_embeddings": 131_072,
}


def text_part(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of config.json of the decoder in it: a Gemma 3 that sees holds one of
    ``gemma3_text``, of which older files give what differs from the defaults of the class.
    """
    if fields.get("model_type") != "gemma3":
        return fields
    text = Config(fields).part("text_config")
    tied = {"tie_word_embeddings": fields.get("tie_word_embeddings", True)}
    ids = {k: fields[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id") if k in fields}
    return _TEXT_PART | tied | ids | text | {"model_type": "gemma3_text"}
