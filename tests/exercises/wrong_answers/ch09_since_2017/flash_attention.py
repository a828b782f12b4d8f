import torch

from ..collection import edits, wrong

edit = edits("09.bytes_moved")
edit("the keys alone", "33", "17")
edit("the number of mebibytes is not 40", "33", "40")
edit("expected one number", "33", '"33 MiB"')

edit = edits("09.wider_heads")
edit("expected one of 'half as many'", "twice as many", "four times")
edit("a float came back", '"twice as many"', "2.0")
edit("None came back", 'return "twice as many"', "pass")

edit = edits("09.merge_by_log_sums")
edit("measure the exponentials from the larger one", "torch.maximum(L_a, L_b)", "0 * L_a")
edit("does an exponential overflow", "torch.maximum", "torch.minimum")
edit("a 0 divided by 0", "total.clamp_min(1e-30)", "total")
edit("L has to be -inf", "torch.where…", "safe.log()+top")
edit("expected the tuple (context, L)", "return context, ", "return ")
edit("no gradient reaches L_a", "torch.exp(L_a - top)", "torch.exp(L_a.detach() - top)")


@wrong("09.merge_by_log_sums", "the gradient at context_a is not finite")
def nan_that_is_replaced(context_a, L_a, context_b, L_b):
    log = torch.logaddexp(L_a, L_b)
    a, b = (L_a - log).exp(), (L_b - log).exp()
    context = a[:, None] * context_a + b[:, None] * context_b
    return torch.where(log[:, None] == -torch.inf, 0.0, context), log


edit = edits("09.worked_yesterday")
edit("near -200", 'float("-inf")', "-50.0")
edit("context[", "out = shrink * out", "out = out")
edit("on random queries and keys", "(top - top_new).exp()", "(top_new - top).exp()")
edit(
    "on random queries and keys", "torch.maximum…", "scores.amax(-1, keepdim=True)", "(top…", "1.0"
)
edit("context[", "maximum…", "where(top.isinf(), scores.amax(-1, keepdim=True), top)")
edit("near -200", "(scores - top_new).exp(), (top - top_new).exp()", "scores.exp(), 1.0")


edit = edits("09.tiles_of_a_window")
edit("all its keys lie in the future", "most >= 0 and least < w", "least < w")
edit("have left the window", "most >= 0 and least < w", "most >= 0")
edit("have left the window", "and least < w:", "and least <= w:")
edit("is missing", "most >= 0 and", "least >= 0 and")
edit("is missing", "most >= 0 and", "most > 0 and")
edit("is missing", "and least < w:", "and most < w:")
edit("said to be full", "least >= 0 and most < w)", "most < w)")
edit("said to be full", "least >= 0 and most < w)", "least >= 0)")
edit("said not to be full", "least >= 0 and most < w)", "least > 0 and most < w)")
edit("said to be full", "most < w))", "most <= w))")
edit("said not to be full", "min(left + columns, n) - 1", "left + columns - 1")
edit("expected the tuple (i, j, full)", "(i, j, least >= 0 and most < w)", "(i, j)")
edit("the order is another", "return found", "return sorted(found, key=lambda x: x[1])")
edit("visited twice", "return found", "return found + found[:1]")
edit("are numbered from 0", "enumerate(range(0, n, rows))", "enumerate(range(0, n, rows), 1)")
edit("there is no tile", "return found", "return [*found, (n, 0, False)]")
edit("rows and columns are swapped", "(i, j, ", "(j, i, ")
edit("NoneType came back", "return found", "pass")
edit("full of tile", "least >= 0 and most < w)", "int(least >= 0 and most < w))")


@wrong("09.worked_yesterday", "a sum of exponentials that are all 0")
def as_printed(Q, K, V, size):
    top = torch.zeros(len(Q), 1)
    total, out = torch.zeros(len(Q), 1), torch.zeros(len(Q), V.shape[1])
    for k, v in zip(K.split(size), V.split(size)):
        scores = Q @ k.T / K.shape[1] ** 0.5
        top_new = torch.maximum(top, scores.amax(-1, keepdim=True))
        p, shrink = (scores - top_new).exp(), (top - top_new).exp()
        total = shrink * total + p.sum(-1, keepdim=True)
        out = shrink * out + p @ v
        top = top_new
    return out / total
