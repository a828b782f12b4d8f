"""The hidden layer of additive attention: computed block by block, never stored, with its gradient
in closed form.

``e_tj = v·tanh(q_t + k_j)`` takes one tanh for every query, key and hidden unit. As one tensor,
that hidden layer is what additive attention costs: most of the time goes into moving it. Here a
block of it is computed where it is used, in memory that stays in the cache: once in the forward
pass and once more in the backward pass.

With ``σ = sigmoid(2x)``: ``tanh x = 2σ − 1`` and ``d tanh x / dx = 1 − tanh² x = 4 (σ − σ²)``,
where 2, −1 and 4 are applied to the small tensors around the block. And
``sigmoid(2(q + k)) = 1 / (1 + e^{−2q} e^{−2k})``: one exponential for each query and each key, and
for each pair of them a product and a reciprocal, which on a CPU take two fifths of the time of
PyTorch's sigmoid and a twelfth of that of its tanh. Numbers whose exponentials would overflow are
added first. The identities are exact up to the rounding of numbers near 1, not relative to a small
tanh; so the hidden layer is computed in float32 at least, whatever the dtype of the inputs."""

import math
import threading

import torch
from torch import Tensor

from ..validate import is_readable
from .precision import wide_dtype
from .streaming import BlockKernel, Pullback, blocks, check_projected_width

__all__ = ["AdditiveKernel", "additive_scores"]


