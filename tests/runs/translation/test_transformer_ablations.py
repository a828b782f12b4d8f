"""Rows of table 3: each differs from the base in what its name says, and in nothing else."""

import dataclasses

import pytest
import torch

from attnbook.mechanisms import MultiHeadAttention
from attnbook.models import TransformerEncoderModel
from attnbook_runs import load_experiments
from attnbook_runs.translation import transformer
from attnbook_runs.translation.transformer import make_parts
from attnbook_runs.translation.transformer_ablations import BASE, DISTANCES, ROWS

RUNS = load_experiments()
NAMES = [
    *(f"transformer-ablation-{name}" for name in ROWS),
    *(f"transformer-relative-distance-{k}" for k in DISTANCES),
]
TOKENS, ORDER = torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([3, 1, 0, 4, 2])


def model_of(settings) -> TransformerEncoderModel:
    torch.manual_seed(0)
    model = TransformerEncoderModel(20, make_parts(settings), num_layers=settings.num_layers)
    for name, table in model.named_parameters():
        if "distance" in name:  # whose start is small
            torch.nn.init.normal_(table)
    return model.eval()


def test_every_row_differs_in_its_settings_alone():
    base = dataclasses.asdict(BASE)
    for name, row in ROWS.items():
        settings = dataclasses.asdict(RUNS[f"transformer-ablation-{name}"].settings)
        assert {k: v for k, v in settings.items() if v != base[k]} == row.changes
    assert len({repr(RUNS[name].settings) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_another_model_or_another_training(name):
    settings = RUNS[name].settings
    model = model_of(settings)
    shapes, base = ([tuple(p.shape) for p in m.parameters()] for m in (model, model_of(BASE)))
    changed = {key for key, value in vars(settings).items() if value != getattr(BASE, key)}
    assert (shapes == base) == (changed <= {"num_heads", "dropout", "label_smoothing"})
    attention = next(m for m in model.modules() if isinstance(m, MultiHeadAttention))
    assert attention.num_heads == settings.num_heads
    assert attention.d_head_value == settings.d_model // settings.num_heads
    assert attention.d_head == (settings.d_key or attention.d_head_value)
    moved = (model(TOKENS[:, ORDER]).logits - model(TOKENS).logits[:, ORDER]).abs().max()
    nothing = name == "transformer-relative-distance-0"
    assert bool(moved < 1e-5) == nothing, "only k = 0 knows no order"


@pytest.mark.parametrize("name", ["learned", "key-4"])
def test_a_row_has_the_figures_of_the_table(captions, figures_of, name):
    figures = figures_of(
        f"transformer-ablation-{name}",
        **dict(pieces=70, d_model=16, d_feed_forward=16, batch_size=16, steps=8, save_every=2),
        **dict(warmup=4, averaged=3, num_layers=1),
    )
    assert 1 < figures["perplexity_valid"] < 100 and 0 <= figures["bleu_beam5"] <= 100


def test_so_many_pairs_are_read(captions, monkeypatch, figures_of):
    read, batches = [], transformer.SequenceBatches
    monkeypatch.setattr(
        transformer,
        "SequenceBatches",
        lambda pairs, *a, **k: read.append(pairs) or batches(pairs, *a, **k),
    )
    monkeypatch.setattr(transformer, "bleu_figures", lambda *_: {})
    figures_of(
        "transformer-relative-distance-1",
        **dict(pieces=70, d_model=16, d_feed_forward=16, batch_size=16, steps=2, save_every=1),
        **dict(warmup=4, averaged=1, num_layers=1, train_pairs=20),
    )
    assert [len(pairs) for pairs in read] == [20]
