import torch

from ..collection import edits, wrong

edit = edits("09.tokens_of_a_call")
edit("adds one token more", "2.952", "1.952")
edit("the number of tokens is not 3", "2.952", "3")
edit("expected one number", "2.952", '"2.952"')

edit = edits("09.a_draft_without_a_clue")
edit("expected one of 'worse texts'", "more calls", "fewer calls")
edit("a bool came back", '"more calls"', "True")
edit("None came back", 'return "more calls"', "pass")

edit = edits("09.nucleus")
edit("not divided by its sum", " / kept.sum()", "")
edit("the token that reaches the share", "ordered.cumsum(0) - ordered", "ordered.cumsum(0)")
edit("put them in their old places", "[order.argsort()]", "", "p * ", "ordered * ")
edit("that is min-p", "before < share", "ordered >= share * ordered[0]")
edit("the least likely tokens are kept", "before < share", "1 - ordered.cumsum(0) < share")
edit("None came back", "return kept", "kept")


@wrong("09.nucleus", "one token more than needed")
def one_more(p, share):
    ordered, order = p.sort(descending=True)
    before = ordered.cumsum(0) - ordered
    count = int((before < share - 1e-6).sum()) + 1
    kept = torch.zeros_like(p)
    kept[order[:count]] = ordered[:count]
    return kept / kept.sum()


@wrong("09.nucleus", "the token that reaches the share")
def at_least_one(p, share):
    ordered, order = p.sort(descending=True)
    inside = ordered.cumsum(0) <= share + 1e-6
    inside[0] = True
    kept = p * inside[order.argsort()]
    return kept / kept.sum()


edit = edits("09.guesses_checked")
edit("comes from p itself", "rest / rest.sum()", "P[k]")
edit("not divided by its sum", "rest / rest.sum()", "rest")
edit("x was not drawn from Q", "u[k] >= P[k, x[k]]", "u[k] >= P[k, x[k]] / Q[k, x[k]]")
edit("comes from the draft", "rest / rest.sum()", "Q[k]")
edit("after the token that is not kept", "rest / rest.sum()", "P[k + 1]")
edit("the last row of P follows", "P[-1]", "P[-2]")
edit("the draft's distribution follows", "P[-1]", "Q[-1]")
edit("kept is", ">=", "<")


@wrong("09.guesses_checked", "p - q is what is missing for a guess that was drawn")
def half_right(P, Q, x, u):
    for k in range(len(x)):
        if u[k] >= P[k, x[k]]:
            missing = (P[k] - Q[k]).clamp(min=0)
            return k, missing / missing.sum()
    return len(x), P[-1]


@wrong("09.guesses_checked", "belong to another text")
def all_that_fit(P, Q, x, u):
    fits = u < P[torch.arange(len(x)), x]
    kept = int(fits.sum())
    if kept == len(x):
        return kept, P[-1]
    first = int((~fits).int().argmax())
    rest = P[first].clone()
    rest[x[first]] = 0
    return kept, rest / rest.sum()


edit = edits("09.pages_given_back")
edit("still used in part", "-(-(length - number) // size)", "(length - number) // size")
edit("with nothing in it is kept", "-(-(length - number) // size)", "(length - number) // size + 1")
edit("all pages are kept", "return pages[:need]", "return pages")
edit("one reader less, not none", "readers[page] -= 1", "readers[page] = 0")
edit("has one reader less", "readers[page] -= 1", "pass")
edit("that others still read is not free", "if readers[page] == 0:", "if page >= 0:")
edit("without readers is free again", "if readers[page] == 0:", "if readers[page] < 0:")
edit("must be a list of ints", "return pages[:need]", "return tuple(pages[:need])")


@wrong("09.guesses_checked", "x was not drawn from Q")
def as_printed(P, Q, x, u):
    for k in range(len(x)):
        if u[k] >= P[k, x[k]] / Q[k, x[k]]:
            missing = (P[k] - Q[k]).clamp(min=0)
            return k, missing / missing.sum()
    return len(x), P[-1]


@wrong("09.nucleus", "only the likeliest token is kept")
def greedy(p, share):
    return torch.nn.functional.one_hot(p.argmax(), len(p)).float()


@wrong("09.nucleus", "a share of the tokens is kept")
def a_share_of_the_tokens(p, share):
    best = p.topk(max(1, int(share * len(p)))).indices
    kept = torch.zeros_like(p).index_copy(0, best, p[best])
    return kept / kept.sum()


@wrong("09.nucleus", "is every token kept that is as likely as the last one?")
def above_a_threshold(p, share):
    ordered = p.sort(descending=True).values
    kept = p * (p >= ordered[int((ordered.cumsum(0) < share).sum().clamp(max=len(p) - 1))])
    return kept / kept.sum()
