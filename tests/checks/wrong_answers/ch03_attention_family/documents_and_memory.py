import torch

from ..collection import wrong


def _real(lengths, n):
    return torch.arange(n) < lengths[:, None]


def _pool(
    h, W, b, u, lengths, keys=lambda z: torch.tanh(z), dim=-1, fill=float("-inf"), clean=True
):
    real = _real(lengths, h.shape[1])
    weights = torch.softmax((keys(h @ W.T + b) @ u).masked_fill(~real, fill), dim)
    weights = weights.nan_to_num() * real if clean else weights
    return (weights[..., None] * h).sum(1), weights


@wrong("03.learned_query", "the lengths are not used")
def query_no_mask(h, W, b, u, lengths):
    weights = torch.softmax(torch.tanh(h @ W.T + b) @ u, -1)
    weights = torch.where((lengths > 0)[:, None], weights, 0.0)
    return (weights[..., None] * h).sum(1), weights


@wrong("03.learned_query", "set to 0 after the softmax")
def query_mask_after(h, W, b, u, lengths):
    weights = torch.softmax(torch.tanh(h @ W.T + b) @ u, -1) * _real(lengths, h.shape[1])
    return (weights[..., None] * h).sum(1), weights


@wrong("03.learned_query", "over the sequences of the batch")
def query_over_the_batch(h, W, b, u, lengths):
    return _pool(h, W, b, u, lengths, dim=0)


@wrong("03.learned_query", "the tanh is missing")
def query_no_tanh(h, W, b, u, lengths):
    return _pool(h, W, b, u, lengths, keys=lambda z: z)


@wrong("03.learned_query", "the bias b is not used")
def query_no_bias(h, W, b, u, lengths):
    return _pool(h, W, 0 * b, u, lengths)


@wrong("03.learned_query", "no real position: its weights and its vector are zeros")
def query_nan(h, W, b, u, lengths):
    return _pool(h, W, b, u, lengths, clean=False)


@wrong("03.learned_query", "Yours has weights that add up to 1")
def query_finite_fill(h, W, b, u, lengths):
    return _pool(h, W, b, u, lengths, fill=-1e9, clean=False)


@wrong("03.learned_query", "expected (pooled, weights)")
def query_wrong_way_round(h, W, b, u, lengths):
    return _pool(h, W, b, u, lengths)[::-1]


@wrong("03.learned_query", "the query u is not used")
def query_unused(h, W, b, u, lengths):
    return _pool(h, W, b, torch.ones_like(u), lengths)


@wrong("03.learned_query", "equal weights")
def query_mean(h, W, b, u, lengths):
    return _pool(h, W, b, 0 * u, lengths)


@wrong("03.learned_query", "mean of the weighted annotations")
def query_mean_of_weighted(h, W, b, u, lengths):
    pooled, weights = _pool(h, W, b, u, lengths)
    return pooled / h.shape[1], weights


@wrong("03.learned_query", "the keys are added up")
def query_pools_keys(h, W, b, u, lengths):
    _, weights = _pool(h, W, b, u, lengths)
    return (weights[..., None] * torch.tanh(h @ W.T + b)).sum(1), weights


@wrong("03.learned_query", "exp(0) is 1")
def query_zero_for_infinity(h, W, b, u, lengths):
    return _pool(h, W, b, u, lengths, fill=0.0, clean=False)


@wrong("03.learned_query", "no gradient goes back")
def query_detached(h, W, b, u, lengths):
    pooled, weights = _pool(h, W, b, u, lengths)
    return pooled.detach(), weights


@wrong("03.learned_query", "no gradient reaches u")
def query_weights_detached(h, W, b, u, lengths):
    _, weights = _pool(h, W, b, u, lengths)
    return (weights[..., None].detach() * h).sum(1) + 0 * (W.sum() + b.sum()), weights


def _encode(x, lengths, first_word=1, first_component=1, total=None, mask=True, sign=-1):
    _, words, d = x.shape
    j = torch.arange(first_word, words + first_word).float()[None, :, None]
    k = torch.arange(first_component, d + first_component).float()
    J = (lengths if total is None else torch.full_like(lengths, total))[:, None, None].float()
    scale = (1 - j / J) + sign * (k / d) * (1 - 2 * j / J)
    if mask:
        scale = scale * _real(lengths, words)[..., None]
    return (scale * x).sum(1)


@wrong("03.position_encoding", "added up as they are")
def encoding_bag(x, lengths):
    return (x * _real(lengths, x.shape[1])[..., None]).sum(1)


