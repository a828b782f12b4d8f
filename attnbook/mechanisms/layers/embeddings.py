"""Embeddings and output layers with parameters spent otherwise: factorised, adaptive, mixed."""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...validate import check_integer, check_number, check_values, plain_number, require

__all__ = ["AdaptiveEmbedding", "AdaptiveOutput", "FactorisedEmbedding", "FactorisedOutput"]
__all__ += ["MixtureOfSoftmaxes", "ScaledEmbedding", "set_padding"]


def set_padding(embedding: nn.Module, padding: int | None) -> None:
    """Give the id of padding a vector of zeros that stays zero, in an embedding that knows how to.

    Where nothing looks at padding this changes no result, but for the score of the padding itself
    where embedding and output share their matrix.
    """
    own = getattr(embedding, "set_padding", None)
    if padding is not None and own is not None:
        own(padding)


def _zero_padding_row(table: Any, row: int) -> None:
    table.padding_idx = row
    with torch.no_grad():
        table.weight[row] = 0.0


class ScaledEmbedding(nn.Embedding):
    """Token embeddings times ``√d_model``.

    They start with variance 1/d_model, so that what is added to the positions has variance 1, and
    so that the same matrix can serve before the softmax; the paper is silent on the start.

    Shapes: ids ``(batch, n)`` → ``(batch, n, d_model)``. Source: Vaswani et al. 2017, section 3.4.
    """

    def __init__(self, size: int, d_model: int) -> None:
        super().__init__(check_integer("size", size), check_integer("d_model", d_model))
        with torch.no_grad():
            self.weight.normal_(std=d_model**-0.5)

    def set_padding(self, padding: int) -> None:
        """As :func:`set_padding`."""
        _zero_padding_row(self, padding)

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) * math.sqrt(self.embedding_dim)


class FactorisedEmbedding(nn.Module):
    """Embeddings by a narrow space: ``√d W e_token``, ``e (size, d_narrow)``, ``W (d, d_narrow)``.

    Shapes: ids ``(…)`` → ``(…, d_model)``. Source: Lan et al. 2020, section 3.1.
    """

    def __init__(self, size: int, d_model: int, d_narrow: int) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.narrow = nn.Embedding(check_integer("size", size), check_integer("d_narrow", d_narrow))
        self.widen = nn.Linear(d_narrow, d_model, bias=False)  # W
        with torch.no_grad():
            self.narrow.weight.normal_()
            self.widen.weight.normal_(std=(d_narrow * d_model) ** -0.5)

    def set_padding(self, padding: int) -> None:
        """As :func:`set_padding`."""
        _zero_padding_row(self.narrow, padding)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.widen(self.narrow(tokens)) * math.sqrt(self.d_model)


class FactorisedOutput(nn.Module):
    """Logits through a narrow space: ``E Wᵀ x``, ``W (d_model, d_narrow)``, ``E (size, d_narrow)``.

    Shapes: ``(…, d_model)`` → ``(…, size)``. Source: Lan et al. 2020, section 3.1.
    """

    def __init__(self, d_model: int, size: int, d_narrow: int) -> None:
        super().__init__()
        for name, width in (("d_model", d_model), ("size", size), ("d_narrow", d_narrow)):
            check_integer(name, width)
        self.narrow = nn.Parameter(torch.empty(d_model, d_narrow).normal_(std=d_model**-0.5))  # W
        self.words = nn.Parameter(torch.empty(size, d_narrow).normal_(std=d_narrow**-0.5))  # E

    def share(self, embedding: FactorisedEmbedding) -> None:
        """Use both matrices of an embedding of the same sizes, or raise ``ValueError``."""
        theirs = tuple(embedding.widen.weight.shape), tuple(embedding.narrow.weight.shape)
        ours = tuple(self.narrow.shape), tuple(self.words.shape)
        require(ours == theirs, f"embedding must have matrices of shapes {ours}, got {theirs}")
        self.narrow, self.words = embedding.widen.weight, embedding.narrow.weight

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.narrow @ self.words.mT


def _bands(size: int, cutoffs: Sequence[int], factor: float) -> list[tuple[int, int]]:
    edges = [0, *map(plain_number, cutoffs), check_integer("size", size)]
    require(
        len(cutoffs) > 0 and all(isinstance(c, int) and a < c for a, c in zip(edges, edges[1:])),
        f"cutoffs must be whole numbers that rise from above 0 to below size = {size}, got "
        f"{list(cutoffs)}",
    )
    check_number("factor", factor, above=0)
    return list(zip(edges, edges[1:]))


