import torch

from ..collection import edits, wrong

edit = edits("05.one_more")
edit("expected one of", "nearly none", "none")
edit("expected one of", "nearly none", "nearly nothing")
edit("one of 'nearly all'", '"nearly none"', "0")

edit = edits("05.sorting_targets")
edit("the dtype is float32", "return order.masked_fill(~real, -1)", "return numbers.sort(1).values")
edit("as wide as numbers", "~real, -1)", "~real, -1)[:, : lengths.max()]")
edit("a number that is 0 counts as padding", "torch…", "numbers != 0")


edit = edits("05.plain_rate")
edit("it is still falling, the steps are too small", "1.0", "0.01")
edit("the weights have hardly moved", "1.0", "1e-6")
edit("which is a guess: the first steps threw the weights", "1.0", "100.0")
edit("expected a number above 0", "1.0", "-1.0")


edit = edits("05.point_at")
edit("is the mask upside down?", ">= lengths", "< lengths")
edit("no gradient reaches d", "(d @", "(d.detach() @")
edit("these are the logarithms", "torch.softmax", "torch.log_softmax")
edit("the softmax is missing", "torch.softmax…", 'scores.masked_fill(padding, float("-inf"))')
edit("masked scores have to be −∞", 'float("-inf")', "-20.0")


edit = edits("05.still_free")
edit("masks the last position", "n, targets)", "n - 1, targets)")
edit("nothing that was pointed at is masked", "before == 0", "before > -1")
edit("the dtype is int64", "(before == 0)…", "((before == 0) & exists[:, None]).long()")


edit = edits("05.pointer_loss")
edit("no gradient goes back", "ignore_index=-1)", "ignore_index=-1).item()")
edit("It has to be −∞", 'float("-inf")', "-1e4")
edit("It has to be −∞", 'float("-inf")', "-1e3")
edit("the mask is upside down", "~free", "free")
edit("the mask is upside down", '~free & (targets >= 0).unsqueeze(-1), float("-inf")', "free, -1e9")


@wrong("05.pointer_loss", "the loss is not finite")
def not_a_number(scores, free, targets):
    terms = (
        scores.masked_fill(~free, float("-inf"))
        .log_softmax(-1)
        .gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    )
    return -(terms * (targets >= 0)).sum() / (targets >= 0).sum()


@wrong("05.pointer_loss", "the gradient at scores is not finite")
def nan_in_the_gradient(scores, free, targets):
    terms = (
        (scores + free.float().log())
        .log_softmax(-1)
        .gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    )
    return -torch.where(targets >= 0, terms, 0.0).sum() / (targets >= 0).sum()


edit = edits("05.point_greedily")
edit("has to be −∞ before the argmax", '.masked_fill(used, float("-inf"))', "")
edit("expected what was pointed at", "item = x[j]", "item = j")
edit("every position once", "return path", "return path[:-1]")
edit("may be lower than any other number", 'float("-inf")', "-10.0")
edit("may be lower than any other number", 'float("-inf")', "-1e9")
edit("draw nothing", ".argmax()", ".softmax(0).multinomial(1)")
edit("draw nothing", "int(scores.", "int(scores.round().")
edit("the scores that step returned are overwritten", "scores.masked_fill", "scores.masked_fill_")
edit("called more than", "return path", "step(item, state)\n    return path")


@wrong("05.point_greedily", "has to be −∞ before the argmax")
def lowered(step, x, start, state):
    path, item, low = [], start, torch.zeros(len(x))
    for _ in x:
        scores, state = step(item, state)
        path.append(int((scores + low).argmax()))
        low[path[-1]], item = -1e9, x[path[-1]]
    return path
