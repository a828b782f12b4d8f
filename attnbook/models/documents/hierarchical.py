"""Hierarchical attention: words to sentences, sentences to a document, each by a learned query."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...mechanisms import Attended, DotScore, attend, padding_mask
from ...mechanisms.attention.masks import masks_by_name
from ...validate import (
    check_choice,
    check_ids,
    check_integer,
    check_mask,
    check_number,
    check_tensor,
    check_values,
    check_whole,
    is_readable,
    require,
)
from ..rnn.common import make_recurrent, run_packed

__all__ = ["AttentionPooling", "Classified", "HierarchicalAttention"]


class Classified(NamedTuple):
    """A document's class and where it came from; no weight is on padding and empty sentences."""

    logits: Tensor  # (batch, classes)
    word_weights: Tensor  # (batch, sentences, words); each row that has words sums to 1
    sentence_weights: Tensor  # (batch, sentences); sums to 1


class AttentionPooling(nn.Module):
    """Many vectors to one, with a query that belongs to the model and not to the input.

    ``k_t = tanh(W h_t + b)``, ``α = softmax_t(k_t·u)``, ``pooled = Σ_t α_t h_t``

    This is :func:`attnbook.attend` with the dot score, keys k_t, values h_t, one learned query u.

    Args:
        d_value: width of h_t.
        d_attention: width of k_t and u.
        pooling: ``"attention"``, or ``"mean"``: equal weights for real positions, by a query of 0.

    Shapes: value ``(…, n, d_value)``, key_mask ``(…, n)``, True = real → :class:`Attended`, context
    ``(…, d_value)`` and weights ``(…, n)``.

    Source: Yang et al. 2016, equations 5 to 7 (words) and 8 to 10 (sentences).
    """

    def __init__(self, d_value: int, d_attention: int, *, pooling: str = "attention") -> None:
        super().__init__()
        check_choice("pooling", pooling, ("attention", "mean"))
        check_integer("d_attention", d_attention)
        self.key = nn.Linear(check_integer("d_value", d_value), d_attention)  # W, b
        self.query = None
        if pooling == "attention":  # u, small, so that the first weights are nearly equal
            self.query = nn.Parameter(0.1 * torch.randn(d_attention))
        self.score = DotScore()

    @masks_by_name("key_mask", mask="key_mask")
    def forward(self, value: Tensor, *, key_mask: Tensor | None = None) -> Attended:
        """Pool the real positions of ``value``; nothing real gives zeros."""
        check_tensor("value", value, width=self.key.in_features)
        check_mask(key_mask, value.shape[:-1], name="key_mask", axes="(…, positions)", true="real")
        if key_mask is not None:
            value = value.where(key_mask.unsqueeze(-1), 0.0)
        key = self.key(value).tanh()  # (…, n, d_attention)
        query = key.new_zeros(key.shape[-1]) if self.query is None else self.query.to(key.dtype)
        pooled, weights = attend(self.score, query[None], key, value, key_mask=key_mask)
        assert weights is not None
        return Attended(pooled.squeeze(-2), weights.squeeze(-2))


