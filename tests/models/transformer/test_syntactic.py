"""The encoder that is told trees: the plain one where trees say nothing, else moved by them."""

import dataclasses
from functools import partial

import pytest
import torch
from assertions import assert_exact, refusals

from attnbook import RelativeMultiHeadAttention, TransformerEncoderModel, paper_parts
from attnbook.mechanisms import NoPositions
from attnbook.models.transformer.syntactic import SyntacticEncoderModel

from ..properties import assert_every_parameter_learns

V, D, H = 11, 12, 3
PARTS = paper_parts(D, H, 20, dropout=0.0)
TOKENS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 0, 0]])
HEADS, LENGTHS = torch.tensor([[1, -1, 3, 1, 1], [1, -1, 1, -1, -1]]), torch.tensor([5, 3])


def model(**options):
    torch.manual_seed(0)
    made = SyntacticEncoderModel(V, PARTS, num_layers=2, **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return made


@pytest.mark.parametrize("depth", [False, True])
@pytest.mark.parametrize("offsets", [None, 3])
def test_padding_and_other_sentences_change_nothing_and_have_no_weight(depth, offsets):
    made = model(depth=depth, max_tree_distance=offsets)
    logits, weights = made(TOKENS, HEADS, LENGTHS, need_weights=True)
    alone = made(TOKENS[1:, :3], HEADS[1:, :3])
    assert_exact(logits[1:, :3], alone.logits)
    assert len(weights) == 2 and alone.weights is None
    assert all((w[1, :, :, 3:] == 0).all() for w in weights)
    filled = made(TOKENS, torch.where(torch.arange(5) < LENGTHS[:, None], HEADS, 7), LENGTHS)
    assert_exact(filled.logits[1, :3], logits[1, :3])


@pytest.mark.parametrize(
    ("depth", "offsets", "moved"),
    [(False, None, False), (True, None, True), (False, 3, True), (True, 3, True)],
)
def test_another_tree_moves_what_is_told_of_trees_and_nothing_else(depth, offsets, moved):
    made, other = model(depth=depth, max_tree_distance=offsets), HEADS.clone()
    other[0] = torch.tensor([-1, 0, 1, 2, 3])
    difference = (made(TOKENS, HEADS, LENGTHS).logits - made(TOKENS, other, LENGTHS).logits).abs()
    assert bool(difference[0].max() > 1e-3) == moved and difference[1].max() == 0


def test_without_trees_it_is_the_plain_encoder_and_so_with_empty_tables():
    attention = partial(RelativeMultiHeadAttention, D, H, max_distance=2)
    relative = dataclasses.replace(PARTS, positions=NoPositions, attention=attention)
    for parts, options in (
        (PARTS, {"max_tree_distance": None}),
        (relative, {"max_distance": 2, "max_tree_distance": 3}),
    ):
        told = SyntacticEncoderModel(V, parts, num_layers=2, depth=False, **options).double()
        plain = TransformerEncoderModel(V, parts, num_layers=2, tie=False).double()
        state = {}
        for name, tensor in told.state_dict().items():
            if "offset" in name:
                tensor.zero_()  # its own, not a copy
            else:
                state[name.replace("layers.", "stack.layers.", 1)] = tensor
        plain.load_state_dict(state)
        assert_exact(told(TOKENS, HEADS, LENGTHS).logits, plain(TOKENS, LENGTHS).logits)


def test_every_parameter_learns():
    made = model()
    assert_every_parameter_learns(made, made(TOKENS, HEADS, LENGTHS).logits.square().sum())


test_bad_input_is_named = refusals(
    ("heads must be", lambda: model()(TOKENS, HEADS[:, :4], LENGTHS)),
    ("heads must have", lambda: model()(TOKENS, HEADS)),
    ("tokens", lambda: model()(TOKENS + 9, HEADS, LENGTHS)),
    ("parts", lambda: SyntacticEncoderModel(V, {})),
    ("vocabulary_size", lambda: SyntacticEncoderModel(0, PARTS)),
    ("num_layers", lambda: SyntacticEncoderModel(V, PARTS, num_layers=0)),
)
