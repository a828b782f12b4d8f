"""Rows of Luong's table 1: each adds one part, which does something."""

import dataclasses

import pytest
import torch
from assertions import assert_refused

from attnbook import Luong, Seq2Seq
from attnbook_runs import load_experiments
from attnbook_runs.translation.luong_ablation import ROWS, Settings, make_model

RUNS = {name: load_experiments()[f"luong-ablation-{name}"].settings for name in ROWS}


def test_each_row_adds_one_part():
    names = list(ROWS)
    for before, after in zip(names, names[1:]):
        old, new = (dataclasses.asdict(RUNS[name]) for name in (before, after))
        changed = {key: new[key] for key in new if new[key] != old[key]}
        assert changed == ROWS[after].changes and len(changed) == 1
    assert [row.bleu for row in ROWS.values()] == sorted(row.bleu for row in ROWS.values())
    small = load_experiments()["multi30k-luong-global-location-small"].settings
    shared = {field.name for field in dataclasses.fields(small)} - {"half_width"}
    assert all(getattr(small, key) == getattr(RUNS["feeding"], key) for key in shared)


@pytest.mark.parametrize("system", ["", "global (dot)", "local-p (general)"])
def test_a_source_that_is_read_from_its_end(system):
    source = torch.tensor([[5, 6, 7, 8], [9, 5, 0, 0]])
    turned = torch.tensor([[8, 7, 6, 5], [5, 9, 0, 0]])
    lengths, target = torch.tensor([4, 2]), torch.tensor([[1, 6, 7], [1, 8, 9]])
    settings = Settings(system=system, d_embed=4, hidden_size=4, dropout=0.0)
    models = []
    for reverse in (False, True):
        torch.manual_seed(0)
        models.append(make_model(10, 10, dataclasses.replace(settings, reverse_source=reverse)))
    plain, reversed_ = (lambda tokens, m=m: m(tokens, lengths, target).logits for m in models)
    torch.testing.assert_close(reversed_(source), plain(turned), rtol=0, atol=0)
    assert (reversed_(source) - plain(source)).abs().max() > 1e-4


def test_a_row_without_attention_has_the_last_state_alone():
    base, attention = (make_model(12, 12, RUNS[name]) for name in ("base", "attention"))
    assert isinstance(base, Seq2Seq) and isinstance(attention, Luong)
    assert not base.context_every_step and base.encoder.mode == attention.encoder.mode == "LSTM"
    assert_refused("input_feeding", lambda: make_model(12, 12, Settings(input_feeding=True)))
    assert_refused("system", lambda: make_model(12, 12, Settings(system="local-q (dot)")))


@pytest.mark.parametrize("name", ["base", "local"])
def test_a_row_has_the_figures_of_the_book(captions, figures_of, name):
    sizes = dict(pieces=60, d_embed=8, hidden_size=8, batch_size=16, steps=12)
    figures = figures_of(f"luong-ablation-{name}", **sizes)
    assert 1 < figures["perplexity_valid"] < 60 and 0 <= figures["bleu_beam5"] <= 100
