"""Under autocast the memory step and the addressing are what they are without it."""

import pytest
import torch

from attnbook.kernels.memory_step import HeadParameters, memory_step, plain_memory_step
from attnbook.mechanisms.memory import addressing as A

NEAR = {"atol": 1e-6, "rtol": 0}  # bfloat16 is off by about 1e-3
BATCH, READERS, WRITERS, SLOTS, WIDTH = 2, 2, 2, 5, 3


def arguments():
    """Memory, previous weights and what the heads say, all in float32."""
    torch.manual_seed(0)
    heads = READERS + WRITERS
    message = HeadParameters(
        torch.randn(BATCH, heads, WIDTH),
        torch.randn(BATCH, heads).exp(),
        torch.rand(BATCH, heads),
        torch.randn(BATCH, heads, 3).softmax(-1),
        1 + torch.randn(BATCH, heads).exp(),
        torch.rand(BATCH, WRITERS, WIDTH),
        torch.randn(BATCH, WRITERS, WIDTH),
    )
    given = torch.randn(BATCH, SLOTS, WIDTH), torch.randn(BATCH, heads, SLOTS).softmax(-1)
    memory, previous, *message = (t.requires_grad_() for t in (*given, *message))
    return memory, previous, HeadParameters(*message)


def assert_same_under_autocast(call):
    with torch.autocast("cpu", torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        inside = call()
    for result, expected in zip(inside, call(), strict=True):
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, expected, **NEAR)


@pytest.mark.parametrize("step", [memory_step, plain_memory_step])
def test_a_step_is_the_same(step):
    assert_same_under_autocast(lambda: step(*arguments()))


def test_the_gradient_by_hand_is_the_same():
    def gradients():
        memory, previous, heads = arguments()
        with torch.autocast("cpu", enabled=False):
            out = memory_step(memory, previous, heads)
        ways = [torch.linspace(-1, 2, t.numel()).view_as(t) for t in out]
        return torch.autograd.grad(out, [memory, previous, *heads], ways)

    assert_same_under_autocast(gradients)


def test_addressing_reading_and_writing_are_the_same():
    memory, previous, heads = arguments()
    assert_same_under_autocast(
        lambda: [
            *A.address(memory, previous, *heads[:5]),
            A.content_weights(heads.key, heads.strength, memory),
            A.cosine_similarity(heads.key, memory),
            A.read(memory, previous),
            A.write(memory, previous[:, :WRITERS], heads.erase, heads.add),
        ]
    )
