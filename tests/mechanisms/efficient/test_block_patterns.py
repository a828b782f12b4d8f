from functools import partial

import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook import ScaledDotScore, attend, bigbird_mask, causal_mask, receptive_field


def blocks_of(mask, size):
    """Which blocks see which; a block is all seen or not at all."""
    n = len(mask)
    blocks = -(-n // size)
    seen = torch.zeros(blocks, blocks, dtype=torch.bool)
    for i in range(n):
        for j in range(n):
            first = mask[i // size * size, j // size * size]
            assert mask[i, j] == first
            seen[i // size, j // size] = first
    return seen


COUNTS = (st.integers(1, 40), st.integers(1, 5), st.integers(0, 3), st.sampled_from([1, 3, 5]))


@settings(max_examples=30, deadline=None)
@given(*COUNTS, st.integers(0, 4), st.integers(0, 99))
def test_every_block_sees_the_global_ones_its_window_and_so_many_drawn_ones(n, size, g, w, r, seed):
    mask = bigbird_mask(n, size, global_blocks=g, window_blocks=w, random_blocks=r, seed=seed)
    seen = blocks_of(mask, size)
    blocks = len(seen)
    for a in range(blocks):
        certain = {*range(min(g, blocks)), *(b for b in range(blocks) if abs(a - b) <= w // 2)}
        found = set(seen[a].nonzero().flatten().tolist())
        if a < g:
            assert found == set(range(blocks))
        else:
            assert certain <= found and len(found) == min(blocks, len(certain) + r)


def test_the_draw_is_that_of_its_seed_and_reaches_all_blocks(monkeypatch):
    options = {"global_blocks": 0, "window_blocks": 1, "random_blocks": 2}
    draws = [bigbird_mask(12, 1, seed=seed, **options) for seed in range(60)]
    assert torch.equal(draws[7], bigbird_mask(12, 1, seed=7, **options))
    monkeypatch.setattr(torch, "rand", partial(torch.rand, dtype=torch.float64))  # by default
    assert torch.equal(draws[7], bigbird_mask(12, 1, seed=7, **options))
    times = sum(draw.float() for draw in draws)
    assert (times[~torch.eye(12, dtype=torch.bool)] > 0).all()


def test_the_allowed_pairs_grow_with_the_length():
    pairs = [bigbird_mask(n, 16).sum().item() for n in (1024, 2048)]
    # 8 blocks of 16 for each position; and two global blocks of rows
    assert pairs[1] < 2.05 * pairs[0] < 2.05 * 1024 * (8 + 2) * 16


def known_by(*masks):
    """Step by step: what a position knows, those that it attends to knew."""
    n = len(masks[0])
    known = [{i} for i in range(n)]
    for mask in masks:
        known = [known[i].union(*(known[j] for j in range(n) if mask[i, j])) for i in range(n)]
    return torch.tensor([[j in known[i] for j in range(n)] for i in range(n)])


def random_mask(n, seed):
    return torch.rand(n, n, generator=torch.Generator().manual_seed(seed)) < 0.15


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 999))
def test_the_receptive_field_is_what_is_handed_on(n, layers, seed):
    masks = [random_mask(n, seed + k) for k in range(layers)]
    assert torch.equal(receptive_field(*masks), known_by(*masks))
    batch = receptive_field(*(torch.stack([m, ~m]) for m in masks))
    assert torch.equal(batch[1], known_by(*(~m for m in masks)))


def test_it_is_where_gradients_of_a_stack_are_not_zero():
    masks = [random_mask(9, seed) for seed in (2, 5)]

    def stack(x):
        for mask in masks:
            x = x + attend(ScaledDotScore(), x, x, mask=mask).context
        return x.sum(-1)

    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)).double()
    slopes = torch.autograd.functional.jacobian(stack, x).abs().sum(-1)
    assert torch.equal(slopes > 0, receptive_field(*masks))
    assert not torch.equal(slopes > 0, receptive_field(*masks[::-1]))  # the order of layers counts
    assert not torch.equal(slopes > 0, receptive_field(*(mask.T for mask in masks)))


def test_a_window_hands_on_so_many_a_layer_and_a_global_block_all_in_two():
    n, window = 30, 3
    near = causal_mask(n) & ~torch.ones(n, n, dtype=torch.bool).tril(-window)
    for layers in (1, 2, 4):
        assert receptive_field(*[near] * layers)[-1].sum() == 1 + layers * (window - 1)
    sparse = bigbird_mask(n, 3, global_blocks=1, window_blocks=1, random_blocks=0)
    assert not sparse.all() and receptive_field(sparse, sparse).all()


test_arguments = refusals(
    ("length", lambda: bigbird_mask(0)),
    ("block_length", lambda: bigbird_mask(9, 0)),
    ("window_blocks", lambda: bigbird_mask(9, 2, window_blocks=2)),
    ("random_blocks", lambda: bigbird_mask(9, 2, random_blocks=-1)),
    ("masks must be at", lambda: receptive_field()),
    ("masks must be square", lambda: receptive_field(torch.ones(2, 3).bool())),
    ("mask", lambda: receptive_field(torch.ones(2, 2))),
    ("masks must be of", lambda: receptive_field(causal_mask(2), causal_mask(3))),
)
