"""The delta rule is the write head of an external memory: its slots are the features of the key."""

import torch

from attnbook import linear_attention
from attnbook.kernels.memory_step import HeadParameters, memory_step
from attnbook.mechanisms.memory.addressing import write

from ..agreement import assert_same


def test_a_head_at_one_slot_with_erase_β_and_add_βv_is_the_delta_rule():
    """A hard address w = k, the erase vector (β, …, β), the add vector β v; the read head at w = q
    reads after the write."""
    g = torch.Generator().manual_seed(0)
    memory = torch.randn(1, 6, 3, generator=g, dtype=torch.float64)
    strength = torch.rand(1, 5, generator=g, dtype=torch.float64)
    slots = torch.eye(6, dtype=torch.float64)
    query, key = slots[torch.tensor([[[1, 2, 2, 0, 5]], [[2, 0, 2, 5, 2]]])]  # slot 2 again
    value = torch.randn(1, 5, 3, generator=g, dtype=torch.float64)
    context, state = linear_attention(query, key, value, strength=strength, state=memory)
    for t in range(5):
        heads = HeadParameters(
            key=torch.randn(1, 2, 3, generator=g, dtype=torch.float64),  # content is not asked:
            strength=torch.ones(1, 2, dtype=torch.float64),
            gate=torch.zeros(1, 2, dtype=torch.float64),  # the address is that of before,
            kernel=torch.tensor([[[0.0, 1, 0]] * 2], dtype=torch.float64),  # not shifted
            gamma=torch.ones(1, 2, dtype=torch.float64),
            erase=strength[:, t, None, None].expand(1, 1, 3),
            add=strength[:, t, None, None] * value[:, t, None],
        )
        address = torch.stack([query[:, t], key[:, t]], 1)
        memory, found, _ = memory_step(memory, address, heads)
        assert_same(found, context[:, t, None])
    assert_same(state, memory)


def test_for_any_key_of_length_1_it_is_a_write_that_adds_what_the_read_missed():
    """A soft address w = k: nothing is erased, and added is β (v − r), r what a head reads there;
    erasing by ``1 − w e`` instead takes out other things than were read."""
    g = torch.Generator().manual_seed(0)
    memory = torch.randn(1, 6, 3, generator=g, dtype=torch.float64)
    key = torch.rand(1, 1, 6, generator=g, dtype=torch.float64)
    key = key / key.norm(dim=-1, keepdim=True)
    value = torch.randn(1, 1, 3, generator=g, dtype=torch.float64)
    beta = torch.full((1, 1), 0.6, dtype=torch.float64)
    state = linear_attention(key, key, value, strength=beta, state=memory).state
    missed = value - key @ memory
    assert_same(state, write(memory, key, torch.zeros_like(value), 0.6 * missed))
    erased = write(memory, key, torch.full_like(value, 0.6), 0.6 * value)
    assert (state - erased).abs().max() > 1e-2
    # read again with the whole strength, the memory gives the value
    state = linear_attention(key, key, value, strength=torch.ones_like(beta), state=memory).state
    assert_same(key @ state, value)
