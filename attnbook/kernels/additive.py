"""The hidden layer of additive attention: computed block by block, never stored, with its gradient
in closed form.

``e_tj = v·tanh(q_t + k_j)`` takes one tanh for every query, key and hidden unit. As one tensor,
that hidden layer is what additive attention costs: most of the time goes into moving it. Here a
block of it is computed where it is used, in memory that stays in the cache: once in the forward
pass and once more in the backward pass.

With ``σ = sigmoid(2x)``: ``tanh x = 2σ − 1`` and ``d tanh x / dx = 1 − tanh² x = 4 (σ − σ²)``. On a
CPU PyTorch's sigmoid takes a fraction of the time of its tanh, and 2, −1 and 4 are applied to the
small tensors around the block. The identity is exact up to the rounding of numbers near 1, not
relative to a small tanh; so the hidden layer is computed in float32 at least, whatever the dtype of
the inputs."""

import torch
from torch import Tensor

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
            flat = self._flat[which] = like.new_empty(shape.numel())
        return flat[: shape.numel()].view(shape)


class Hidden:
    """The hidden layer of one block, from which its scores and its gradients follow. Not
    differentiable itself.

    No matrix-vector product stands in here: PyTorch leaves those to a library whose threads then
    keep the cores from the operations after it, which took ten times as long.

    Args:
        query, key: projected, ``(…, m, d)`` and ``(…, n, d)``, with equal leading dimensions.
        vector: v, ``(d,)``.
        scratch: shared by the blocks of a pass; the next block overwrites this one.
    """

    def __init__(self, query: Tensor, key: Tensor, vector: Tensor, scratch: Scratch) -> None:
        self.wide = wide_dtype(query, key, vector)
        self.vector, self.scratch = vector.to(self.wide), scratch
        q, k = (2 * query.to(self.wide)).unsqueeze(-2), (2 * key.to(self.wide)).unsqueeze(-3)
        shape = torch.broadcast_shapes(q.shape, k.shape)
        self.sigma = torch.add(q, k, out=scratch.take(0, shape, q)).sigmoid_()  # (…, m, n, d)

    def scores(self) -> Tensor:
        """``v·tanh(…)``, ``(…, m, n)``."""
        product = torch.mul(
            self.sigma, 2 * self.vector, out=self.scratch.take(1, self.sigma.shape, self.sigma)
        )
        return product.sum(-1).sub_(self.vector.sum())

    def gradients(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of query, key and v from that of the scores ``(…, m, n)``."""
        sigma, grad = self.sigma, grad.to(self.wide)
        # gσ
        weighted = torch.mul(
            sigma, grad.unsqueeze(-1), out=self.scratch.take(1, sigma.shape, sigma)
        )
        grad_vector = 2 * weighted.sum(-2).flatten(0, -2).sum(0) - grad.sum()
        weighted.addcmul_(weighted, sigma, value=-1)  # g (σ − σ²)
        through = 4 * self.vector
        return weighted.sum(-2) * through, weighted.sum(-3) * through, grad_vector


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
        self.scratch = Scratch()
        super().__init__(self._scores, query, (weight,))

    def _hidden(self, query: Tensor, projected: Tensor) -> Hidden:
        (weight,) = self.parameters
        check_projected_width(weight.shape[-1], projected)
        return Hidden(query, projected, weight[0], self.scratch)

    def _scores(self, query: Tensor, projected: Tensor) -> Tensor:
        return self._hidden(query, projected).scores()

    def compare_with_pullback(self, query: Tensor, projected: Tensor) -> tuple[Tensor, Pullback]:
        hidden = self._hidden(query, projected)

        def pullback(grad: Tensor) -> tuple[Tensor, ...]:
            grad_query, grad_projected, grad_vector = hidden.gradients(grad)
            return grad_query, grad_projected, grad_vector.unsqueeze(0)

        return hidden.scores(), pullback


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
        scores = query.new_empty(
            *query.shape[:-1], key.shape[-2], dtype=torch.promote_types(query.dtype, key.dtype)
        )
        scratch = Scratch()
        for b, r, c in blocks(query, key):
            scores[b, r, c] = Hidden(query[b, r], key[b, c], vector, scratch).scores()
        return scores

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
            grads = tuple(torch.zeros_like(t, dtype=wide) for t in (query, key, vector))
            scratch = Scratch()
            for b, r, c in blocks(query, key):
                of_query, of_key, of_vector = Hidden(
                    query[b, r], key[b, c], vector, scratch
                ).gradients(grad[b, r, c])
                grads[0][b, r] += of_query
                grads[1][b, c] += of_key
                grads[2].add_(of_vector)
        return tuple(
            g.to(t.dtype) if needed else None
            for g, t, needed in zip(grads, (query, key, vector), ctx.needs_input_grad)
        )
