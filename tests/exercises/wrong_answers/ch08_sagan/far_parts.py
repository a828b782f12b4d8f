import torch

from ..collection import edits, wrong


def _halves(a, b, dim=-1):
    middle = a.shape[dim] // 2
    first = torch.cat([a.narrow(dim, 0, middle), b.narrow(dim, middle, a.shape[dim] - middle)], dim)
    second = torch.cat(
        [b.narrow(dim, 0, middle), a.narrow(dim, middle, a.shape[dim] - middle)], dim
    )
    return first, second


edit = edits("08.kappa_by_hand")
edit("how often each colour comes", "0.5", "0.715 / 0.875")
edit("take chance off", "0.5", "0.84")
edit("what lies above it", "0.5", "0.68")
edit("κ is not 0.4", "0.5", "0.4")


edit = edits("08.shut_the_forger")
edit("expected one of 'far above chance'", "far above", "above")
edit("a float came back", '"far above chance"', "0.9")
edit("None came back", 'return "far above chance"', "pass")


edit = edits("08.exchange_gap")
edit("one number a pair", "score…", "(score(a) + score(b) - score(first) - score(second)).mean()")


@wrong("08.exchange_gap", "the lower halves are exchanged")
def lower_halves(score, a, b):
    first, second = _halves(a, b, 2)
    return score(a) + score(b) - score(first) - score(second)


@wrong("08.exchange_gap", "the change of the first picture is all that counts")
def overwritten(score, a, b):
    first, second, m = a.clone(), b.clone(), a.shape[-1] // 2
    first[..., m:] = b[..., m:]
    second[..., m:] = first[..., m:]
    return score(a) + score(b) - score(first) - score(second)


@wrong("08.exchange_gap", "changes its argument")
def exchanged_in_place(score, a, b):
    kept = score(a) + score(b)
    middle = a.shape[-1] // 2
    right = a[..., middle:].clone()
    a[..., middle:] = b[..., middle:]
    b[..., middle:] = right
    return kept - score(a) - score(b)


@wrong("08.exchange_gap", "score was called with")
def halves_alone(score, a, b):
    m = a.shape[-1] // 2
    return score(a[..., :m]) - score(b[..., m:])


def _shares(left, right):
    both = (left >= 0) & (right >= 0)
    l, r = left[both], right[both]
    return (
        l,
        r,
        torch.bincount(l, minlength=9).double() / len(l),
        torch.bincount(r, minlength=9).double() / len(r),
    )


edit = edits("08.above_chance")
edit("two missing figures", "((l == r).sum()) / len(left)", "((left == right).double().mean())")
edit("a share of all pictures", "/ len(left)", "/ len(l)")
edit("chance has to be taken off", "0.0 if…", "(l == r).sum() / len(left)")
edit("not divided by 1 − e", "(a - e) / (1 - e)", "a - e")
edit("frequent colours meet more often", "e = float(p @ q)", "e = 1 / size")
edit("multiply left by right", "p @ q", "p @ p")
edit("both sides thrown together", "float(p @ q)", "float(((p + q) / 2).square().sum())")
edit("largest share", "p @ q", "(p * q).max()")
edit("divide by their number", "/ len(side)", "/ len(left)")
edit("it depends on how often each colour comes", "e = float(p @ q)", "e = 1 / 8")
edit("cut off", "else (a - e) / (1 - e)", "else max(0.0, (a - e) / (1 - e))")


@wrong("08.above_chance", "the division is by 0")
def no_guard(left, right):
    l, r, p, q = _shares(left, right)
    a, e = (l == r).sum() / len(left), p @ q
    return float((a - e) / (1 - e))


@wrong("08.who_looks_at_whom", "the weights are used the wrong way round")
def places_as_printed(x, W_f, W_g, W_h, W_v, gamma):
    flat = x.flatten(2)
    weights = ((W_g @ flat).mT @ (W_f @ flat)).softmax(-1)
    return x + gamma * (W_v @ (W_h @ flat @ weights)).view_as(x)


edit = edits("08.who_looks_at_whom")
edit("f and g are exchanged", "keys, queries, values =", "queries, keys, values =")
edit("no gradient reaches W_f", "W_f @", "W_f.detach() @")


edit = edits("08.above_chance")
edit("colour 0 is a colour", ">= 0", "> 0")
