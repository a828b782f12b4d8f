"""Windows and sinks: texts, measures, and a short run in which dropping the first token costs."""

from dataclasses import replace

import pytest
import torch

from attnbook.tasks.sequences.vocabulary import BOS
from attnbook.tasks.text import characters
from attnbook_runs import load_experiments
from attnbook_runs.language import windows_and_sinks as experiment

LINES = ("to be, or not to be: that is the question\n", "whether it is nobler in the mind\n")
SMALL = dict(length=16, d_model=16, batch_size=8, steps=3, texts=5, times=3, windows=(4, 8))


@pytest.fixture(autouse=True)
def text(monkeypatch):
    monkeypatch.setattr(characters, "shakespeare", lambda: "".join(LINES) * 100)


@pytest.mark.parametrize("kind", experiment.TEXTS)
def test_texts_begin_with_one_token_and_copies_copy(kind):
    draw, held_out, size = experiment.texts_of(kind)
    drawn = draw(6, 50, torch.Generator().manual_seed(0))
    for texts in (drawn, held_out(6, 50)):
        assert texts.shape == (6, 51) and (texts[:, 0] == BOS).all()
        assert (texts[:, 1:] > BOS).all() and (texts < size).all()
    assert torch.equal(drawn, draw(6, 50, torch.Generator().manual_seed(0)))
    behind = drawn[:, 2:-1] < 4 + experiment.TRIGGERS  # after the specials
    again = (drawn[:, 3:] == drawn[:, 1:-2]).float()
    if kind == "copies":
        assert again[behind].mean() == 1 and 0 < again[~behind].mean() < 0.2
        assert behind.float().mean() < 0.4  # at the others the head has no work


@pytest.mark.parametrize("name", ["windows-and-sinks", "windows-and-sinks-copies"])
def test_a_run_has_the_right_form(name):
    settings = replace(load_experiments()[name].settings, **SMALL)
    figures = experiment.windows_and_sinks(settings)
    ways = {"softmax, all", "learned sink, all", "softmax, 2 + window 2", "softmax, 4 + window 4"}
    kinds = ("softmax", "learned sink")
    ways |= {f"{kind}, window {w}" for kind in kinds for w in (4, 8)}
    ways |= {f"{kind} trained in a window of 4, window 4" for kind in kinds}
    for table in ("loss", "loss_beyond", "weight_beyond"):
        assert set(figures[table]) == ways
    assert all(len(row) == 3 for row in figures["loss"].values())
    for kind in kinds:
        none = figures["weight"][kind]["none"]
        assert len(none) == settings.num_layers and len(none[0]) == settings.num_heads
        assert all((share < 1e-3) == (kind == "softmax") for heads in none for share in heads)
    beyond = figures["weight_beyond"]
    assert all(x == 0 for heads in beyond["softmax, window 4"]["first"] for x in heads)
    assert all(x > 0 for heads in beyond["softmax, 2 + window 2"]["first"] for x in heads)


def test_all_positions_at_once_are_what_a_cache_gives():
    model = experiment.make_model(20, d_model=16, num_layers=2, window=3, sinks=2).double()
    texts = torch.randint(4, 20, (2, 13), generator=torch.Generator().manual_seed(0))
    state, rows = model.begin(2), []
    with torch.no_grad():
        for t in range(12):
            logits, state, _ = model.step(texts[:, t], state)
            rows.append(torch.nn.functional.cross_entropy(logits, texts[:, t + 1]))
    assert state.caches[0].key.shape[-2] == 5
    torch.testing.assert_close(
        experiment.loss_by_position(model, texts), torch.stack(rows), atol=1e-10, rtol=0
    )


def test_a_head_without_work_rests_on_the_first_token_and_misses_it():
    """In copies, soon. The window that drops the first token is the broken twin of the one that
    keeps it; where nothing is learned the loss is 3.26.
    """
    small = dict(length=32, d_model=32, steps=600, texts=32, times=3, windows=(8,))
    settings = replace(load_experiments()["windows-and-sinks-copies"].settings, **small)
    figures = experiment.windows_and_sinks(settings)
    beyond, within = figures["loss_beyond"], figures["loss"]["softmax, all"][0]
    assert abs(beyond["softmax, 4 + window 4"] - within) < 0.15
    assert within < 3.1 and beyond["softmax, window 8"] > within + 0.5
    assert figures["weight"]["softmax"]["first"][0][0] > 0.5
