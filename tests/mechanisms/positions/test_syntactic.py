"""Positions in a tree against walks over a graph (NumPy, Floyd and Warshall), and attention
against a vector for every pair.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusals

from attnbook import RelativeMultiHeadAttention, padding_mask
from attnbook.mechanisms import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_distance,
    tree_offset,
)

from ..agreement import EXACT, assert_agree, randomised


def walk(heads):
    """Depths and distances of one tree by Floyd and Warshall; ways up by following heads."""
    n = len(heads)
    distance = np.full((n, n), 10**6)
    np.fill_diagonal(distance, 0)
    for child, head in enumerate(heads):
        if head >= 0:
            distance[child, head] = distance[head, child] = 1
    for k in range(n):
        distance = np.minimum(distance, distance[:, k, None] + distance[None, k])
    above = [[] for _ in heads]
    for word in range(n):
        at = word
        while heads[at] >= 0:
            at = heads[at]
            above[word].append(at)
    return distance[:, heads.index(-1)], distance, above


def signed(heads):
    _, distance, above = walk(heads)
    n = len(heads)
    sign = np.array(
        [
            [-1 if j in above[i] else 1 if i in above[j] else 1 if j > i else -1 for j in range(n)]
            for i in range(n)
        ]
    )
    return distance * sign


def grown(n, seed):
    """A random tree of n words in any order: each word but the root hangs on one that stood
    there before.
    """
    draw = np.random.default_rng(seed)
    order = draw.permutation(n).tolist()
    heads = [-1] * n
    for k in range(1, n):
        heads[order[k]] = order[draw.integers(k)]
    return heads


def padded(trees, fill=-1):
    n = max(map(len, trees))
    return torch.tensor([[*heads, *[fill] * (n - len(heads))] for heads in trees]), torch.tensor(
        [len(heads) for heads in trees]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 14), min_size=1, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from([-1, 0, 77]),
)
def test_a_batch_equals_walks_over_each_tree_whatever_stands_at_the_padding(sizes, seed, fill):
    trees = [grown(n, seed + k) for k, n in enumerate(sizes)]
    heads, lengths = padded(trees, fill)
    depth = tree_depth(heads, lengths)
    distance = tree_distance(heads, lengths)
    offset = tree_offset(heads, lengths)
    for b, tree in enumerate(trees):
        n = len(tree)
        expected_depth, expected_distance, _ = walk(tree)
        assert depth[b, :n].tolist() == expected_depth.tolist() and not depth[b, n:].any()
        assert distance[b, :n, :n].tolist() == expected_distance.tolist()
        assert offset[b, :n, :n].tolist() == signed(tree).tolist()
        assert (
            not distance[b, n:].any()
            and not distance[b, :, n:].any()
            and not offset[b, n:].any()
            and not offset[b, :, n:].any()
        )
    assert depth.dtype == distance.dtype == offset.dtype == torch.int64


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 14), st.integers(0, 10**6))
def test_what_holds_in_every_tree(n, seed):
    tree = grown(n, seed)
    heads = torch.tensor(tree)
    depth, distance, offset = tree_depth(heads), tree_distance(heads), tree_offset(heads)
    assert (
        torch.equal(distance, distance.T)
        and torch.equal(offset, -offset.T)
        and torch.equal(offset.abs(), distance)
    )
    assert torch.equal(distance[tree.index(-1)], depth)
    # no way round is shorter
    assert ((distance[:, :, None] + distance[None]).amin(1) >= distance).all()
    for child, head in enumerate(tree):
        if head >= 0:
            assert (
                distance[child, head] == 1
                and offset[child, head] == -1
                and depth[child] == depth[head] + 1
            )
    stacked = torch.stack([heads, heads])[None]
    assert torch.equal(tree_offset(stacked)[0, 1], offset)


def test_a_long_chain_keeps_its_count_in_half_precision():
    chain = torch.arange(-1, 599)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(tree_depth(chain), torch.arange(600))
        assert tree_distance(chain)[0, 599] == 599 and tree_distance(chain)[300, 599] == 299


TREE = [1, 4, 3, 1, -1, 7, 7, 4]  # the dogs near trees see the red cats
WRONG = {
    "depth of the root is 1": lambda depth, distance, offset, above: (depth + 1, distance, offset),
    "distance as a difference of depths": lambda depth, distance, offset, above: (
        depth,
        abs(depth[:, None] - depth),
        offset,
    ),
    "every way leads over the root": lambda depth, distance, offset, above: (
        depth,
        depth[:, None] + depth - 2 * depth * np.eye(8, dtype=int),
        offset,
    ),
    "distance in the sentence": lambda depth, distance, offset, above: (
        depth,
        abs(np.subtract.outer(np.arange(8), np.arange(8))),
        offset,
    ),
    "offset from key to query": lambda depth, distance, offset, above: (depth, distance, -offset),
    "offset signed by the sentence alone": lambda depth, distance, offset, above: (
        depth,
        distance,
        distance * np.where(np.arange(8) > np.arange(8)[:, None], 1, -1),
    ),
    "offset without a sign": lambda depth, distance, offset, above: (depth, distance, distance),
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_versions_are_told_apart(mistake):
    depth, distance, above = walk(TREE)
    expected = (
        (depth, distance, signed(TREE))
        if mistake is None
        else WRONG[mistake](depth, distance, signed(TREE), above)
    )
    heads = torch.tensor(TREE)
    same = [
        torch.equal(got, torch.as_tensor(np.asarray(want)).long())
        for got, want in zip(
            (tree_depth(heads), tree_distance(heads), tree_offset(heads)), expected
        )
    ]
    assert all(same) == (mistake is None)


@pytest.mark.parametrize(
    ("heads", "lengths", "words"),
    [
        ([[-1, -1]], None, r"one root \(−1\) a sentence, got \[2\]"),
        ([[1, 0]], None, r"one root \(−1\) a sentence, got \[0\]"),
        ([[-1, 2, 1]], None, r"words in a ring: \[\[0, 1\], \[0, 2\]\]"),
        ([[-1, 1]], None, r"words in a ring: \[\[0, 1\]\]"),
        ([[-1, 5]], None, r"words of the same sentence, or −1 for the root, got \[5\]"),
        ([[-1, -2]], None, r"words of the same sentence.*got \[-2\]"),
        ([[-1, 2, 0]], [2], r"words of the same sentence.*got \[2\] in sentences of lengths \[2\]"),
        ([[-1, 0]], [3], "lengths must be between 1 and 2, got numbers from 3 to 3"),
        ([[-1, 0]], [0], "lengths must be"),
        ([[-1, 0]], [[2]], "lengths must have the shape"),
        ([[-1.0, 0.0]], None, "^heads must"),
        ([[]], None, "heads must be"),
    ],
)
def test_what_is_no_tree_is_named(heads, lengths, words):
    for function in (tree_depth, tree_distance, tree_offset):
        with pytest.raises(ValueError, match=words):
            function(torch.tensor(heads), None if lengths is None else torch.tensor(lengths))


# -- the modules

B, N, D, H, K, KT = 2, 8, 12, 3, 2, 3


def tree_batch():
    return padded([TREE, [2, 2, -1, 2, 3]])


def layer(**options):
    torch.manual_seed(0)
    return randomised(
        SyntacticMultiHeadAttention(D, H, max_distance=K, max_tree_distance=KT, **options)
    )


def every_pair(made, x, offset, mask, flip=1, tree=True):
    """The formula with a vector for every pair of words."""
    n = x.shape[1]
    q, k, v = (
        getattr(made, f"{name}_projection")(x).view(len(x), n, H, -1).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    place = torch.arange(n)
    near = (place - place[:, None]).clamp(-K, K) + K
    in_tree = (flip * offset).clamp(-KT, KT)[:, None] + KT  # (B, 1, n, n)

    def pairs(sequence, branches):
        none = torch.zeros(1, dtype=x.dtype)
        return (none if sequence is None else sequence[near]) + (
            none if branches is None or not tree else branches[in_tree]
        )

    e = (q[:, :, :, None] * (k[:, :, None] + pairs(made.key_distance, made.key_offset))).sum(
        -1
    ) / math.sqrt(made.d_head)
    weights = e.masked_fill(~mask[:, None], -math.inf).softmax(-1)
    z = (weights[..., None] * (v[:, :, None] + pairs(made.value_distance, made.value_offset))).sum(
        3
    )
    return made.output_projection(z.transpose(1, 2).flatten(2)), weights


def test_attention_equals_a_vector_for_every_pair_in_value_and_gradient():
    made, (heads, lengths) = layer(), tree_batch()
    assert made.key_offset.shape == (2 * made.max_tree_distance + 1, made.d_head)
    offset, mask = tree_offset(heads, lengths), padding_mask(lengths, N)[:, None].expand(B, N, N)
    assert_agree(
        lambda x: made(x, offset, mask),
        lambda x: every_pair(made, x, offset, mask),
        (B, N, D),
        [*made.parameters()],
    )
    x = torch.randn(B, N, D).double()
    assert (made(x, offset, mask).weights[1, :, :, 5:] == 0).all()
    assert made(x, offset, mask, need_weights=False).weights is None
    of_heads = mask[:, None] & (torch.rand(B, H, N, N) < 0.7)
    assert (made(x, offset, of_heads).weights[~of_heads.expand(B, H, N, N)] == 0).all()
    for wrong in (dict(flip=-1), dict(tree=False)):
        assert (
            every_pair(made, x, offset, mask, **wrong)[0] - made(x, offset, mask).context
        ).abs().max() > 1e-2


def test_without_the_tables_of_the_tree_it_is_relative_attention():
    made, x = layer(), torch.randn(B, N, D).double()
    heads, lengths = tree_batch()
    plain = RelativeMultiHeadAttention(D, H, max_distance=K).double()
    plain.load_state_dict(
        {name: t for name, t in made.state_dict().items() if "offset" not in name}
    )
    with torch.no_grad():
        made.key_offset.zero_(), made.value_offset.zero_()
    torch.testing.assert_close(
        made(x, tree_offset(heads, lengths)).context, plain(x).context, **EXACT
    )


def test_structural_positions_equal_the_formula():
    torch.manual_seed(0)
    made, x = StructuralPositions(6).double(), torch.randn(B, N, 6).double()
    depth = tree_depth(*tree_batch())

    def pe(p):
        return np.array(
            [f(p / 10000 ** (2 * k / 6)) for k in range(3) for f in (math.sin, math.cos)]
        )

    w, b = made.mix.weight.detach().numpy(), made.mix.bias.detach().numpy()
    expected = np.array(
        [
            [
                x[s, p].numpy() + np.tanh(w @ np.concatenate([pe(p), pe(int(depth[s, p]))]) + b)
                for p in range(N)
            ]
            for s in range(B)
        ]
    )
    torch.testing.assert_close(made(x, depth), torch.tensor(expected), **EXACT)
    made(x, depth).sum().backward()
    assert made.mix.weight.grad.abs().min() > 0
    assert made.bfloat16()(x.bfloat16(), depth).dtype == torch.bfloat16


def test_offsets_of_any_whole_type_are_offsets():
    made, x, offset = layer(), torch.randn(B, N, D).double(), tree_offset(*tree_batch())
    for dtype in (torch.int8, torch.int32):
        torch.testing.assert_close(
            made(x, offset.to(dtype)).context, made(x, offset).context, atol=0, rtol=0
        )


test_bad_input_is_named = refusals(
    ("d_model must be even", lambda: StructuralPositions(5)),
    ("d_model", lambda: StructuralPositions(0)),
    ("x", lambda: StructuralPositions(4)(torch.zeros(1, 2, 6), torch.zeros(1, 2).long())),
    (
        "depth must be (1",
        lambda: StructuralPositions(4)(torch.zeros(1, 2, 4), torch.zeros(1, 3).long()),
    ),
    ("depth", lambda: StructuralPositions(4)(torch.zeros(1, 2, 4), torch.zeros(1, 2))),
    (
        "offset must be (1",
        lambda: layer()(torch.zeros(1, 2, D).double(), torch.zeros(1, 2, 3).long()),
    ),
    ("offset", lambda: layer()(torch.zeros(1, 2, D).double(), torch.zeros(1, 2, 2))),
    (
        "max_tree_distance",
        lambda: SyntacticMultiHeadAttention(D, H, max_distance=2, max_tree_distance=0),
    ),
)
