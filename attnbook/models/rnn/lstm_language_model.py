"""The plain LSTM language model, the baseline of those with attention."""

from torch import Tensor, nn

from ...decoding.step import Decoded, TokenIds, check_text, check_token_ids
from ...validate import check_integer, check_number
from .common import make_recurrent, run_packed

__all__ = ["LSTMLanguageModel"]


class LSTMLanguageModel(nn.Module):
    """A language model whose only memory is the state of an LSTM:
    ``p(w_{t+1} | w_1 … w_t) = softmax(W_o h_t + b_o)``.

    ``h_t, c_t = LSTM(E w_t, h_{t−1}, c_{t−1})`` from zeros.

    Args:
        vocabulary_size: number of tokens.
        d_embed: width of the embeddings.
        hidden_size: width of h and c.
        dropout: on the embeddings and before the output.
        token_ids: the ids that are no words, as a rule ``vocabulary.token_ids``; the vector of the
            padding is zero. Without it every id is a word.

    Shapes: tokens ``(batch, n)``, lengths ``(batch,)``, all n when not given → logits
    ``(batch, n, vocabulary_size)``, weights None. Logits at the padding are those of a zero state.

    Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        d_embed: int = 64,
        hidden_size: int = 128,
        dropout: float = 0.0,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.token_ids = check_token_ids(token_ids, vocabulary_size)
        self.embedding = nn.Embedding(
            vocabulary_size, check_integer("d_embed", d_embed), padding_idx=self.token_ids.padding
        )
        self.layer = make_recurrent("lstm", d_embed, hidden_size)
        self.output = nn.Linear(hidden_size, vocabulary_size)  # W_o, b_o
        self.dropout = nn.Dropout(check_number("dropout", dropout, least=0, below=1))

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Decoded:
        """Score the word after each token."""
        check_text(tokens, lengths, self.vocabulary_size)
        embedded = self.dropout(self.embedding(tokens))  # (batch, n, d_embed)
        hidden = (
            self.layer(embedded)[0]
            if lengths is None
            else run_packed(self.layer, embedded, lengths)[0]
        )
        return Decoded(self.output(self.dropout(hidden)), None)
