import math

import torch

from ..collection import wrong


def _attend(X, W_q, W_k, W_v, allowed, fill=float("-inf"), scale=None, dim=-1):
    q, k, v = X @ W_q.T, X @ W_k.T, X @ W_v.T
    scores = q @ k.transpose(1, 2) / (math.sqrt(k.shape[-1]) if scale is None else scale)
    weights = torch.softmax(scores.masked_fill(~allowed, fill), dim).nan_to_num(0.0)
    return weights @ v, weights


def _before(X, diagonal=-1):
    return torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril(diagonal)


@wrong("03.words_before", "attends to itself too")
def itself_too(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, _before(X, 0))


@wrong("03.words_before", "the mask is upside down")
def upside_down(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, ~_before(X, 0))


@wrong("03.words_before", "the mask is upside down")
def upside_down_with_itself(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, ~_before(X))


@wrong("03.words_before", "there is no mask")
def no_mask(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, torch.ones_like(_before(X)))


@wrong("03.words_before", "a softmax over nothing but -inf is NaN")
def not_a_number(X, W_q, W_k, W_v):
    q, k, v = X @ W_q.T, X @ W_k.T, X @ W_v.T
    weights = torch.softmax(
        (q @ k.mT / math.sqrt(k.shape[-1])).masked_fill(~_before(X), float("-inf")), -1
    )
    return weights @ v, weights


@wrong("03.words_before", "the first row is a flat share of all words")
def flat_first_row(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, _before(X), fill=-1e9)


@wrong("03.words_before", "the first word attends to itself")
def first_to_itself(X, W_q, W_k, W_v):
    allowed = _before(X)
    allowed[0, 0] = True
    return _attend(X, W_q, W_k, W_v, allowed)


@wrong("03.words_before", "the mask comes after the softmax")
def mask_after(X, W_q, W_k, W_v):
    _, weights = _attend(X, W_q, W_k, W_v, torch.ones_like(_before(X)))
    weights = weights * _before(X)
    return weights @ (X @ W_v.T), weights


@wrong("03.words_before", "not divided by the root")
def not_scaled(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, _before(X), scale=1.0)


@wrong("03.words_before", "the width of the words: expected that of the keys")
def scaled_by_the_words(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, _before(X), scale=math.sqrt(X.shape[-1]))


@wrong("03.words_before", "over the words that look")
def over_the_queries(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, _before(X), dim=-2)


@wrong("03.words_before", "queries and keys are swapped")
def swapped(X, W_q, W_k, W_v):
    return _attend(X, W_k, W_q, W_v, _before(X))


@wrong("03.words_before", "adds up keys")
def keys_for_values(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_k, _before(X))


@wrong("03.words_before", "returns (weights, context)")
def turned_round(X, W_q, W_k, W_v):
    return _attend(X, W_q, W_k, W_v, _before(X))[::-1]


@wrong("03.words_before", "no gradient goes back")
def context_detached(X, W_q, W_k, W_v):
    context, weights = _attend(X, W_q, W_k, W_v, _before(X))
    return context.detach(), weights


@wrong("03.words_before", "no gradient reaches W_q")
def weights_detached(X, W_q, W_k, W_v):
    _, weights = _attend(X, W_q, W_k, W_v, _before(X))
    return weights.detach() @ (X @ W_v.T), weights


@wrong("03.words_before", "the gradient at x is not finite")
def nan_in_the_gradient(X, W_q, W_k, W_v):
    q, k, v = X @ W_q.T, X @ W_k.T, X @ W_v.T
    powers = torch.exp(q @ k.mT / math.sqrt(k.shape[-1])) * _before(X)
    weights = (powers / powers.sum(-1, keepdim=True)).nan_to_num(0.0)
    return weights @ v, weights


@wrong("03.words_before", "a tensor is changed in place after it was used")
def changed_after_use(X, W_q, W_k, W_v):
    _, weights = _attend(X, W_q, W_k, W_v, _before(X), fill=-1e9)
    values = X @ W_v.T
    weights = torch.sigmoid(weights.logit())  # sigmoid keeps its result for the way back
    weights[:, 0] = 0.0
    return weights @ values, weights


def _step(
    x,
    h_tape,
    c_tape,
    summary,
    W_h,
    W_x,
    W_s,
    v,
    W,
    b,
    order="ifoc",
    squash=torch.tanh,
    dim=1,
    before=None,
    h_tilde=None,
    c_tilde=None,
    join=lambda h, x: torch.cat([h, x], -1),
    out=torch.tanh,
):
    inside = h_tape @ W_h.T + (x @ W_x.T + (summary if before is None else before) @ W_s.T)[:, None]
    weights = torch.softmax(squash(inside) @ v, dim)[:, :, None]
    h_tilde = (weights * h_tape).sum(1) if h_tilde is None else h_tilde
    c_tilde = (weights * c_tape).sum(1) if c_tilde is None else c_tilde
    parts = dict(zip(order, (join(h_tilde, x) @ W.T + b).chunk(4, -1)))
    i, f, o = (parts[name].sigmoid() for name in "ifo")
    c = f * c_tilde + i * parts["c"].tanh()
    return (
        torch.cat([h_tape, (o * out(c))[:, None]], 1),
        torch.cat([c_tape, c[:, None]], 1),
        h_tilde,
    )


