"""Published classes with any options together, against ours: wide, and by night."""

import random

import pytest
import torch

from attnbook import load_decoder, save_decoder

from .published_models import NEAR, SMALL, make_theirs, text


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(200))
@torch.no_grad()
def test_random_sizes_and_options(tmp_path, seed):
    """Any options together: as a whole, in parts, and saved and read back by transformers."""
    draw = random.Random(seed)
    kind = draw.choice(["Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Gemma2", "Gemma3Text"])
    groups, shared, d_head = draw.choice([1, 2, 3]), draw.choice([1, 2]), draw.choice([4, 8, 12])
    heads, layers = groups * shared, draw.randint(1, 4)
    fields = SMALL | {
        "hidden_size": heads * d_head * (1 if kind == "Phi3" else draw.choice([1, 2])),
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "num_hidden_layers": layers,
        "intermediate_size": draw.randint(1, 50),
        "rms_norm_eps": draw.choice([1e-6, 0.02]),
        "pad_token_id": None,
        "tie_word_embeddings": draw.random() < 0.5,
        "sliding_window": draw.choice([1, 5, 17, 100]),
    }
    if kind != "Phi3":
        fields["head_dim"] = d_head
    gemma = kind.startswith("Gemma")
    if kind in ("Llama", "Qwen3") or gemma:
        fields["attention_bias"] = draw.random() < 0.5
    if gemma or (kind.startswith("Qwen") and draw.random() < 0.5):
        types = ["full_attention", "sliding_attention"]
        fields["layer_types"] = [draw.choice(types) for _ in range(layers)]
        fields["use_sliding_window"] = True
    if gemma:
        fields["query_pre_attn_scalar"] = draw.choice([3, 16])
        fields["final_logit_softcapping"] = draw.choice([None, 5.0])
        if kind == "Gemma2":
            fields["attn_logit_softcapping"] = draw.choice([None, 2.0])
    theta = {"rope_theta": draw.choice([100.0, 10_000.0])}
    scalings = [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 3.0},
        {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 12},
        {
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 3.0,
            "original_max_position_embeddings": 20,
        },
    ]
    if kind == "Phi3":
        fields["rope_parameters"] = theta | {
            "partial_rotary_factor": draw.choice([0.5, 1.0]),
            "rope_type": "default",
        }
    elif kind == "Gemma3Text":
        fields["rope_parameters"] = {
            "full_attention": draw.choice(scalings[:2]) | theta,
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
        }
    else:
        fields["rope_parameters"] = draw.choice(scalings) | theta
    theirs, tokens = make_theirs(kind, fields, seed, spread=0.15), text(2, 30)
    theirs.save_pretrained(tmp_path / "theirs")
    model, wanted = load_decoder(tmp_path / "theirs"), theirs(tokens).logits
    torch.testing.assert_close(model(tokens).logits, wanted, **NEAR)
    state, start = model.begin(2), 0
    for m in (1, 1, 13, 1, 14):
        logits, state, _ = model.read(tokens[:, start : start + m], state)
        torch.testing.assert_close(logits, wanted[:, start : start + m], **NEAR)
        start += m
    save_decoder(model, tmp_path / "ours", max_shard_size=draw.choice([5000, 10**9]))
    back = type(theirs).from_pretrained(tmp_path / "ours").eval()
    assert torch.equal(back(tokens).logits, wanted)
