"""The additive score, whose hidden layer is never stored as a whole."""

from torch import Tensor, nn

from ...kernels.additive import AdditiveKernel, additive_scores
from ...kernels.streaming import BlockKernel, check_projected_width
from ...kernels.triton_kernels import use_triton
from ...kernels.visible import Visible
from ...validate import check_integer
from .base import Score

__all__ = ["AdditiveScore"]


class AdditiveScore(Score):
    """A feed-forward network with one hidden layer of tanh units; also called concat attention.

    ``score(s, h) = v·tanh(W_s s + W_h h)``, the same as ``v·tanh(W [s; h])`` with W = [W_s, W_h].
    W_h h is computed once per source. The hidden layer, m·n·d_hidden numbers, is computed in blocks
    and never stored; see :func:`attnbook.kernels.additive.additive_scores`, also
    for what can be differentiated twice.

    Args:
        d_query: width of the queries.
        d_key: width of the keys.
        d_hidden: width of the hidden layer; ``d_query`` when not given.

    Source: Bahdanau, Cho and Bengio 2015, appendix A.1.2; no bias, as there.
    """

    name = "additive"
    formula = r"v^\top \tanh(W[s; h])"
    source = "Bahdanau, Cho and Bengio 2015"

    def __init__(self, d_query: int, d_key: int, d_hidden: int | None = None) -> None:
        super().__init__()
        d_hidden = d_query if d_hidden is None else d_hidden
        self.query_width = check_integer("d_query", d_query)
        self.key_width = check_integer("d_key", d_key)
        # W_s
        self.query_projection = nn.Linear(d_query, check_integer("d_hidden", d_hidden), bias=False)
        self.key_projection = nn.Linear(d_key, d_hidden, bias=False)  # W_h
        self.vector = nn.Linear(d_hidden, 1, bias=False)  # v

    def project_keys(self, key: Tensor) -> Tensor:
        return self.key_projection(key)  # (…, n, d_hidden)

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        check_projected_width(self.vector.in_features, projected)
        compute = additive_scores
        if use_triton(query, projected):
            from ...kernels.additive_triton import additive_scores as compute
        return compute(self.query_projection(query), projected, self.vector.weight[0])

    def fused_attention(
        self, query: Tensor, projected: Tensor, value: Tensor, visible: Visible
    ) -> Tensor | None:
        if not use_triton(query, projected, value):
            return None
        from ...kernels.additive_triton import additive_attention

        check_projected_width(self.vector.in_features, projected)
        query = self.query_projection(query)
        mask = visible.matrix(query.shape[-2], projected.shape[-2], query.device)
        return additive_attention(query, projected, value, self.vector.weight[0], mask)

    def block_kernel(self, query: Tensor) -> BlockKernel:
        return AdditiveKernel(self.query_projection(query), self.vector.weight)