@wrong("03.position_encoding", "the words are counted from 0")
def encoding_from_zero(x, lengths):
    return _encode(x, lengths, 0, 0)


@wrong("03.position_encoding", "the words j are counted from 0")
def encoding_words_from_zero(x, lengths):
    return _encode(x, lengths, 0)


@wrong("03.position_encoding", "the components r are counted from 0")
def encoding_components_from_zero(x, lengths):
    return _encode(x, lengths, 1, 0)


@wrong("03.position_encoding", "J is the padded length")
def encoding_padded_length(x, lengths):
    return _encode(x, lengths, total=x.shape[1])


@wrong("03.position_encoding", "the padding is added as well")
def encoding_no_mask(x, lengths):
    return _encode(x, lengths, mask=False)


@wrong("03.position_encoding", "the two terms are added")
def encoding_plus(x, lengths):
    return _encode(x, lengths, sign=1)


@wrong("03.position_encoding", "the mean of the words")
def encoding_mean(x, lengths):
    return _encode(x, lengths) / lengths[:, None]


@wrong("03.position_encoding", "the shape is")
def encoding_not_summed(x, lengths):
    return x * _real(lengths, x.shape[1])[..., None]


def _encode_with(x, lengths, scale, last=0):
    """With another scale: a function of j, k / d and J, broadcast to (batch, words, d)."""
    _, words, d = x.shape
    j, k = torch.arange(1, words + 1).float()[None, :, None], torch.arange(1, d + 1) / d
    return (
        scale(j, k, lengths[:, None, None].float()) * _real(lengths + last, words)[..., None] * x
    ).sum(1)


@wrong("03.position_encoding", "one word of the padding is added")
def encoding_places_from_zero(x, lengths):
    return _encode_with(x, lengths, lambda j, k, J: (1 - j / J) - k * (1 - 2 * j / J), last=1)


@wrong("03.position_encoding", "the last word of each sentence is left out")
def encoding_last_word_lost(x, lengths):
    return _encode_with(x, lengths, lambda j, k, J: (1 - j / J) - k * (1 - 2 * j / J), last=-1)


@wrong("03.position_encoding", "the brackets are wrong: r/d multiplies")
def encoding_brackets(x, lengths):
    return _encode_with(x, lengths, lambda j, k, J: ((1 - j / J) - k) * (1 - 2 * j / J))


@wrong("03.position_encoding", "the brackets are missing")
def encoding_no_brackets(x, lengths):
    return _encode_with(x, lengths, lambda j, k, J: 1 - j / J - k * 1 - 2 * j / J)


@wrong("03.position_encoding", "not (1 − 2j)/J")
def encoding_divides_all(x, lengths):
    return _encode_with(x, lengths, lambda j, k, J: (1 - j / J) - k * (1 - 2 * j) / J)


@wrong("03.position_encoding", "the 2 is missing")
def encoding_without_the_two(x, lengths):
    return _encode_with(x, lengths, lambda j, k, J: (1 - j / J) - k * (1 - j / J))


@wrong("03.position_encoding", "no gradient goes back")
def encoding_detached(x, lengths):
    return _encode(x, lengths).detach()


def _hops(
    u, memories, lengths, forget=False, freeze=False, masked=True, dim=-1, scale=1.0, pairs=None
):
    first, rows = u, []
    for k in range(len(memories) - 1):
        key, value = pairs(k) if pairs else (k, k + 1)
        e = scale * ((first if freeze else u)[:, None] * memories[key]).sum(-1)
        if masked:
            e = e.masked_fill(~_real(lengths, e.shape[1]), float("-inf"))
        p = torch.softmax(e, dim).nan_to_num()
        o = (p[..., None] * memories[value]).sum(1)
        u = o if forget else u + o
        rows.append(p)
    return u, torch.stack(rows, 1)


@wrong("03.memory_hops", "u is forgotten")
def hops_forget(u, memories, lengths):
    return _hops(u, memories, lengths, forget=True)


@wrong("03.memory_hops", "every hop asks the first question")
def hops_frozen(u, memories, lengths):
    return _hops(u, memories, lengths, freeze=True)


@wrong("03.memory_hops", "the lengths are not used")
def hops_no_mask(u, memories, lengths):
    return _hops(u, memories, lengths, masked=False)


@wrong("03.memory_hops", "the values of a hop are its keys")
def hops_one_memory(u, memories, lengths):
    return _hops(u, memories, lengths, pairs=lambda k: (k, k))


