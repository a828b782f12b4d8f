"""A large memory in place of the feed-forward sublayer, addressed by products of two key sets."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms.layers.norms import LayerNorm
from attnbook.validate import check_integer, check_tensor, require

__all__ = ["ProductKeyMemory"]


class ProductKeyMemory(nn.Module):
    """A look-up among K² slots at the cost of two look-ups among K.

    The halves of a head's query are compared with K sub-keys each; slot (i, j) scores by both:

    ``s_ij = q_1·c_i + q_2·c'_j``,  ``y = Σ_heads Σ_{(i, j) in the best k} softmax(s)_ij V_ij``

    The best k of all slots are among the k × k pairs of either half's best k: no others are tried.

    Args:
        d_model: width of x and of the result.
        num_keys: K, sub-keys of each half; the memory has K² slots.
        num_heads: queries; the slots are shared by the heads, the sub-keys are not.
        top_k: ``k``.
        d_query: width of a query, even.

    The queries of all heads go through a layer norm. The paper has batch norm, which makes the
    result depend on the other positions of the batch, padding too.

    Shapes: ``(…, d_model)`` → ``(…, d_model)``.

    Source: Lample et al. 2019, section 3.
    """

    def __init__(
        self, d_model: int, num_keys: int, num_heads: int = 4, top_k: int = 32, d_query: int = 512
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.num_keys = check_integer("num_keys", num_keys)
        self.num_heads = check_integer("num_heads", num_heads)
        self.top_k = check_integer("top_k", top_k)
        require(top_k <= num_keys, f"top_k must be at most num_keys = {num_keys}, got {top_k}")
        require(
            check_integer("d_query", d_query) % 2 == 0,
            f"d_query must be even, it is cut in two halves; got {d_query}",
        )
        self.query_projection = nn.Linear(d_model, num_heads * d_query)
        self.norm, half = LayerNorm(num_heads * d_query), d_query // 2
        keys = torch.empty(num_heads, 2, num_keys, half).uniform_(-1, 1)
        self.keys = nn.Parameter(keys * half**-0.5)  # c, c'
        self.values = nn.Parameter(torch.randn(num_keys**2, d_model) * d_model**-0.5)  # V

    def find(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The slots that each head reads, ``(…, num_heads, k)`` numbers i K + j, and weights."""
        queries = self.norm(self.query_projection(x))
        halves = queries.unflatten(-1, (self.num_heads, 2, -1))  # (…, H, 2, d_query/2)
        scores = torch.einsum("...hsd,hskd->...hsk", halves, self.keys)
        best, index = scores.topk(self.top_k, dim=-1)  # (…, H, 2, k)
        pairs = (best[..., 0, :, None] + best[..., 1, None, :]).flatten(-2)  # (…, H, k·k)
        best, among = pairs.topk(self.top_k, dim=-1)  # (…, H, k)
        i = index[..., 0, :].gather(-1, among // self.top_k)
        j = index[..., 1, :].gather(-1, among % self.top_k)
        return i * self.num_keys + j, best.softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        slots, weights = self.find(check_tensor("x", x, width=self.d_model, least=1))
        # (positions, H·k)
        slots, weights = (t.reshape(-1, self.num_heads * self.top_k) for t in (slots, weights))
        # The sum of the weighted rows, without a copy of the rows.
        output = F.embedding_bag(
            slots, self.values, per_sample_weights=weights.to(self.values.dtype), mode="sum"
        )
        return output.view(x.shape)
