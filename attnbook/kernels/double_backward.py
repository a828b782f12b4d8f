"""Gradients of gradients: the switch for them, and the error where it was not thrown."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

__all__ = ["double_backward"]

_wanted: ContextVar[bool] = ContextVar("double_backward", default=False)


@contextmanager
def double_backward() -> Iterator[None]:
    """Run the forward pass so that its gradients can be differentiated again.

    The quickest ways to a context and to a step of the memory have a backward pass that is itself
    no graph: PyTorch's fused attention on every device, attention in blocks, a step of the Neural
    Turing Machine, the smoothed cross-entropy. Gradient penalties and Hessian-vector products
    differentiate twice; under this switch every mechanism, model and loss of the library takes the
    operations whose gradients PyTorch can differentiate as often as you like. They store the m×n
    weights.

    Example::

        with attnbook.double_backward():
            loss = model(x).sum()
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        slope.square().sum().backward()

    What remains is PyTorch's: cuDNN's recurrent networks (``torch.backends.cudnn.flags(
    enabled=False)`` around the forward pass helps) and whatever ``torch.compile`` has compiled
    cannot be differentiated twice.
    """
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def under_double_backward() -> bool:
    """Whether the forward pass that runs stands under :func:`double_backward`."""
    return not torch.compiler.is_compiling() and _wanted.get()


def check_once(what: str) -> None:
    """Raise a ``RuntimeError`` if the backward pass that calls this, of ``what``, is to be
    differentiated again.

    PyTorch's ``once_differentiable`` says so only where the gradient that comes in needs a gradient
    itself; else the result would silently be a constant."""
    if torch.is_grad_enabled():  # in a backward pass under create_graph=True alone
        raise RuntimeError(
            f"{what} can be differentiated once, and create_graph=True asks for more: run the "
            "forward pass under `with attnbook.double_backward():`"
        )