@wrong("03.memory_hops", "keys and values are swapped")
def hops_swapped(u, memories, lengths):
    return _hops(u, memories, lengths, pairs=lambda k: (k + 1, k))


@wrong("03.memory_hops", "reads the first two memories")
def hops_same_memory(u, memories, lengths):
    return _hops(u, memories, lengths, pairs=lambda k: (0, 1))


@wrong("03.memory_hops", "does not scale")
def hops_scaled(u, memories, lengths):
    return _hops(u, memories, lengths, scale=u.shape[-1] ** -0.5)


@wrong("03.memory_hops", "over the stories of the batch")
def hops_over_the_batch(u, memories, lengths):
    return _hops(u, memories, lengths, dim=0)


@wrong("03.memory_hops", "this is o of the last hop")
def hops_last_output(u, memories, lengths):
    found, weights = _hops(u, memories, lengths)
    return found - _hops(u, memories[:-1], lengths)[0], weights


@wrong("03.memory_hops", "one row of weights a hop")
def hops_last_weights(u, memories, lengths):
    found, weights = _hops(u, memories, lengths)
    return found, weights[:, -1]


@wrong("03.memory_hops", "after the softmax")
def hops_mask_after(u, memories, lengths):
    rows = []
    for keys, values in zip(memories, memories[1:]):
        p = torch.softmax((u[:, None] * keys).sum(-1), -1) * _real(lengths, keys.shape[1])
        u = u + (p[..., None] * values).sum(1)
        rows.append(p)
    return u, torch.stack(rows, 1)


@wrong("03.memory_hops", "the values of a hop are its keys")
def hops_keys_for_values_at_the_end(u, memories, lengths):
    _, weights = _hops(u, memories, lengths)
    return u + sum(
        (weights[:, k, :, None] * memory).sum(1) for k, memory in enumerate(memories[:-1])
    ), weights


@wrong("03.memory_hops", "the hops in front")
def hops_stacked_in_front(u, memories, lengths):
    found, weights = _hops(u, memories, lengths)
    return found, weights.transpose(0, 1)


@wrong("03.memory_hops", "no gradient goes back")
def hops_detached(u, memories, lengths):
    found, weights = _hops(u, memories, lengths)
    return found.detach(), weights


@wrong("03.memory_hops", "the gradient at the question is not")
def hops_forget_the_way(u, memories, lengths):
    rows = []
    for keys, values in zip(memories, memories[1:]):
        p = torch.softmax(
            (u.detach()[:, None] * keys)
            .sum(-1)
            .masked_fill(~_real(lengths, keys.shape[1]), float("-inf")),
            -1,
        )
        u = u + (p[..., None] * values).sum(1)
        rows.append(p)
    return u, torch.stack(rows, 1)


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


@wrong(
    "03.words_look_at_words",
    "leave out the keys (columns) of the padding and not its queries (rows)",
)
def around_rows_with_infinity(*given):
    return _around(*given, allowed=lambda row, column: row, fill=float("-inf"))


@wrong(
    "03.words_look_at_words",
    "leave out the keys (columns) of the padding and not its queries (rows)",
)
def around_both_with_infinity(*given):
    return _around(*given, allowed=lambda row, column: row & column, fill=float("-inf"))


@wrong("03.words_look_at_words", "a word looks at the padding")
def around_either(*given):
    return _around(*given, allowed=lambda row, column: row | column)


@wrong("03.words_look_at_words", "the mask comes after the softmax")
def around_mask_after(*given):
    return _around(*given, after=True)


@wrong("03.words_look_at_words", "the rows of the padding are not zeros")
def around_padding_answers(*given):
    return _around(*given, zeros=False)


@wrong("03.words_look_at_words", "the mask is upside down")
def around_upside_down(*given):
    return _around(*given, allowed=lambda row, column: ~column)


@wrong("03.words_look_at_words", "one mask for all")
def around_longest_of_all(*given):
    return _around(*given, allowed=lambda row, column: column.any(0, keepdim=True))


@wrong("03.words_look_at_words", "the mask of the first one")
def around_first_of_all(*given):
    return _around(*given, allowed=lambda row, column: column[:1])


@wrong("03.words_look_at_words", "over the queries")
def around_over_the_queries(*given):
    return _around(*given, dim=1)


@wrong("03.words_look_at_words", "divided by d: expected its root")
def around_scaled_too_much(words, *rest):
    return _around(words, *rest, scale=words.shape[-1])


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
