import torch

from ..collection import edits, wrong


def _real(lengths, n):
    return torch.arange(n) < lengths[:, None]


edit = edits("03.every_prefix")
edit("for scores around 1000", "scores - scores.amax(dim=-1, keepdim=True)", "scores")
edit("the gradient at scores is not", "torch.exp(scores", "torch.exp(scores.detach()")


@wrong("03.every_prefix", "there is a tensor of 160,000 numbers")
def as_printed(scores, values):
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    table = scores.unsqueeze(1).expand(-1, n, -1)
    return table.masked_fill(later, float("-inf")).softmax(-1) @ values


@wrong("03.every_prefix", "the matrix products take")
def row_after_row(scores, values):
    rows = []
    for t in range(1, scores.shape[-1] + 1):
        weights = torch.softmax(scores[:, :t], dim=-1)
        rows.append((weights.unsqueeze(1) @ values[:, :t])[:, 0])
    return torch.stack(rows, dim=1)


edit = edits("03.shuffled_words")
edit("expected one of", '"about four of five"', '"four of five"')
edit("expected one of", '"about four of five"', '"all"')
edit("one of 'nearly all'", '"about four of five"', "0.8")

edit = edits("03.learned_query")
edit("no real position: its weights and its vector are zeros", "-1e9)…", 'float("-inf")), dim=-1)')
edit("Yours has weights that add up to 1", "* real", "")
edit(
    "expected (pooled, weights)",
    "return (weights.unsqueeze(-1) * annotations).sum(dim=1), weights",
    "return weights, (weights.unsqueeze(-1) * annotations).sum(dim=1)",
)
edit("as wide as a key", "(-1) * annotations", "(-1) * torch.tanh(annotations @ W.T + b)")
edit("no gradient goes back", ".sum(dim=1),", ".sum(dim=1).detach(),")
edit("no gradient reaches u", "(weights.", "0 * (W.sum() + b.sum()) + (weights.detach().")


@wrong("03.words_look_at_words", "leaves out queries, and the words see everything")
def around_as_printed(words, W_q, W_k, W_v, lengths):
    rows = _real(lengths, words.shape[1])[:, :, None]
    scores = (words @ W_q) @ (words @ W_k).mT / words.shape[-1] ** 0.5
    return torch.softmax(scores.masked_fill(~rows, -1e9), -1) @ (words @ W_v) * rows


edit = edits("03.words_look_at_words")
edit("leave out the keys (columns) of the padding and not its queries (rows)", "(1)", "(2)")
edit(
    "leave out the keys (columns) of the padding and not its queries (rows)",
    "~real.unsqueeze(1)",
    "~(real.unsqueeze(1) & real.unsqueeze(2))",
)
edit("no gradient reaches W_q", "words @ W_q", "words @ W_q.detach()")


edit = edits("03.longest_first")
edit("gradient", "@ W", "@ W.detach()")


def _looks(features, states, lengths, W, dim=-1):
    contexts = torch.softmax(states @ W @ features.mT, dim) @ features
    return contexts * _real(lengths, states.shape[1])[..., None]


@wrong("03.longest_first", "taking rows by the order a second time")
def longest_as_printed(features, states, lengths, W):
    lengths, order = lengths.sort(descending=True)
    return _looks(features[order], states[order], lengths, W)[order]


@wrong("03.longest_first", "where captions are equally long")
def found_by_its_length(features, states, lengths, w):
    ordered, order = lengths.sort(descending=True)
    weights = torch.einsum("bmd,df,bpf->bmp", states[order], w, features[order]).softmax(-1)
    contexts = weights @ features[order] * _real(ordered, states.shape[1])[..., None]
    return contexts[[ordered.tolist().index(n) for n in lengths.tolist()]]


@wrong("03.every_prefix", "the tensors on the way have")
def a_softmax_for_every_beginning(scores, values):
    rows = []
    for t in range(scores.shape[1]):
        weights = torch.softmax(scores[:, : t + 1], dim=-1).unsqueeze(-1)
        rows.append((weights * values[:, : t + 1]).sum(dim=1))
    return torch.stack(rows, dim=1)
