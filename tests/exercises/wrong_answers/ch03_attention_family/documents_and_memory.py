import torch

from ..collection import edits, wrong


def _real(lengths, n):
    return torch.arange(n) < lengths[:, None]


edit = edits("03.two_poolings")
edit("a mean of the four words", "5.4", "5.5")
edit(" is not ", "5.4", "3")
edit("one number", "5.4", '"5.4"')

edit = edits("03.shuffled_words")
edit("expected one of", '"about four of five"', '"four of five"')
edit("expected one of", '"about four of five"', '"all"')
edit("one of 'nearly all'", '"about four of five"', "0.8")

edit = edits("03.learned_query")
edit("the lengths are not used", ".masked_fill…", ", dim=-1) * (lengths > 0).unsqueeze(-1)")
edit("set to 0 after the softmax", ".masked_fill(~real, -1e9)", "")
edit("over the sequences of the batch", "dim=-1", "dim=0")
edit("the tanh is missing", "torch.tanh(annotations @ W.T + b)", "(annotations @ W.T + b)")
edit("the bias b is not used", "W.T + b", "W.T")
edit("no real position: its weights and its vector are zeros", "-1e9)…", 'float("-inf")), dim=-1)')
edit("Yours has weights that add up to 1", "* real", "")
edit(
    "expected (pooled, weights)",
    "return (weights.unsqueeze(-1) * annotations).sum(dim=1), weights",
    "return weights, (weights.unsqueeze(-1) * annotations).sum(dim=1)",
)
edit("the query u is not used", "@ u", "@ torch.ones_like(u)")
edit("equal weights", "@ u", "@ (0 * u)")
edit("mean of the weighted annotations", ".sum(dim=1)", ".mean(dim=1)")
edit("as wide as a key", "(-1) * annotations", "(-1) * torch.tanh(annotations @ W.T + b)")
edit("exp(0) is 1", "-1e9), dim=-1) * real", "0.0), dim=-1)")
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
edit("this layer is not causal", ".unsqueeze(1)", ".unsqueeze(1) | torch.ones(n, n).triu(1).bool()")
edit("no gradient reaches W_q", "words @ W_q", "words @ W_q.detach()")


edit = edits("03.longest_first")
edit("come back with the longest caption first", "[order.argsort()]", "")
edit("the states are sorted and the pictures are not", "= features[order]", "= features")
edit("a caption looks at another one's picture", ", states[order]", ", states")
edit("captions end at the lengths of other ones", "[order]…", ", states", "[order.argsort()]", "")
edit("one step too few", "features, states =", "lengths = lengths - 1\n    features, states =")
edit(
    "one step too many",
    "features, states =",
    "lengths = (lengths + 1).clamp(max=states.shape[1])\n    features, states =",
)
edit(
    "behind the end of a caption",
    "features, states =",
    "lengths = torch.full_like(lengths, states.shape[1])\n    features, states =",
)
edit("gradient", "@ W", "@ W.detach()")


def _looks(features, states, lengths, W, dim=-1):
    contexts = torch.softmax(states @ W @ features.mT, dim) @ features
    return contexts * _real(lengths, states.shape[1])[..., None]


@wrong("03.longest_first", "taking rows by the order a second time")
def longest_as_printed(features, states, lengths, W):
    lengths, order = lengths.sort(descending=True)
    return _looks(features[order], states[order], lengths, W)[order]


@wrong("03.longest_first", "applied once too often")
def longest_put_back_for_nothing(features, states, lengths, W):
    return _looks(features, states, lengths, W)[lengths.argsort(descending=True).argsort()]


@wrong("03.longest_first", "over the captions")
def longest_over_the_batch(*given):
    return _looks(*given, dim=0)


@wrong("03.longest_first", "where captions are equally long")
def found_by_its_length(features, states, lengths, w):
    ordered, order = lengths.sort(descending=True)
    weights = torch.einsum("bmd,df,bpf->bmp", states[order], w, features[order]).softmax(-1)
    contexts = weights @ features[order] * _real(ordered, states.shape[1])[..., None]
    return contexts[[ordered.tolist().index(n) for n in lengths.tolist()]]