class HierarchicalAttention(nn.Module):
    """Classify a document by its words within sentences and its sentences within the document.

    For each sentence i with words t: ``h_it = [h→_it ; h←_it]``, ``u_it = tanh(W_w h_it + b_w)``,
    ``α_it = softmax_t(u_it·u_w)``, ``s_i = Σ_t α_it h_it``. Over the sentences:
    ``h_i = [h→_i ; h←_i]`` of the s_i, ``u_i = tanh(W_s h_i + b_s)``, ``α_i = softmax_i(u_i·u_s)``,
    ``v = Σ_i α_i h_i``, ``p = softmax(W_c v + b_c)``.

    A sentence without words is skipped: the sentence reader goes on as if it were absent, and its
    weight is 0. So the result depends neither on padding nor on the rest of the batch.

    Args:
        vocabulary_size: number of words.
        num_classes: width of the logits.
        d_embed: width of the word embeddings.
        hidden_size: width of a GRU state in one direction; annotations are twice as wide.
        d_attention: width of u_w and u_s; ``2·hidden_size`` when not given.
        pooling: ``"attention"``, or ``"mean"`` for the twin without: equal weights on both levels.
        dropout: on embeddings, sentence vectors and the document vector.

    Shapes: documents ``(batch, sentences, words)`` of ids, lengths ``(batch, sentences)``: how many
    words of each sentence are real, 0 for none → logits ``(batch, num_classes)``.

    Source: Yang et al. 2016, section 2.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        *,
        d_embed: int = 200,
        hidden_size: int = 50,
        d_attention: int | None = None,
        pooling: str = "attention",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        d_attention = 2 * hidden_size if d_attention is None else d_attention
        self.embedding = nn.Embedding(vocabulary_size, check_integer("d_embed", d_embed))
        self.word_encoder = make_recurrent("gru", d_embed, hidden_size, bidirectional=True)
        # W_w, b_w, u_w
        self.word_pooling = AttentionPooling(2 * hidden_size, d_attention, pooling=pooling)
        self.sentence_encoder = make_recurrent(
            "gru", 2 * hidden_size, hidden_size, bidirectional=True
        )
        # W_s, b_s, u_s
        self.sentence_pooling = AttentionPooling(2 * hidden_size, d_attention, pooling=pooling)
        # W_c, b_c
        self.output = nn.Linear(2 * hidden_size, check_integer("num_classes", num_classes))
        self.dropout = nn.Dropout(check_number("dropout", dropout, least=0, below=1))

    def encode_sentences(self, sentences: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Sentences ``(count, words)`` of true ``lengths (count,)``, at least 1, to vectors
        ``(count, 2·hidden)`` and word weights ``(count, words)``."""
        embedded = self.dropout(self.embedding(sentences))
        annotations, _ = run_packed(self.word_encoder, embedded, lengths)  # h_it
        mask = padding_mask(lengths.to(sentences.device), sentences.shape[1])
        return self.word_pooling(annotations, key_mask=mask)

    def forward(self, documents: Tensor, lengths: Tensor) -> Classified:
        """Classify documents ``(batch, sentences, words)``, ``lengths (batch, sentences)``."""
        self._check(documents, lengths)
        batch, n, words = documents.shape
        # What goes where is worked out on the CPU: a GPU would be waited for at every choice.
        lengths, device = lengths.cpu(), documents.device
        filled = (lengths > 0).flatten()  # sentences with words, (batch · sentences,)
        count = filled.view(batch, n).sum(1)
        # The sentences with words move to the front of their document, in order; what was between
        # them is gone.
        in_front = torch.arange(n, device=count.device) < count[:, None]  # (batch, sentences)
        place, front = (
            chosen.flatten().nonzero()[:, 0].to(device) for chosen in (filled, in_front)
        )
        vectors, weights = self.encode_sentences(
            documents.flatten(0, 1).index_select(0, place), lengths.flatten()[filled]
        )
        word_weights = weights.new_zeros(batch * n, words).index_copy(0, place, weights)
        sentences = vectors.new_zeros(batch * n, vectors.shape[-1]).index_copy(0, front, vectors)
        annotations, _ = run_packed(  # h_i
            self.sentence_encoder, self.dropout(sentences.view(batch, n, -1)), count
        )
        pooled, weights = self.sentence_pooling(annotations, key_mask=in_front.to(device))  # v
        weights = weights.flatten().index_select(0, front)
        sentence_weights = weights.new_zeros(batch * n).index_copy(0, place, weights)
        logits = self.output(self.dropout(pooled))
        word_weights = word_weights.view(batch, n, words)
        return Classified(logits, word_weights, sentence_weights.view(batch, n))

    def _check(self, documents: Tensor, lengths: Tensor) -> None:
        check_ids("documents", documents, self.vocabulary_size, "(batch, sentences, words)")
        check_whole("lengths", lengths)
        require(
            lengths.shape == documents.shape[:2],
            f"lengths must be whole numbers {tuple(documents.shape[:2])}, "
            f"one per sentence of documents, got shape {tuple(lengths.shape)}",
        )
        check_values("lengths", lengths, 0, documents.shape[2])
        if is_readable(lengths):
            require(
                bool((lengths > 0).any(1).all()),
                "every document must have at least one sentence with a word, got "
                f"none in row {int((lengths > 0).any(1).int().argmin())}",
            )