def _last(tape):
    return tape[:, -1] if tape.shape[1] else torch.zeros(len(tape), tape.shape[2])


@wrong("03.lstmn_step", "in PyTorch's order")
def pytorch_order(*given):
    return _step(*given, order="ifco")


@wrong("03.lstmn_step", "the gates i and f are swapped")
def gates_swapped(*given):
    return _step(*given, order="fioc")


@wrong("03.lstmn_step", "from the last row of the memory tape")
def last_memory(*given):
    return _step(*given, c_tilde=_last(given[2]))


@wrong("03.lstmn_step", "h̃_t is the last row of the hidden tape")
def last_state(*given):
    return _step(*given, h_tilde=_last(given[1]))


@wrong("03.lstmn_step", "that is an LSTM, without attention")
def an_lstm(*given):
    return _step(*given, h_tilde=_last(given[1]), c_tilde=_last(given[2]))


@wrong("03.lstmn_step", "the plain mean of the memory tape")
def mean_memory(*given):
    return _step(*given, c_tilde=given[2].mean(1))


@wrong("03.lstmn_step", "expected the summary h̃_{t-1}")
def state_for_summary(*given):
    return _step(*given, before=_last(given[1]))


@wrong("03.lstmn_step", "the score has no tanh")
def no_tanh(*given):
    return _step(*given, squash=lambda a: a)


@wrong("03.lstmn_step", "the softmax runs over the batch")
def over_the_batch(*given):
    return _step(*given, dim=0)


@wrong("03.lstmn_step", "joined the other way round")
def joined_the_other_way(*given):
    return _step(*given, join=lambda h, x: torch.cat([x, h], -1))


@wrong("03.lstmn_step", "the tanh around c_t is missing")
def no_tanh_of_the_memory(*given):
    return _step(*given, out=lambda c: c)


@wrong("03.lstmn_step", "the old rows and a new one behind them")
def only_the_new_row(*given):
    h_tape, c_tape, summary = _step(*given)
    return h_tape[:, -1:], c_tape[:, -1:], summary


@wrong("03.lstmn_step", "expected behind them")
def new_row_in_front(*given):
    h_tape, c_tape, summary = _step(*given)
    return h_tape.roll(1, 1), c_tape.roll(1, 1), summary


@wrong("03.lstmn_step", "the summary that came in")
def the_old_summary(*given):
    return *_step(*given)[:2], given[3]


@wrong("03.lstmn_step", "empty at the first step")
def nan_at_the_start(*given):
    h_tape, c_tape, summary = _step(*given)
    if given[1].shape[1] == 0:
        h_tape = h_tape * float("nan")
    return h_tape, c_tape, summary


@wrong("03.lstmn_step", "your code stopped with")
def no_empty_tape(*given):
    if given[1].shape[1] == 0:
        return _step(*given, h_tilde=given[1][:, -1], c_tilde=given[2][:, -1])
    return _step(*given)


@wrong("03.lstmn_step", "no gradient reaches x")
def new_row_detached(*given):
    h_tape, c_tape, summary = _step(*given)
    return torch.cat([given[1], h_tape[:, -1:].detach()], 1), c_tape, summary


@wrong("03.lstmn_step", "no gradient reaches c_tape")
def memory_detached(x, h_tape, c_tape, *given):
    new_h, new_c, summary = _step(x, h_tape, c_tape.detach(), *given)
    return new_h, torch.cat([c_tape, new_c[:, -1:]], 1), summary


@wrong("03.lstmn_step", "the third result is the new state")
def state_as_summary(*given):
    h_tape, c_tape, _ = _step(*given)
    return h_tape, c_tape, h_tape[:, -1]


@wrong("03.lstmn_step", "goes through a sigmoid")
def sigmoid_candidate(x, h_tape, c_tape, summary, W_h, W_x, W_s, v, W, b):
    weights = torch.softmax(
        torch.tanh(h_tape @ W_h.T + (x @ W_x.T + summary @ W_s.T)[:, None]) @ v, 1
    )[..., None]
    summary, read = (weights * h_tape).sum(1), (weights * c_tape).sum(1)
    i, f, o, new = (torch.cat([summary, x], -1) @ W.T + b).sigmoid().chunk(4, -1)
    c = f * read + i * new
    return (
        torch.cat([h_tape, (o * c.tanh())[:, None]], 1),
        torch.cat([c_tape, c[:, None]], 1),
        summary,
    )


@wrong("03.lstmn_step", "the softmax comes before v")
def softmax_too_early(x, h_tape, c_tape, summary, W_h, W_x, W_s, v, W, b):
    weights = (
        torch.softmax(torch.tanh(h_tape @ W_h.T + (x @ W_x.T + summary @ W_s.T)[:, None]), 1) @ v
    )[..., None]
    summary, read = (weights * h_tape).sum(1), (weights * c_tape).sum(1)
    i, f, o, new = (torch.cat([summary, x], -1) @ W.T + b).chunk(4, -1)
    c = f.sigmoid() * read + i.sigmoid() * new.tanh()
    return (
        torch.cat([h_tape, (o.sigmoid() * c.tanh())[:, None]], 1),
        torch.cat([c_tape, c[:, None]], 1),
        summary,
    )