def _width(d_model: int, factor: float, band: int) -> int:
    return max(1, int(d_model // factor**band))


class AdaptiveEmbedding(nn.Module):
    """Wide vectors for frequent words, narrow ones for rare words, all brought to one width.

    A word of band b, the ids from ``cutoffs[b − 1]`` on, has a vector of width
    ``d_model / factor^b`` and the band a matrix: ``√d W_b e_token``. Ids must be ordered by
    frequency, frequent words first, as those of the book's vocabularies are.

    Shapes: ids ``(…)`` → ``(…, d_model)``.

    Source: Baevski and Auli 2019, section 3.
    """

    def __init__(
        self, size: int, d_model: int, cutoffs: Sequence[int], factor: float = 4.0
    ) -> None:
        super().__init__()
        self.d_model, self.bands = check_integer("d_model", d_model), _bands(size, cutoffs, factor)
        self.tables, self.widen = nn.ModuleList(), nn.ModuleList()
        for b, (first, last) in enumerate(self.bands):
            width = _width(d_model, factor, b)
            table = nn.Embedding(last - first, width)
            widen = nn.Linear(width, d_model, bias=False)
            with torch.no_grad():
                table.weight.normal_()
                widen.weight.normal_(std=(width * d_model) ** -0.5)
            self.tables.append(table)
            self.widen.append(widen)

    def set_padding(self, padding: int) -> None:
        """As :func:`set_padding`."""
        for (first, last), table in zip(self.bands, self.tables):
            if first <= padding < last:
                _zero_padding_row(table, padding - first)

    def forward(self, tokens: Tensor) -> Tensor:
        check_values("tokens", tokens, 0, self.bands[-1][1] - 1)
        # Every token is looked up in every band, which needs no shape that depends on the data.
        embedded = (
            widen(table((tokens - first).clamp(0, last - first - 1)))
            * ((tokens >= first) & (tokens < last)).unsqueeze(-1)
            for (first, last), table, widen in zip(self.bands, self.tables, self.widen)
        )
        return reduce(torch.add, embedded) * math.sqrt(self.d_model)


class AdaptiveOutput(nn.Module):
    """Log-probabilities of words by way of their band:
    ``log p(w) = log p(band) + log p(w | band)``.

    The frequent words and one entry a band share the first softmax; a rarer band has a softmax of
    its own with a projection to ``d_model / factor^b``, which ``factor=1`` makes as wide.

    All log-probabilities are returned, so that it stands where a linear layer to logits stands;
    normalising them once more changes nothing. (PyTorch's layer, which does the work here, can also
    compute the loss from the needed bands alone, which is where the paper's speed comes from.)

    Shapes: ``(…, d_model)`` → ``(…, size)``.

    Source: Grave et al. 2017; ``torch.nn.AdaptiveLogSoftmaxWithLoss``.
    """

    def __init__(
        self, d_model: int, size: int, cutoffs: Sequence[int], factor: float = 4.0
    ) -> None:
        super().__init__()
        bands = _bands(size, cutoffs, factor)
        rarest = check_integer("d_model", d_model) / factor ** (len(bands) - 1)
        require(
            rarest >= 1,
            f"factor must leave the rarest band a width of at least 1, got {factor} for d_model "
            f"{d_model} and {len(cutoffs)} cutoffs",
        )
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(d_model, size, list(cutoffs), div_value=factor)

    def forward(self, x: Tensor) -> Tensor:
        log_probs = self.layer.log_prob(x.reshape(-1, x.shape[-1]))
        return log_probs.view(*x.shape[:-1], log_probs.shape[-1])


class MixtureOfSoftmaxes(nn.Module):
    """Log-probabilities of a mixture of softmaxes over one set of word vectors.

    ``p(w) = Σ_k π_k softmax_w(E h_k)``,  ``π = softmax(W_π x)``,  ``h_k = tanh(W_k x)``

    The logarithm of one softmax is a matrix of rank at most d_model over contexts and words; that
    of a mixture is not. What is returned is log p; normalising it once more changes nothing.

    Args:
        d_model: width of x.
        size: number of words.
        components: ``K``.

    ``weight`` is E, which can be tied to an embedding. Shapes: ``(…, d_model)`` → ``(…, size)``.

    Source: Yang et al. 2018, section 2.3.
    """

    def __init__(self, d_model: int, size: int, components: int) -> None:
        super().__init__()
        check_integer("d_model", d_model)
        check_integer("size", size)
        self.components = check_integer("components", components)
        self.share = nn.Linear(d_model, components, bias=False)  # W_π
        self.context = nn.Linear(d_model, components * d_model)  # W_k
        self.weight = nn.Parameter(torch.empty(size, d_model).normal_(std=d_model**-0.5))  # E

    def forward(self, x: Tensor) -> Tensor:
        h = self.context(x).tanh().unflatten(-1, (self.components, -1))  # (…, K, d)
        each = F.linear(h, self.weight).log_softmax(-1)  # (…, K, size)
        return (self.share(x).log_softmax(-1).unsqueeze(-1) + each).logsumexp(-2)
