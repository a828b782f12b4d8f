"""Small decoders of the package transformers with random weights: the oracle of ours."""

import inspect

import pytest
import torch

transformers = pytest.importorskip("transformers", minversion="5.0")

NEAR = {"atol": 1e-5, "rtol": 1e-5}
WORDS, LENGTH = 61, 40
SIZES = {"vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None}
HEADS = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
SMALL = SIZES | HEADS | {"hidden_size": 32, "intermediate_size": 40}
SMALL |= {"max_position_embeddings": 256, "rms_norm_eps": 0.02}
GPT2 = SIZES | {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256}
GPT2 |= {"layer_norm_epsilon": 0.02}


def rope(kind, theta=1000.0, **options):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, "factor": 4.0, **options}}


def make_theirs(kind, fields, seed, spread=0.25):
    """A published class with random weights, norms and biases too, spread so far."""
    config = getattr(transformers, f"{kind}Config")(**fields)
    torch.manual_seed(seed)
    suffix = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    theirs = getattr(transformers, kind.removesuffix("Text") + suffix)(config).eval()
    with torch.no_grad():
        for which, parameter in theirs.named_parameters():
            norm = parameter.dim() == 1 and which.endswith("weight")
            mean = 0.7 - kind.startswith("Gemma") if norm else 0.0  # Gemma adds 1
            parameter.normal_(mean, spread)
    return theirs


def text(rows=2, length=LENGTH):
    return torch.randint(0, WORDS, (rows, length), generator=torch.Generator().manual_seed(1))


def read_by(theirs, tokens, parts):
    """Their logits of tokens that are read in parts, with a cache."""
    cache = transformers.DynamicCache(config=theirs.config)
    name = "cache" if "cache" in inspect.signature(theirs.forward).parameters else "past_key_values"
    found, start = [], 0
    for m in parts:
        part = tokens[:, start : start + m]
        found.append(theirs(part, **{name: cache}, use_cache=True).logits)
        start += m
    return torch.cat(found, dim=1)
