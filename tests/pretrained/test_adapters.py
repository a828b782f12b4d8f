"""An adapter in a file: what comes back, and what is refused before anything changes."""

import pytest
import torch
from assertions import assert_exact
from safetensors.torch import save_file

from attnbook import (
    TransformerLM,
    add_lora,
    decoder_parts,
    load_decoder,
    load_lora,
    lora_layers,
    merge_lora,
    save_decoder,
    save_lora,
)
from attnbook.pretrained.tensors import read_tensors

TOKENS = torch.arange(12).reshape(2, 6) * 5 % 11


def model(d_model=16):
    torch.manual_seed(0)
    return TransformerLM(11, decoder_parts(d_model, 4, 24), num_layers=2).double().eval()


def tuned(seed=1, rank=2, **options):
    net = model()
    add_lora(net, rank, alpha=3.0, **options)
    torch.manual_seed(seed)
    with torch.no_grad():
        for part in lora_layers(net).values():
            part.up.normal_(std=0.3)
    return net


@pytest.mark.parametrize("merged", [False, True])
def test_an_adapter_comes_back_in_another_process_copy_of_the_model(tmp_path, merged):
    net = tuned(dropout=0.1)
    logits = net(TOKENS).logits
    if merged:
        merge_lora(net)
    path = save_lora(net, tmp_path / "adapter.safetensors")
    assert sorted(read_tensors(path)) == sorted(
        f"{name}.{factor}" for name in lora_layers(net) for factor in ("down", "up")
    )
    fresh = model()
    layers = load_lora(fresh, path)
    assert layers == lora_layers(fresh)
    assert {part.dropout.p for part in layers.values()} == {0.1}
    assert not any(part.training for part in layers.values())
    assert_exact(fresh(TOKENS).logits, logits)
    assert {n for n, p in fresh.named_parameters() if p.requires_grad} == {
        f"{name}.{factor}" for name in layers for factor in ("down", "up")
    }


def test_one_adapter_makes_room_for_another(tmp_path):
    paths = [
        save_lora(tuned(1, layers=["query_projection"]), tmp_path / "one"),
        save_lora(tuned(2, rank=3, layers=["value_projection"]), tmp_path / "two"),
    ]
    net, expected = model(), model()
    load_lora(net, paths[0])
    merge_lora(net)
    load_lora(net, paths[1])
    load_lora(expected, paths[1])
    assert set(lora_layers(net)) == set(lora_layers(expected))
    assert_exact(net(TOKENS).logits, expected(TOKENS).logits)


def test_a_merged_decoder_is_published_like_any_other(tmp_path):
    net = tuned()
    logits = net(TOKENS).logits
    with pytest.raises(ValueError, match="^model must be"):
        save_decoder(net, tmp_path / "folder")
    merge_lora(net, remove=True)
    save_decoder(net, tmp_path / "folder")
    assert_exact(load_decoder(tmp_path / "folder", dtype=torch.float64)(TOKENS).logits, logits)


def test_what_is_no_adapter_of_this_model_changes_nothing(tmp_path):
    path = save_lora(tuned(), tmp_path / "adapter")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(path.read_bytes()[:-8])
    save_file({"weight": torch.ones(2, 2)}, tmp_path / "weights")
    lost = read_tensors(path)
    settings = '{"stack.layers.0.attention.query_projection": {"alpha": 3.0, "dropout": 0.0}}'
    save_file(
        {k: v for k, v in lost.items() if not k.endswith("query_projection.up")},
        tmp_path / "half",
        metadata={"attnbook.lora": settings},
    )
    net, other = model(), torch.nn.Sequential(torch.nn.Linear(3, 3))
    for what, refused in [
        ("complete", lambda: load_lora(net, damaged)),
        ("save_lora", lambda: load_lora(net, tmp_path / "weights")),
        ("two matrices", lambda: load_lora(net, tmp_path / "half")),
        ("has no", lambda: load_lora(other, path)),
        ("no linear layer from", lambda: load_lora(model(24), path)),
        ("LoRA layers", lambda: save_lora(model(), tmp_path / "none")),
    ]:
        with pytest.raises(ValueError, match=what):
            refused()
    assert not lora_layers(net) and all(p.requires_grad for p in net.parameters())
    assert not (tmp_path / "none").exists()


def test_numbers_that_are_not_finite_are_not_written(tmp_path):
    net = tuned()
    with torch.no_grad():
        next(iter(lora_layers(net).values())).up[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"^model must be finite"):
        save_lora(net, tmp_path / "adapter")
    assert not [*tmp_path.iterdir()]
