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


def _around(
    words,
    W_q,
    W_k,
    W_v,
    lengths,
    allowed=lambda row, column: column,
    fill=-1e9,
    scale=None,
    dim=-1,
    after=False,
    zeros=True,
):
    real = _real(lengths, words.shape[1])
    row, column = real[:, :, None], real[:, None, :]
    scores = (words @ W_q) @ (words @ W_k).mT / (words.shape[-1] ** 0.5 if scale is None else scale)
    weights = (
        torch.softmax(scores, dim) * column
        if after
        else torch.softmax(scores.masked_fill(~allowed(row, column), fill), dim)
    )
    result = weights @ (words @ W_v)
    return result * row if zeros else result


@wrong("03.words_look_at_words", "leaves out queries, and the words see everything")
def around_as_printed(*given):
    return _around(*given, allowed=lambda row, column: row)


edit = edits("03.words_look_at_words")
edit("leave out the keys (columns) of the padding and not its queries (rows)", "(1)", "(2)")
edit(
    "leave out the keys (columns) of the padding and not its queries (rows)",
    "~real.unsqueeze(1)",
    "~(real.unsqueeze(1) & real.unsqueeze(2))",
)


@wrong("03.words_look_at_words", "this layer is not causal")
def around_causal(*given):
    return _around(
        *given,
        allowed=lambda row, column: (
            column & torch.ones(column.shape[-1], column.shape[-1]).tril().bool()
        ),
    )


@wrong("03.words_look_at_words", "no gradient reaches W_q")
def around_detached(words, W_q, W_k, W_v, lengths):
    return _around(words, W_q.detach(), W_k, W_v, lengths)


def _looks(
    features,
    states,
    lengths,
    W,
    swap=(True, True),
    back=lambda contexts, order: contexts[order.argsort()],
    extra=0,
    dim=-1,
):
    lengths, order = lengths.sort(descending=True)
    features, states = (
        features[order] if swap[0] else features,
        states[order] if swap[1] else states,
    )
    contexts = torch.softmax(torch.einsum("bmd,bpd->bmp", states @ W, features), dim) @ features
    return back(contexts * _real(lengths + extra, states.shape[1])[..., None], order)


@wrong("03.longest_first", "taking rows by the order a second time")
def longest_as_printed(*given):
    return _looks(*given, back=lambda contexts, order: contexts[order])


@wrong("03.longest_first", "come back with the longest caption first")
def longest_not_put_back(*given):
    return _looks(*given, back=lambda contexts, order: contexts)


@wrong("03.longest_first", "applied once too often")
def longest_put_back_for_nothing(features, states, lengths, W):
    contexts = (
        torch.softmax(states @ W @ features.mT, -1)
        @ features
        * _real(lengths, states.shape[1])[..., None]
    )
    return contexts[lengths.argsort(descending=True).argsort()]


@wrong("03.longest_first", "the states are sorted and the pictures are not")
def longest_pictures_stay(*given):
    return _looks(*given, swap=(False, True))


@wrong("03.longest_first", "a caption looks at another one's picture")
def longest_states_stay(*given):
    return _looks(
        *given, swap=(True, False), back=lambda contexts, order: contexts[order.argsort()]
    )


@wrong("03.longest_first", "captions end at the lengths of other ones")
def longest_lengths_alone(*given):
    return _looks(*given, swap=(False, False), back=lambda contexts, order: contexts)


@wrong("03.longest_first", "one step too few")
def longest_one_less(*given):
    return _looks(*given, extra=-1)


@wrong("03.longest_first", "one step too many")
def longest_one_more(*given):
    return _looks(*given, extra=1)


@wrong("03.longest_first", "behind the end of a caption")
def longest_never_ends(*given):
    return _looks(*given, extra=99)


@wrong("03.longest_first", "over the captions")
def longest_over_the_batch(features, states, lengths, W):
    contexts = torch.softmax(torch.einsum("bmd,bpd->bmp", states @ W, features), 0) @ features
    return contexts * _real(lengths, states.shape[1])[..., None]


@wrong("03.longest_first", "gradient")
def longest_detached(features, states, lengths, W):
    return _looks(features, states, lengths, W.detach())


@wrong("03.longest_first", "where captions are equally long")
def found_by_its_length(features, states, lengths, w):
    ordered, order = lengths.sort(descending=True)
    weights = torch.einsum("bmd,df,bpf->bmp", states[order], w, features[order]).softmax(-1)
    contexts = weights @ features[order] * _real(ordered, states.shape[1])[..., None]
    return contexts[[ordered.tolist().index(n) for n in lengths.tolist()]]
