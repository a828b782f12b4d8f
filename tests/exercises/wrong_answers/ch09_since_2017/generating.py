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
edit("is nothing kept?", "ordered.cumsum(0) - ordered", "ordered.cumsum(0)")
edit("None came back", "return kept", "kept")
edit("right to some digits only", "kept.sum()", "(kept.sum() + 1e-6)")


@wrong("09.nucleus", "right for small sizes, but with tokens")
def of_ten_at_most(p, share):
    ordered, order = p.topk(min(10, len(p)))
    kept = torch.zeros_like(p)
    kept[order] = ordered * (ordered.cumsum(0) - ordered < share)
    return kept / kept.sum()


@wrong("09.nucleus", "is every token kept that is as likely as the last one?")
def above_a_threshold(p, share):
    ordered = p.sort(descending=True).values
    kept = p * (p >= ordered[int((ordered.cumsum(0) < share).sum().clamp(max=len(p) - 1))])
    return kept / kept.sum()


edit = edits("09.guesses_checked")
edit("kept is", ">=", "<")
edit(
    "belong to another text", "return k, rest", "return int((u < P[range(len(x)), x]).sum()), rest"
)


@wrong("09.guesses_checked", "x was not drawn from Q")
def as_printed(P, Q, x, u):
    for k in range(len(x)):
        if u[k] >= P[k, x[k]] / Q[k, x[k]]:
            missing = (P[k] - Q[k]).clamp(min=0)
            return k, missing / missing.sum()
    return len(x), P[-1]


edit = edits("09.pages_given_back")
edit("a list of whole numbers", "return pages[:need]", "return set(pages[:need])")
edit(
    "free is a list that was given",
    "readers, free = list(readers), list(free)",
    "readers = [*readers]",
)
edit(
    "pages is a list that was given",
    "return pages[:need]",
    "return pages if need == len(pages) else pages[:need]",
)
