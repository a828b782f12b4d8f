import torch

from ..collection import edits, wrong

edit = edits("05.second_step")
edit("the padding is in the sum", "0.5", "3 / 11")
edit(" is not ", "0.5", "0.9")
edit("one number", "0.5", '"a half"')

edit = edits("05.one_more")
edit("expected one of", "nearly none", "none")
edit("expected one of", "nearly none", "nearly nothing")
edit("one of 'nearly all'", '"nearly none"', "0")

edit = edits("05.sorting_targets")
edit("these are the ranks", ".argsort(dim=1)", ".argsort(dim=1).argsort(dim=1)")
edit("descending order", "= numbers.masked_fill", "= (-numbers).masked_fill")
edit("the padding is 0", "~real, -1", "~real, 0")
edit("the padding is sorted too", '.masked_fill(~real, float("inf"))', "", ".masked_fill…", "")
edit("the padding is sorted too", '.masked_fill(~real, float("inf"))', "")
edit("the dtype is float32", "return order.masked_fill(~real, -1)", "return numbers.sort(1).values")
edit("as wide as numbers", "~real, -1)", "~real, -1)[:, : lengths.max()]")
edit("the padding is filled with 1", 'float("inf")', "1.0")
edit("a number that is 0 counts as padding", "torch…", "numbers != 0")
edit(
    "one target short",
    "order.masked_fill(~real, -1)",
    "order.masked_fill(torch.arange(numbers.shape[1]) >= real.sum(1)[:, None], -1)",
    "torch.arange(numbers.shape[1]) < lengths[:, None]\n",
    "numbers != 0\n",
)


edit = edits("05.point_at")
edit("there is no mask", '.masked_fill(padding, float("-inf"))', "")
edit("the mask comes after the softmax", ".masked_fill…", ", dim=-1).masked_fill(padding, 0.0)")
edit("exp(0) is 1", 'float("-inf")', "0.0")
edit("is the mask upside down?", ">= lengths", "< lengths")
edit("upside down: the padding is pointed at", ">=", "<", "dim=-1)", "dim=-1).nan_to_num(0.0)")
edit("the softmax runs over the batch", "dim=-1", "dim=0")
edit("the score has no tanh", "torch.tanh", "")
edit("W_1 and W_2 are swapped", "e @ W_1.T + (d @ W_2.T)", "e @ W_2.T + (d @ W_1.T)")
edit("the state d is not used", "(d @", "(0 * d @")
edit("no gradient reaches d", "(d @", "(d.detach() @")
edit("these are the logarithms", "torch.softmax", "torch.log_softmax")
edit("the softmax is missing", "torch.softmax…", 'scores.masked_fill(padding, float("-inf"))')
edit("masked scores have to be −∞", 'float("-inf")', "-20.0")


edit = edits("05.still_free")
edit("free is upside down", "(before == 0) & exists[:, None]", "~((before == 0) & exists[:, None])")
edit("step t masks its own target", "pointed.cumsum(dim=1) - pointed", "pointed.cumsum(dim=1)")
edit(
    "only the position of the step before is masked",
    "pointed.cumsum(dim=1) - pointed",
    "torch.cat([0 * pointed[:, :1], pointed[:, :-1]], 1)",
)
edit("padding of the inputs is free", "(before == 0) & exists[:, None]", "before == 0")
edit("masks the last position", "n, targets)", "n - 1, targets)")
edit("nothing that was pointed at is masked", "before == 0", "before > -1")
edit("the dtype is int64", "(before == 0)…", "((before == 0) & exists[:, None]).long()")


edit = edits("05.pointer_loss")
edit(
    "a softmax comes before the cross-entropy",
    "masked = scores",
    "used = ~free & (targets >= 0).unsqueeze(-1)\n    masked = scores",
    'float("-inf"))',
    'float("-inf")).softmax(-1).masked_fill(used, float("-inf"))',
)
edit("a softmax comes before the cross-entropy", 'float("-inf"))', 'float("-inf")).softmax(-1)')
edit("the scores are not masked", "scores…", "scores")
edit("exp(0) is 1", '~free & (targets >= 0).unsqueeze(-1), float("-inf")', "~free, 0.0")
edit("the loss is a sum", "ignore_index=-1", 'ignore_index=-1, reduction="sum"')
edit(
    "divided by all steps, padding included",
    "ignore_index=-1)",
    'ignore_index=-1, reduction="sum") / targets.numel()',
)
edit(
    "divided by the number of rows",
    "ignore_index=-1)",
    'ignore_index=-1, reduction="sum") / len(targets)',
)
edit("the sign is turned", "return", "return -")
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
edit("mask what was pointed at before the argmax", '.masked_fill(used, float("-inf"))', "")
edit("step reads the start every time", "item = x[j]", "item = start")
edit("step reads x[i] at step i", "item = x[j]", "item = x[len(path) - 1]")
edit("the state is not handed on", "scores, state =", "scores, _ =")
edit("the lowest scores are taken", 'float("-inf")).argmax', 'float("inf")).argmin')
edit("expected what was pointed at", "item = x[j]", "item = j")
edit("every position once", "return path", "return path[:-1]")
edit("with −∞ (the scores may be lower than any other number)", 'float("-inf")', "-10.0")
edit("with −∞ (the scores may be lower than any other number)", 'float("-inf")', "-1e9")
edit("draw nothing", ".argmax()", ".softmax(0).multinomial(1)")
edit("draw nothing", "int(scores.", "int(scores.round().")
edit("the scores that step returned are overwritten", "scores.masked_fill", "scores.masked_fill_")
edit("called more than", "return path", "step(item, state)\n    return path")


@wrong("05.point_greedily", "mask what was pointed at before the argmax, with −∞")
def lowered(step, x, start, state):
    path, item, low = [], start, torch.zeros(len(x))
    for _ in x:
        scores, state = step(item, state)
        path.append(int((scores + low).argmax()))
        low[path[-1]], item = -1e9, x[path[-1]]
    return path
