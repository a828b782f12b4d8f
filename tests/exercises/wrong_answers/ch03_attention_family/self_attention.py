import math

import torch

from ..collection import edits, wrong


def _attend(X, W_q, W_k, W_v, allowed, fill=float("-inf"), scale=None, dim=-1):
    q, k, v = X @ W_q.T, X @ W_k.T, X @ W_v.T
    scores = q @ k.transpose(1, 2) / (math.sqrt(k.shape[-1]) if scale is None else scale)
    weights = torch.softmax(scores.masked_fill(~allowed, fill), dim).nan_to_num(0.0)
    return weights @ v, weights


def _before(X, diagonal=-1):
    return torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril(diagonal)


edit = edits("03.fourth_word")
edit("the fourth word is in the sum", "return 2", "return 9")
edit(" is not ", "return 2", "return 3")
edit("one number", "return 2", 'return "two"')

edit = edits("03.longer_trained")
edit("expected one of", "higher", "more")
edit("expected one of", "higher", "larger")
edit("one of 'lower'", '"higher"', "1")

edit = edits("03.words_before")
edit("attends to itself too", "tril(-1)", "tril(0)")
edit("the mask is upside down", "tril(-1)", "triu(1)")
edit("the mask is upside down", "tril(-1)", "triu(0)")
edit("there is no mask", ".tril(-1)", "")
edit("a softmax over nothing but -inf is NaN", ".nan_to_num(0.0)", "")
edit("the first row is a flat share of all words", 'float("-inf")', "-1e9")
edit("the first word attends to itself", ".bool()", ".bool()\n    before[0, 0] = True")
edit("the mask comes after the softmax", ".masked_fill…", "", ".nan_to_num(0.0)", "* before")
edit("not divided by the root", "/ k.shape[-1] ** 0.5", "")
edit("the width of the words: expected that of the keys", "k.shape[-1]", "x.shape[-1]")
edit("over the words that look", "dim=-1", "dim=-2")
edit("queries and keys are swapped", "q, k, v", "k, q, v")
edit("adds up keys", "weights @ v", "weights @ k")
edit("returns (weights, context)", "weights @ v, weights", "weights, weights @ v")
edit("no gradient goes back", "weights @ v", "(weights @ v).detach()")
edit("no gradient reaches W_q", "weights @ v", "weights.detach() @ v")
edit(
    "the gradient at x is not finite",
    '.masked_fill(~before, float("-inf"))',
    "",
    "torch.softmax(scores, dim=-1)",
    "(scores.exp() * before / (scores.exp() * before).sum(-1, keepdim=True))",
)


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


edit = edits("03.lstmn_step")
edit(
    "the old rows and a new one behind them",
    "torch.cat((h_tape, h.unsqueeze(1)), dim=1)",
    "h.unsqueeze(1)",
    "torch.cat((c_tape, c.unsqueeze(1)), dim=1)",
    "c.unsqueeze(1)",
)
edit(
    "expected behind them",
    "h_tape, h.unsqueeze(1)",
    "h.unsqueeze(1), h_tape",
    "c_tape, c.unsqueeze(1)",
    "c.unsqueeze(1), c_tape",
)
edit("the gradient at x is not", "h.unsqueeze", "h.detach().unsqueeze")
edit("the gradient at c_tape is not", "* c_tape", "* c_tape.detach()")


@wrong("03.lstmn_step", "that is an LSTM, without attention")
def an_lstm(*given):
    return _step(*given, h_tilde=_last(given[1]), c_tilde=_last(given[2]))


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
