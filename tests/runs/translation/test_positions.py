"""The runs on positions: short ones learn what they can, broken twins do not."""

import pytest
import torch
from assertions import assert_refused
from watching import modes_are_kept

from attnbook.tasks import Vocabulary
from attnbook.tasks.algorithms.order import OrderBatches
from attnbook.tasks.text.treebank import collate_trees, tokens, treebank
from attnbook_runs.translation.positions import (
    KINDS,
    SYNTAX,
    AgreementSettings,
    ExtrapolationSettings,
    agreement,
    answer_loss,
    extrapolation,
    order_model,
    order_scores,
    tree_model,
    tree_scores,
)

VOCABULARY = Vocabulary(tokens())


def test_relative_positions_learn_the_letter_before_and_no_positions_do_not():
    given = dict(kinds=("none", "relative"), length=(4, 8), lengths=(8, 16), learning_rate=0.005)
    rows = extrapolation(ExtrapolationSettings(order="before", steps=250, **given))["kinds"]
    assert min(rows["relative"]["right"]) > 0.9 and max(rows["none"]["right"]) < 0.5
    assert rows["relative"]["loss"] < rows["none"]["loss"]


@pytest.mark.parametrize("kind", [*KINDS, "sinusoidal, random start", "learned, random start"])
def test_models_differ_in_their_positions_alone(kind):
    torch.manual_seed(0)
    model, tokens = order_model(kind, longest=20), torch.tensor([[1, 2, 3, 4, 5, 6]])
    model.eval()
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    moved = (model(tokens[:, order]).logits - model(tokens).logits[:, order]).abs().max()
    assert bool(moved < 1e-5) == (kind == "none")
    torch.testing.assert_close(model(tokens).logits, model(tokens).logits)
    model.train()
    again = (model(tokens).logits - model(tokens).logits).abs().max()
    assert bool(again > 1e-4) == kind.endswith("random start")
    total, count = answer_loss(model, OrderBatches("reverse", 5, 8).batch(0))
    assert count == 40 and total > 0
    assert 0 <= order_scores(model, "reverse", [5])[0] <= 1


def test_scores_keep_the_modes():
    model = order_model("none", longest=20)
    assert modes_are_kept(model, lambda: order_scores(model, "reverse", [5], texts=4))


@pytest.mark.parametrize("kind", SYNTAX)
def test_tree_models_score_verbs(kind):
    torch.manual_seed(0)
    model, trees = tree_model(kind, len(VOCABULARY)), treebank(20, seed=1, insertions=2)
    total, count = answer_loss(model, collate_trees(trees, VOCABULARY))
    assert count == sum(d >= 0 for tree in trees for d in tree.decided) and total > 0
    found = tree_scores(model, VOCABULARY, trees, chain=kind.endswith("chain"))
    assert set(found) == {"main", "inner"} and found["main"] < 0.5
    assert tree_scores(model, VOCABULARY, treebank(3, seed=1, insertions=0))["inner"] is None


def test_a_short_run_with_trees_is_ahead_of_one_with_chains():
    kinds = ("relative and tree", "relative and chain")
    given = dict(tests=(4,), sentences=100, steps=150, batch_size=32, learning_rate=0.005)
    rows = agreement(AgreementSettings(kinds=kinds, **given))["kinds"]
    assert rows["relative and tree"]["inner"][0] > rows["relative and chain"]["inner"][0] + 0.05


def test_an_unknown_kind_is_refused():
    for call in (
        lambda: order_model("rotary"),
        lambda: order_model("relative, random start"),
        lambda: tree_model("none", 5),
    ):
        assert_refused("kind", call)
