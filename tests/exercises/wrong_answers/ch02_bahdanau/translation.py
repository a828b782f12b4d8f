import torch

from ..collection import edits, wrong

edit = edits("02.bleu_by_hand")
edit("that is a share", "59.5", "0.595")
edit("the root is missing", "59.5", "12.5")
edit("the score is not 60", "59.5", "60")


edit = edits("02.words_in_reverse")
edit("expected one of '0'", 'return "0"', 'return "none"')
edit("a float came back", 'return "0"', "return 0.0")
edit("None came back", 'return "0"', "pass")


edit = edits("02.merge_subwords")
edit(
    "one row per target word, one column per source word",
    "target @ weights @ source",
    "(target @ weights @ source).T",
)


edit(
    "adds up to",
    "target @ weights @ source",
    "target @ weights @ (source * (source.cumsum(0) == 1))",
)
edit("no gradient goes back", "target @ weights @ source", "(target @ weights @ source).detach()")


@wrong(
    "02.look_by_content",
    "the weights do not depend on the annotations: numbers of the question itself",
)
def look_as_printed(embedded, state, annotations, W, real):
    scores = (torch.cat([embedded, state], -1) @ W)[:, : annotations.shape[1]]
    weights = torch.softmax(scores.masked_fill(~real, float("-inf")), -1)
    return torch.einsum("bn,bnd->bd", weights, annotations), weights


edit = edits("02.look_by_content")
edit("expected (context, weights)", "return context, weights", "return weights, context")
edit("no gradient reaches embedded", "softmax(scores, dim=-1)", "softmax(scores, dim=-1).detach()")
