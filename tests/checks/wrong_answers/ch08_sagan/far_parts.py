import torch

from ..collection import wrong


def _halves(a, b, dim=-1):
    middle = a.shape[dim] // 2
    first = torch.cat([a.narrow(dim, 0, middle), b.narrow(dim, middle, a.shape[dim] - middle)], dim)
    second = torch.cat(
        [b.narrow(dim, 0, middle), a.narrow(dim, middle, a.shape[dim] - middle)], dim
    )
    return first, second


@wrong("08.exchange_gap", "the sign is wrong")
def gap_reversed(score, a, b):
    first, second = _halves(a, b)
    return score(first) + score(second) - score(a) - score(b)


@wrong("08.exchange_gap", "an exchange makes two")
def one_new_picture(score, a, b):
    return score(a) + score(b) - score(_halves(a, b)[0])


@wrong("08.exchange_gap", "the second one has the left half of b")
def left_twice(score, a, b):
    first, _ = _halves(a, b)
    return score(a) + score(b) - 2 * score(first)


@wrong("08.exchange_gap", "nothing is exchanged")
def own_halves(score, a, b):
    return score(a) + score(b) - score(_halves(a, a)[0]) - score(_halves(b, b)[0])


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


@wrong("08.exchange_gap", "the change of the second picture is all that counts")
def second_alone(score, a, b):
    return score(b) - score(_halves(a, b)[1])


@wrong("08.exchange_gap", "the halves of one picture are exchanged")
def turned_round(score, a, b):
    m = a.shape[-1] // 2
    return score(a) + score(b) - score(a.roll(m, -1)) - score(b.roll(m, -1))


@wrong("08.exchange_gap", "the absolute value is taken")
def gap_without_sign(score, a, b):
    first, second = _halves(a, b)
    return (score(a) + score(b) - score(first) - score(second)).abs()


@wrong("08.exchange_gap", "one number a pair")
def gap_averaged(score, a, b):
    first, second = _halves(a, b)
    return (score(a) + score(b) - score(first) - score(second)).mean()


@wrong("08.exchange_gap", "a mean of the scores")
def half_the_gap(score, a, b):
    first, second = _halves(a, b)
    return (score(a) + score(b)) / 2 - (score(first) + score(second)) / 2


@wrong("08.exchange_gap", "changes its argument")
def exchanged_in_place(score, a, b):
    kept = score(a) + score(b)
    middle = a.shape[-1] // 2
    right = a[..., middle:].clone()
    a[..., middle:] = b[..., middle:]
    b[..., middle:] = right
    return kept - score(a) - score(b)


@wrong("08.exchange_gap", "left halves stay left")
def wrong_places(score, a, b):
    m = a.shape[-1] // 2
    first, second = torch.cat([b[..., m:], a[..., :m]], -1), torch.cat([a[..., m:], b[..., :m]], -1)
    return score(a) + score(b) - score(first) - score(second)


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


def _kappa(a, e):
    a, e = float(a), float(e)
    return 0.0 if e > 1 - 1e-9 else (a - e) / (1 - e)


@wrong("08.above_chance", "two missing figures")
def missing_agree(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((left == right).double().mean(), p @ q)


@wrong("08.above_chance", "a share of all pictures")
def of_those_found(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).double().mean(), p @ q)


@wrong("08.above_chance", "chance has to be taken off")
def agreement_alone(left, right):
    l, r, p, q = _shares(left, right)
    return (l == r).sum() / len(left)


@wrong("08.above_chance", "not divided by 1 − e")
def difference_alone(left, right):
    l, r, p, q = _shares(left, right)
    return float((l == r).sum()) / len(left) - float(p @ q)


@wrong("08.above_chance", "frequent colours meet more often")
def even_chance(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).sum() / len(left), 1 / (int(max(l.max(), r.max())) + 1))


@wrong("08.above_chance", "multiply left by right")
def left_squared(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).sum() / len(left), p @ p)


@wrong("08.above_chance", "both sides thrown together")
def pooled_shares(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).sum() / len(left), ((p + q) / 2).square().sum())


@wrong("08.above_chance", "the division is by 0")
def no_guard(left, right):
    l, r, p, q = _shares(left, right)
    a, e = (l == r).sum() / len(left), p @ q
    return float((a - e) / (1 - e))


@wrong("08.above_chance", "largest share")
def largest_share(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).sum() / len(left), (p * q).max())


@wrong("08.above_chance", "divide by their number")
def shares_of_all(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).sum() / len(left), p @ q * (len(l) / len(left)) ** 2)


@wrong("08.above_chance", "it depends on how often each colour comes")
def one_in_eight(left, right):
    l, r, p, q = _shares(left, right)
    return _kappa((l == r).sum() / len(left), 1 / 8)


@wrong("08.above_chance", "cut off")
def never_negative(left, right):
    l, r, p, q = _shares(left, right)
    return max(0.0, _kappa((l == r).sum() / max(len(left), 1), p @ q)) if len(l) else 0.0


def _attended(
    x,
    W_f,
    W_g,
    W_h,
    W_v,
    gamma,
    weigh=lambda scores: scores.softmax(-1).mT,
    join=lambda x, gamma, o: x + gamma * o,
    sides=lambda o, x: o.view_as(x),
):
    flat = x.flatten(2)
    scores = (W_g @ flat).mT @ (W_f @ flat)
    return join(x, gamma, sides(W_v @ (W_h @ flat @ weigh(scores)), x))


@wrong("08.who_looks_at_whom", "the weights are used the wrong way round")
def places_as_printed(*given):
    return _attended(*given, weigh=lambda scores: scores.softmax(-1))


@wrong("08.who_looks_at_whom", "f and g are exchanged")
def places_exchanged(x, W_f, W_g, *rest):
    return _attended(x, W_g, W_f, *rest)


@wrong("08.who_looks_at_whom", "f and g are exchanged")
def places_softmax_moved_too(*given):
    return _attended(*given, weigh=lambda scores: scores.softmax(1))


@wrong("08.who_looks_at_whom", "over the places that look")
def places_other_softmax(*given):
    return _attended(*given, weigh=lambda scores: scores.softmax(1).mT)


@wrong("08.who_looks_at_whom", "gamma multiplies x")
def places_gamma_at_x(*given):
    return _attended(*given, join=lambda x, gamma, o: gamma * x + o)


@wrong("08.who_looks_at_whom", "gamma multiplies both")
def places_gamma_at_both(*given):
    return _attended(*given, join=lambda x, gamma, o: gamma * (x + o))


@wrong("08.who_looks_at_whom", "gamma is not used")
def places_without_gamma(*given):
    return _attended(*given, join=lambda x, gamma, o: x + o)


@wrong("08.who_looks_at_whom", "x is not added")
def places_alone(*given):
    return _attended(*given, join=lambda x, gamma, o: gamma * o)


@wrong("08.who_looks_at_whom", "expected x + gamma · o")
def places_in_shares(*given):
    return _attended(*given, join=lambda x, gamma, o: (1 - gamma) * x + gamma * o)


@wrong("08.who_looks_at_whom", "this layer does not scale")
def places_scaled(*given):
    return _attended(*given, weigh=lambda scores: (scores / 3**0.5).softmax(-1).mT)


@wrong("08.who_looks_at_whom", "height and width are exchanged")
def places_turned(*given):
    return _attended(*given, sides=lambda o, x: o.unflatten(-1, (x.shape[3], x.shape[2])).mT)


@wrong("08.who_looks_at_whom", "no gradient reaches W_f")
def places_detached(x, W_f, *rest):
    return _attended(x, W_f.detach(), *rest)
