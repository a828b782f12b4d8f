"""Positions in a tree against walks over a graph, and attention against a vector a pair."""

import math

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook import padding_mask
from attnbook.mechanisms import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_distance,
    tree_offset,
)

from ..agreement import assert_agree, assert_same, drawn, randomised


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
    sign = np.ones_like(distance)
    for i, j in np.ndindex(sign.shape):
        if j in above[i] or (i not in above[j] and j < i):
            sign[i, j] = -1
    return distance * sign


def grown(n, seed):
    """A random tree of n words in any order: each but the root hangs on one that stood before."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(n).tolist()
    heads = [-1] * n
    for k in range(1, n):
        heads[order[k]] = order[draw.integers(k)]
    return heads


def padded(trees, fill=-1):
    lengths = torch.tensor([len(heads) for heads in trees])
    n = int(lengths.max())
    return torch.tensor([[*heads, *[fill] * (n - len(heads))] for heads in trees]), lengths


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
    distance, offset = tree_distance(heads, lengths), tree_offset(heads, lengths)
    for b, tree in enumerate(trees):
        n = len(tree)
        expected_depth, expected_distance, _ = walk(tree)
        assert depth[b, :n].tolist() == expected_depth.tolist() and not depth[b, n:].any()
        assert distance[b, :n, :n].tolist() == expected_distance.tolist()
        assert offset[b, :n, :n].tolist() == signed(tree).tolist()
        for pairs in (distance[b], offset[b]):
            assert not pairs[n:].any() and not pairs[:, n:].any()
    assert torch.equal(tree_offset(heads[None], lengths[None])[0], offset)
    assert depth.dtype == distance.dtype == offset.dtype == torch.int64


def test_a_long_chain_keeps_its_count_in_half_precision():
    chain = torch.arange(-1, 599)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(tree_depth(chain), torch.arange(600))
        assert tree_distance(chain)[0, 599] == 599 and tree_distance(chain)[300, 599] == 299


TREE = [1, 4, 3, 1, -1, 7, 7, 4]  # the dogs near trees see the red cats
FAR = abs(np.subtract.outer(np.arange(8), np.arange(8)))
LATER = np.where(np.arange(8) > np.arange(8)[:, None], 1, -1)
WRONG = {  # of the depth d, the distance r and the offset o
    "depth of the root is 1": lambda d, r, o: (d + 1, r, o),
    "distance as a difference of depths": lambda d, r, o: (d, abs(d[:, None] - d), o),
    "every way leads over the root": lambda d, r, o: (d, (d[:, None] + d) * (1 - np.eye(8)), o),
    "distance in the sentence": lambda d, r, o: (d, FAR, o),
    "offset from key to query": lambda d, r, o: (d, r, -o),
    "offset signed by the sentence alone": lambda d, r, o: (d, r, r * LATER),
    "offset without a sign": lambda d, r, o: (d, r, r),
}


@pytest.mark.parametrize("mistake", [None, *WRONG])
def test_known_wrong_versions_are_told_apart(mistake):
    expected, heads = (*walk(TREE)[:2], signed(TREE)), torch.tensor(TREE)
    expected = WRONG[mistake](*expected) if mistake else expected
    found = (tree_depth(heads), tree_distance(heads), tree_offset(heads))
    same = [np.array_equal(f, e) for f, e in zip(found, expected)]
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


def layer():
    return randomised(SyntacticMultiHeadAttention(D, H, max_distance=K, max_tree_distance=KT))


def every_pair(made, x, offset, mask, flip=1, tree=True):
    """The formula with a vector for every pair of words."""
    n = x.shape[1]
    q, k, v = (
        getattr(made, f"{name}_projection")(x).view(len(x), n, H, -1).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    near = (torch.arange(n) - torch.arange(n)[:, None]).clamp(-K, K) + K
    in_tree = (flip * offset).clamp(-KT, KT)[:, None] + KT  # (B, 1, n, n)
    keys = made.key_distance[near] + tree * made.key_offset[in_tree]
    values = made.value_distance[near] + tree * made.value_offset[in_tree]
    e = (q[:, :, :, None] * (k[:, :, None] + keys)).sum(-1) / math.sqrt(made.d_head)
    weights = e.masked_fill(~mask[:, None], -math.inf).softmax(-1)
    z = (weights[..., None] * (v[:, :, None] + values)).sum(3)
    return made.output_projection(z.transpose(1, 2).flatten(2)), weights


def test_attention_equals_a_vector_for_every_pair_in_value_and_gradient():
    made, (heads, lengths) = layer(), tree_batch()
    assert made.key_offset.shape == (2 * made.max_tree_distance + 1, made.d_head)
    offset, mask = tree_offset(heads, lengths), padding_mask(lengths, N)[:, None].expand(B, N, N)
    theirs = lambda x: every_pair(made, x, offset, mask)  # noqa: E731
    ours = lambda x: made(x, offset, mask=mask)  # noqa: E731
    assert_agree(ours, theirs, (B, N, D), [*made.parameters()])
    x = drawn(B, N, D)
    assert (made(x, offset, mask=mask).weights[1, :, :, 5:] == 0).all()
    assert made(x, offset, mask=mask, need_weights=False).weights is None
    of_heads = mask[:, None] & (torch.rand(B, H, N, N) < 0.7)
    assert (made(x, offset, mask=of_heads).weights[~of_heads.expand(B, H, N, N)] == 0).all()
    for wrong in (dict(flip=-1), dict(tree=False)):
        other = every_pair(made, x, offset, mask, **wrong)[0]
        assert (other - made(x, offset, mask=mask).context).abs().max() > 1e-2


def test_structural_positions_equal_the_formula():
    made, x = randomised(StructuralPositions(6)), drawn(B, N, 6)
    depth, expected = tree_depth(*tree_batch()), x.numpy().copy()

    def pe(p):
        return [f(p / 10000 ** (2 * k / 6)) for k in range(3) for f in (math.sin, math.cos)]

    w, b = made.mix.weight.detach().numpy(), made.mix.bias.detach().numpy()
    for s, p in np.ndindex(B, N):
        expected[s, p] += np.tanh(w @ np.array(pe(p) + pe(int(depth[s, p]))) + b)
    assert_same(made(x, depth), torch.tensor(expected))
    made(x, depth).sum().backward()
    assert made.mix.weight.grad.abs().min() > 0
    assert made.bfloat16()(x.bfloat16(), depth).dtype == torch.bfloat16


def test_offsets_of_any_whole_type_are_offsets():
    made, x, offset = layer(), drawn(B, N, D), tree_offset(*tree_batch())
    for dtype in (torch.int8, torch.int32):
        assert torch.equal(made(x, offset.to(dtype)).context, made(x, offset).context)


WORDS, DEPTH = torch.zeros(1, 2, 4), torch.zeros(1, 2).long()
NONE = {"max_distance": 2, "max_tree_distance": 0}
test_bad_input_is_named = refusals(
    ("d_model must be even", lambda: StructuralPositions(5)),
    ("d_model", lambda: StructuralPositions(0)),
    ("x", lambda: StructuralPositions(6)(WORDS, DEPTH)),
    ("depth must be (1", lambda: StructuralPositions(4)(WORDS, DEPTH[:, :1])),
    ("depth", lambda: StructuralPositions(4)(WORDS, DEPTH.float())),
    ("offset must be (1", lambda: layer()(drawn(1, 2, D), torch.zeros(1, 2, 3).long())),
    ("offset", lambda: layer()(drawn(1, 2, D), torch.zeros(1, 2, 2))),
    ("max_tree_distance", lambda: SyntacticMultiHeadAttention(D, H, **NONE)),
)
