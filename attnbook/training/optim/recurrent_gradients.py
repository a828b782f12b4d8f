"""Training through many steps of a recurrent machine: gradients are clipped at every step."""

from collections.abc import Iterator
from contextlib import contextmanager

from ...validate import check_number

__all__ = ["clipped_backward"]


@contextmanager
def clipped_backward(net, limit: float) -> Iterator[None]:
    """Inside the block, clip each entry of the state's gradient at every step of ``net.cell``.

    With L the loss and s_t the state after step t (memory, weights, reads, controller), what flows
    back into step t is

        ``min(max(∂L/∂s_t, −limit), limit)``, entry by entry.

    The gradient through T steps is a product of T Jacobians; where they stretch, it leaves the
    range of float32 long before an optimiser could clip it (a machine with content addressing and
    200 steps does). Values do not change, and neither do gradients whose entries all stay within
    the limit.

    Args:
        net: an :class:`attnbook.NTM`, compiled or not.
        limit: in units of the loss: for a loss that is a mean, so many times smaller than for a
            sum.

    Source: the clipping of "all the gradient components during the backward pass" of Graves, Wayne
    and Danihelka 2014, section 4.6, read as Graves 2013, section 2.1, does it: on the derivatives
    inside the network.
    """
    check_number("limit", limit, above=0)
    if not hasattr(net, "cell"):
        raise ValueError(f"net must have a method cell(x, state), got {type(net).__name__}")
    replaced, cell = "cell" in vars(net), net.cell

    def clip(gradient):
        # a compiled step passes None for zero
        return None if gradient is None else gradient.clamp(-limit, limit)

    def clipped(x, state):
        output, state, weights = cell(x, state)
        for part in (state.memory, state.weights, state.reads, *state.controller):
            if part.requires_grad:
                part.register_hook(clip)
        return output, state, weights

    net.cell = clipped
    try:
        yield
    finally:
        if replaced:
            net.cell = cell
        else:
            del net.cell