def additive_scores(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """Score projected queries against projected keys: ``e_tj = v·tanh(q_t + k_j)``.

    Nothing of the size m·n·d is stored, in either pass. Second derivatives (``create_graph=True``)
    go through the formula as it stands and do store it. The transforms of ``torch.func`` work, but
    for forward-mode derivatives, which raise.

    Args:
        query: projected queries ``(…, m, d)``.
        key: projected keys ``(…, n, d)``; leading dimensions broadcast.
        vector: v, ``(d,)``.

    Returns:
        ``(…, m, n)``, in the dtype that query and key promote to.
    """
    if torch.compiler.is_exporting():  # a graph holds no buffers that blocks share
        return _formula(query, key, vector)[1]
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    q, k = (
        t.expand(*batch, *t.shape[-2:]).reshape(batch.numel(), *t.shape[-2:]) for t in (query, key)
    )
    return _AdditiveScores.apply(q, k, vector).view(*batch, q.shape[-2], k.shape[-2])


class Scratch:
    """Two buffers that the blocks of one pass share: to fetch memory anew for each costs more than
    what is computed in it.
    """

    def __init__(self) -> None:
        self._flat: dict[int, Tensor] = {}

    @staticmethod
    def of(query: Tensor) -> "Scratch":
        """The one that all passes of this thread share on a CPU, where a large buffer that is
        returned is memory to be fetched from the system again; else one of its own.
        """
        return vars(_LOCAL).setdefault("scratch", Scratch()) if is_readable(query) else Scratch()

    def take(self, which: int, shape: torch.Size, like: Tensor) -> Tensor:
        """Buffer ``which`` in this shape, with the dtype and device of ``like``; its previous
        content is overwritten.
        """
        flat = self._flat.get(which)
        if (
            flat is None
            or flat.numel() < shape.numel()
            or flat.dtype != like.dtype
            or flat.device != like.device
        ):
            with torch.inference_mode(False):  # for passes of either kind
                flat = self._flat[which] = like.new_empty(shape.numel())
        return flat[: shape.numel()].view(shape)


_LOCAL = threading.local()


class Hidden:
    """The hidden layer of one block, from which its scores and its gradients follow. Not
    differentiable itself.

    No matrix-vector product stands in here: PyTorch leaves those to a library whose threads then
    keep the cores from the operations after it, which took ten times as long.

    Args:
        numbers: what :func:`prepare` made of queries ``(…, m, d)`` and keys ``(…, n, d)`` with
            equal leading dimensions, and whether these are exponentials.
        scratch: shared by the blocks of a pass; the next block overwrites this one.
    """

    def __init__(self, numbers: tuple[Tensor, Tensor, bool], scratch: Scratch) -> None:
        query, key, are_exponentials = numbers
        q, k, self.scratch = query.unsqueeze(-2), key.unsqueeze(-3), scratch
        out = scratch.take(0, torch.broadcast_shapes(q.shape, k.shape), q)
        if are_exponentials:
            torch.addcmul(q.new_ones(()), q, k, out=out).reciprocal_()
        else:
            torch.add(q, k, out=out).neg_().sigmoid_()
        self.sigma = out  # (…, m, n, d)

    def scores(self, vector: Tensor) -> Tensor:
        """``v·tanh(…) + Σ v``, ``(…, m, n)``."""
        product = self.scratch.take(1, self.sigma.shape, self.sigma)
        return torch.mul(self.sigma, 2 * vector, out=product).sum(-1)

    def sums(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the gradient g of the scores, ``(…, m, n)``: ``Σ_j g (σ − σ²)``, ``Σ_t g (σ − σ²)``
        and ``Σ_j g σ``, from which :func:`gradients` follow.
        """
        product = self.scratch.take(1, self.sigma.shape, self.sigma)
        weighted = torch.mul(self.sigma, grad.unsqueeze(-1), out=product)
        of_vector = weighted.sum(-2)
        weighted.addcmul_(weighted, self.sigma, value=-1)
        return weighted.sum(-2), weighted.sum(-3), of_vector


def prepare(query: Tensor, key: Tensor, wide: torch.dtype) -> tuple[Tensor, Tensor, bool]:
    """``e^{−2q}`` and ``e^{−2k}``, or −2q and −2k where these overflow, or where of a row or two
    they would cost more than they save; and whether it is the exponentials.
    """
    q, k = (-2 * t.to(wide) for t in (query, key))
    largest = 0.9 * math.log(torch.finfo(wide).max)
    fit = min(q.shape[-2], k.shape[-2]) > 2 and is_readable(q) and is_readable(k)
    if fit and all(bool(t.abs().max() < largest) for t in (q, k)):
        return q.exp_(), k.exp_(), True
    return q, k, False


def gradients(
    of_query: Tensor, of_key: Tensor, of_vector: Tensor, grad: Tensor, vector: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and v from :meth:`Hidden.sums`."""
    through = 4 * vector
    to_vector = 2 * of_vector.flatten(0, -2).sum(0) - grad.sum()
    return of_query * through, of_key * through, to_vector


class AdditiveKernel(BlockKernel):
    """Additive scores of blocks, for queries that are projected, with the gradient in closed form.

    Without it, through automatic differentiation of :func:`additive_scores`, attention without
    weights took 2.8 times as long (8 rows of 600 queries and 600 keys, width 64, on a CPU).

    Args:
        query: projected queries ``(…, m, d)``.
        weight: v as a matrix ``(1, d)``: under a parametrization it is computed from the parameters
            once, here, and the gradient flows on from it.
    """

    def __init__(self, query: Tensor, weight: Tensor) -> None:
        self.scratch = Scratch.of(query)
        super().__init__(self._scores, query, (weight,))

    def _hidden(self, query: Tensor, projected: Tensor) -> tuple[Hidden, Tensor]:
        (weight,) = self.parameters
        check_projected_width(weight.shape[-1], projected)
        wide = wide_dtype(query, projected, weight)
        return Hidden(prepare(query, projected, wide), self.scratch), weight[0].to(wide)

    def _scores(self, query: Tensor, projected: Tensor) -> Tensor:
        hidden, vector = self._hidden(query, projected)
        return hidden.scores(vector).sub_(vector.sum())

    def compare_with_pullback(self, query: Tensor, projected: Tensor) -> tuple[Tensor, Pullback]:
        hidden, vector = self._hidden(query, projected)

        def pullback(grad: Tensor) -> tuple[Tensor, ...]:
            grad = grad.to(vector.dtype)
            to_query, to_key, to_vector = gradients(*hidden.sums(grad), grad, vector)
            return to_query, to_key, to_vector.unsqueeze(0)

        return hidden.scores(vector).sub_(vector.sum()), pullback


def _formula(query, key, vector):
    wide = wide_dtype(query, key, vector)
    hidden = (query.to(wide).unsqueeze(-2) + key.to(wide).unsqueeze(-3)).tanh()
    return hidden, (hidden * vector.to(wide)).sum(-1).to(
        torch.promote_types(query.dtype, key.dtype)
    )


class _AdditiveScores(torch.autograd.Function):
    """``(b, m, d), (b, n, d), (d,) → (b, m, n)``. Saves its inputs and nothing else."""

    @staticmethod
    def forward(query, key, vector):
        wide = wide_dtype(query, key, vector)
        scores = query.new_empty(*query.shape[:-1], key.shape[-2], dtype=wide)
        q, k, are_exponentials = prepare(query, key, wide)
        vector, scratch = vector.to(wide), Scratch.of(query)
        for b, r, c in blocks(query, key):
            hidden = Hidden((q[b, r], k[b, c], are_exponentials), scratch)
            scores[b, r, c] = hidden.scores(vector)
        return scores.sub_(vector.sum()).to(torch.promote_types(query.dtype, key.dtype))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vmap(info, in_dims, query, key, vector):
        return torch.vmap(lambda q, k, v: _formula(q, k, v)[1], in_dims)(query, key, vector), 0

    @staticmethod
    def backward(ctx, grad):
        query, key, vector = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated again
            hidden, _ = _formula(query, key, vector)
            grad = grad.to(hidden.dtype).unsqueeze(-1)
            through = grad * (1 - hidden * hidden) * vector.to(hidden.dtype)
            grads = through.sum(-2), through.sum(-3), (grad * hidden).flatten(0, -2).sum(0)
        else:
            wide = wide_dtype(query, key, vector)
            q, k, are_exponentials = prepare(query, key, wide)
            grad, scratch = grad.to(wide), Scratch.of(query)
            of_query, of_key, of_vector = (torch.zeros_like(t) for t in (q, k, q))
            for b, r, c in blocks(query, key):
                hidden = Hidden((q[b, r], k[b, c], are_exponentials), scratch)
                sums = hidden.sums(grad[b, r, c])
                of_query[b, r] += sums[0]
                of_key[b, c] += sums[1]
                of_vector[b, r] += sums[2]
            grads = gradients(of_query, of_key, of_vector, grad, vector.to(wide))
        return tuple(
            g.to(t.dtype) if needed else None
            for g, t, needed in zip(grads, (query, key, vector), ctx.needs_input_grad)
        )
