"""The end-to-end memory network: a question attends to a story several times."""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from ...mechanisms import DotScore, attend
from ...validate import check_choice, check_ids, check_integer, require

__all__ = ["Answered", "MemoryNetwork", "position_encoding"]


class Answered(NamedTuple):
    """Scores of answers, ``logits (batch, vocabulary)``, and ``weights (batch, hops, n)``."""

    logits: Tensor
    weights: Tensor


def position_encoding(
    lengths: Tensor, words: int, width: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Weights that tell the first word of a sentence from the last when its words are added up.

    ``l_rj = (1 − j/J) − (r/d)(1 − 2j/J)`` for word j = 1 … J, component r = 1 … d; 0 for j > J.

    Args:
        lengths: J, whole numbers ``(…)``: the real words of each sentence; 0 gives zeros.
        words: the padded length.
        width: ``d``.
        dtype: of the result.

    Returns:
        ``(…, words, width)`` on the device of ``lengths``.

    Source: Sukhbaatar et al. 2015, section 4.1.
    """
    total = lengths[..., None, None].clamp_min(1).to(dtype)  # J
    j = torch.arange(1, words + 1, device=lengths.device, dtype=dtype)[:, None]
    r = torch.arange(1, width + 1, device=lengths.device, dtype=dtype)
    encoding = (1 - j / total) - (r / width) * (1 - 2 * j / total)
    return encoding.masked_fill(j > lengths[..., None, None], 0.0)


class MemoryNetwork(nn.Module):
    """Answer a question with one word from a story of sentences.

    For hop k = 1 … K over the sentences i = 1 … n with words x_ij, where A[x] is the column of A
    for the word x: ``m_i = Σ_j l_j ⊙ A_k[x_ij] + θ_{k,n−i}``,
    ``c_i = Σ_j l_j ⊙ C_k[x_ij] + θ_{k+1,n−i}``, ``p = softmax_i(u_k·m_i)``, ``o_k = Σ_i p_i c_i``,
    ``u_{k+1} = u_k + o_k``, from ``u_1 = Σ_j l_j ⊙ B[q_j]`` to ``â = softmax(W u_{K+1})``. Weights
    are tied between neighbours: ``A_1 = B``, ``A_{k+1} = C_k``, and the rows of W are the columns
    of C_K, so K hops have K + 1 embedding matrices, and as many θ. The index n − i of θ counts back
    from the last sentence, which is 0.

    A hop is :func:`attnbook.attend` with the dot score: query u_k, keys m_i, values c_i.

    Args:
        vocabulary_size: id 0 is padding; the answers are words of the same vocabulary.
        d_embed: d, width of the embeddings and of u.
        hops: ``K``.
        max_memories: the most sentences of a story.
        encoding: ``"position"`` for l_j as in :func:`position_encoding`, ``"bag"`` for l_j = 1.
        init_std: every matrix starts from a normal distribution of this deviation. The paper's 0.1
            makes all first scores nearly equal, and there the paper begins without the softmax
            (linear start), which is not done here: about 0.4 lets a question find its own words
            from the start.

    Shapes: story ``(batch, n, words)`` and question ``(batch, words)`` of ids; words stand in front
    of the padding. A sentence of padding alone has weight exactly 0 and no place in time.

    Source: Sukhbaatar et al. 2015, sections 2, 2.2, 4.1; without linear start and noise in time.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        d_embed: int = 50,
        hops: int = 3,
        max_memories: int = 50,
        encoding: str = "position",
        init_std: float = 0.1,
    ) -> None:
        super().__init__()
        check_choice("encoding", encoding, ("position", "bag"))
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.hops, self.encoding = check_integer("hops", hops), encoding
        self.max_memories = check_integer("max_memories", max_memories)
        embeddings = [  # A_1 = B, A_2 = C_1, …, C_K: also W
            nn.Embedding(vocabulary_size, check_integer("d_embed", d_embed), padding_idx=0)
            for _ in range(hops + 1)
        ]
        self.embeddings = nn.ModuleList(embeddings)
        self.times = nn.ParameterList(  # θ
            nn.Parameter(torch.zeros(max_memories, d_embed)) for _ in range(hops + 1)
        )
        self.score = DotScore()
        for matrix in [*(embedding.weight for embedding in embeddings), *self.times]:
            nn.init.normal_(matrix, std=init_std)
        with torch.no_grad():
            for embedding in embeddings:
                embedding.weight[0] = 0.0  # padding adds nothing

    def embed(self, sentences: Tensor, layer: int) -> Tensor:
        """Sentences ``(…, words)`` to vectors ``(…, d)`` by matrix ``layer``, 0 to K."""
        embedded = self.embeddings[layer](sentences)  # (…, words, d)
        if self.encoding == "position":
            lengths = (sentences != 0).sum(-1)
            embedded = embedded * position_encoding(
                lengths, sentences.shape[-1], embedded.shape[-1], embedded.dtype
            )
        else:  # row 0 of the last matrix is a row of W too, and learns
            embedded = embedded.masked_fill((sentences == 0)[..., None], 0.0)
        return embedded.sum(-2)

    def forward(self, story: Tensor, question: Tensor) -> Answered:
        """Score all words as answers to ``(batch, words)`` about stories ``(batch, n, words)``."""
        self._check(story, question)
        real = (story != 0).any(-1)  # (batch, n)
        # How many real sentences follow: 0 for the last one, whatever padding stands where.
        age = (real.flip(-1).cumsum(-1).flip(-1) - 1).clamp_min(0)

        def memory(layer: int) -> Tensor:
            return self.embed(story, layer) + self.times[layer][age]  # (batch, n, d)

        u, keys, weights = self.embed(question, 0), memory(0), []  # (batch, d), (batch, n, d)
        for k in range(self.hops):
            values = memory(k + 1)
            # (batch, 1, d), (batch, 1, n)
            o, p = attend(self.score, u[:, None], keys, values, key_mask=real)
            assert p is not None
            u = u + o[:, 0]
            weights.append(p[:, 0])
            keys = values  # A_{k+1} = C_k
        words = cast(Tensor, self.embeddings[-1].weight)  # W: a row per word, from C_K
        return Answered(nn.functional.linear(u, words), torch.stack(weights, 1))

    def _check(self, story: Tensor, question: Tensor) -> None:
        check_ids("story", story, self.vocabulary_size, "(batch, sentences, words)")
        check_ids("question", question, self.vocabulary_size, "(batch, words)")
        require(
            len(question) == len(story),
            f"question must have {len(story)} rows as story has, got {len(question)}",
        )
        require(
            story.shape[1] <= self.max_memories,
            f"story has {story.shape[1]} sentences, the network was made for max_memories = "
            f"{self.max_memories}",
        )
