import torch

from ..collection import wrong


def _real(lengths, n):
    return torch.arange(n) < lengths[:, None]


def _sorted(numbers, lengths, key=lambda x: x, fill=-1):
    real = _real(lengths, numbers.shape[1])
    return key(numbers).masked_fill(~real, float("inf")).argsort(1).masked_fill(~real, fill)


@wrong("05.sorting_targets", "these are the ranks")
def ranks(numbers, lengths):
    real = _real(lengths, numbers.shape[1])
    return numbers.masked_fill(~real, float("inf")).argsort(1).argsort(1).masked_fill(~real, -1)


@wrong("05.sorting_targets", "descending order")
def descending(numbers, lengths):
    return _sorted(numbers, lengths, key=lambda x: -x)


@wrong("05.sorting_targets", "the padding is 0")
def zero_padding(numbers, lengths):
    return _sorted(numbers, lengths, fill=0)


@wrong("05.sorting_targets", "the padding is sorted too")
def padding_sorted(numbers, lengths):
    return numbers.argsort(1)


@wrong("05.sorting_targets", "the padding is sorted too")
def padding_sorted_then_cut(numbers, lengths):
    return numbers.argsort(1).masked_fill(~_real(lengths, numbers.shape[1]), -1)


@wrong("05.sorting_targets", "the dtype is float32")
def the_numbers_themselves(numbers, lengths):
    return numbers.sort(1).values


@wrong("05.sorting_targets", "as wide as numbers")
def cut_to_the_longest(numbers, lengths):
    return (
        _sorted(numbers, lengths)[:, : lengths.max()]
        if numbers.shape[1] > lengths.max()
        else _sorted(numbers, lengths)
    )


@wrong("05.sorting_targets", "the padding is filled with 1")
def filled_with_one(numbers, lengths):
    real = _real(lengths, numbers.shape[1])
    return numbers.masked_fill(~real, 1.0).argsort(1).masked_fill(~real, -1)


@wrong("05.sorting_targets", "a number that is 0 counts as padding")
def zero_is_padding(numbers, lengths):
    real = numbers != 0
    return numbers.masked_fill(~real, float("inf")).argsort(1).masked_fill(~real, -1)


@wrong("05.sorting_targets", "one target short")
def zero_is_padding_counted(numbers, lengths):
    real = numbers != 0
    return (
        numbers.masked_fill(~real, float("inf"))
        .argsort(1)
        .masked_fill(~_real(real.sum(1), numbers.shape[1]), -1)
    )


def _scores(e, d, W_1, W_2, v, squash=torch.tanh):
    return squash(e @ W_1.T + (d @ W_2.T)[:, None]) @ v


def _masked(u, lengths, fill=float("-inf")):
    return u.masked_fill(~_real(lengths, u.shape[1]), fill)


@wrong("05.point_at", "there is no mask")
def no_mask(e, d, W_1, W_2, v, lengths):
    return _scores(e, d, W_1, W_2, v).softmax(-1)


@wrong("05.point_at", "the mask comes after the softmax")
def mask_after(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v).softmax(-1), lengths, 0.0)


@wrong("05.point_at", "exp(0) is 1")
def mask_of_zeros(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v), lengths, 0.0).softmax(-1)


@wrong("05.point_at", "is the mask upside down?")
def upside_down(e, d, W_1, W_2, v, lengths):
    return (
        _scores(e, d, W_1, W_2, v)
        .masked_fill(_real(lengths, e.shape[1]), float("-inf"))
        .softmax(-1)
    )


@wrong("05.point_at", "upside down: the padding is pointed at")
def upside_down_without_nan(e, d, W_1, W_2, v, lengths):
    return (
        _scores(e, d, W_1, W_2, v)
        .masked_fill(_real(lengths, e.shape[1]), float("-inf"))
        .softmax(-1)
        .nan_to_num(0.0)
    )


@wrong("05.point_at", "the softmax runs over the batch")
def over_the_batch(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v), lengths).softmax(0)


@wrong("05.point_at", "the score has no tanh")
def no_tanh(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v, squash=lambda a: a), lengths).softmax(-1)


@wrong("05.point_at", "W_1 and W_2 are swapped")
def swapped(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_2, W_1, v), lengths).softmax(-1)


@wrong("05.point_at", "the state d is not used")
def no_state(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, 0 * d, W_1, W_2, v), lengths).softmax(-1)


@wrong("05.point_at", "no gradient reaches d")
def state_detached(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d.detach(), W_1, W_2, v), lengths).softmax(-1)


@wrong("05.point_at", "these are the logarithms")
def logarithms(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v), lengths).log_softmax(-1)


@wrong("05.point_at", "the softmax is missing")
def no_softmax(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v), lengths)


@wrong("05.point_at", "masked scores have to be −∞")
def mask_of_minus_twenty(e, d, W_1, W_2, v, lengths):
    return _masked(_scores(e, d, W_1, W_2, v), lengths, -20.0).softmax(-1)


def _free(targets, lengths, n, shift=0):
    pointed = torch.nn.functional.one_hot(torch.where(targets < 0, n, targets), n + 1)[..., :n]
    before = pointed.cumsum(1) - (1 - shift) * pointed
    return (before == 0) & _real(lengths, n)[:, None]


@wrong("05.still_free", "free is upside down")
def mask_instead_of_free(targets, lengths, n):
    return ~_free(targets, lengths, n)


@wrong("05.still_free", "step t masks its own target")
def own_target_masked(targets, lengths, n):
    return _free(targets, lengths, n, shift=1)


@wrong("05.still_free", "only the position of the step before is masked")
def only_the_last(targets, lengths, n):
    pointed = torch.nn.functional.one_hot(torch.where(targets < 0, n, targets), n + 1)[
        ..., :n
    ].bool()
    before = torch.cat([torch.zeros_like(pointed[:, :1]), pointed[:, :-1]], 1)
    return ~before & _real(lengths, n)[:, None]


@wrong("05.still_free", "padding of the inputs is free")
def padding_free(targets, lengths, n):
    return _free(targets, torch.full_like(lengths, n), n)


@wrong("05.still_free", "masks the last position")
def minus_one_as_an_index(targets, lengths, n):
    free = _real(lengths, n)[:, None].repeat(1, targets.shape[1], 1)
    rows = torch.arange(len(targets))
    for t in range(1, targets.shape[1]):
        free[:, t] = free[:, t] & free[:, t - 1]
        free[rows, t, targets[:, t - 1]] = False
    return free


@wrong("05.still_free", "nothing that was pointed at is masked")
def nothing_used(targets, lengths, n):
    return _real(lengths, n)[:, None].repeat(1, targets.shape[1], 1)


@wrong("05.still_free", "the dtype is int64")
def whole_numbers(targets, lengths, n):
    return _free(targets, lengths, n).long()


def _safe(scores, free, targets):
    return scores.masked_fill(~free & (targets >= 0)[..., None], float("-inf"))


def _entropy(logits, targets, **options):
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=-1, **options
    )


@wrong("05.pointer_loss", "a softmax comes before the cross-entropy")
def softmax_twice(scores, free, targets):
    return _entropy(_safe(_safe(scores, free, targets).softmax(-1), free, targets), targets)


@wrong("05.pointer_loss", "a softmax comes before the cross-entropy")
def softmax_twice_unmasked(scores, free, targets):
    return _entropy(_safe(scores, free, targets).softmax(-1), targets)


@wrong("05.pointer_loss", "the scores are not masked")
def not_masked(scores, free, targets):
    return _entropy(scores, targets)


@wrong("05.pointer_loss", "exp(0) is 1")
def zeros_for_masked(scores, free, targets):
    return _entropy(scores.masked_fill(~free, 0.0), targets)


@wrong("05.pointer_loss", "the loss is not finite")
def not_a_number(scores, free, targets):
    terms = (
        scores.masked_fill(~free, float("-inf"))
        .log_softmax(-1)
        .gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    )
    return -(terms * (targets >= 0)).sum() / (targets >= 0).sum()


@wrong("05.pointer_loss", "the loss is a sum")
def a_sum(scores, free, targets):
    return _entropy(_safe(scores, free, targets), targets, reduction="sum")


@wrong("05.pointer_loss", "divided by all steps, padding included")
def mean_over_all_steps(scores, free, targets):
    return a_sum(scores, free, targets) / targets.numel()


@wrong("05.pointer_loss", "divided by the number of rows")
def mean_over_rows(scores, free, targets):
    return a_sum(scores, free, targets) / len(targets)


@wrong("05.pointer_loss", "the sign is turned")
def sign_turned(scores, free, targets):
    return -_entropy(_safe(scores, free, targets), targets)


@wrong("05.pointer_loss", "no gradient goes back")
def a_float(scores, free, targets):
    return float(_entropy(_safe(scores, free, targets), targets).detach())


@wrong("05.pointer_loss", "the gradient at scores is not finite")
def nan_in_the_gradient(scores, free, targets):
    terms = (
        (scores + free.float().log())
        .log_softmax(-1)
        .gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    )
    return -torch.where(targets >= 0, terms, 0.0).sum() / (targets >= 0).sum()


@wrong("05.pointer_loss", "the mask is upside down")
def loss_upside_down(scores, free, targets):
    return _entropy(scores.masked_fill(free & (targets >= 0)[..., None], float("-inf")), targets)


@wrong("05.pointer_loss", "the mask is upside down")
def loss_upside_down_with_a_number(scores, free, targets):
    return _entropy(scores.masked_fill(free, -1e9), targets)


def _greedy(
    step,
    x,
    start,
    state,
    feed=lambda x, path: x[path[-1]],
    again=False,
    hand_on=True,
    pick=torch.argmax,
):
    item, path = start, []
    for _ in range(len(x)):
        scores, new = step(item, state)
        state = new if hand_on else state
        scores = scores.clone()
        if not again:
            scores[path] = float("-inf") if pick is torch.argmax else float("inf")
        path.append(int(pick(scores)))
        item = feed(x, path)
    return path


@wrong("05.point_greedily", "mask what was pointed at before the argmax")
def again_and_again(step, x, start, state):
    return _greedy(step, x, start, state, again=True)


@wrong("05.point_greedily", "step reads the start every time")
def input_never_updated(step, x, start, state):
    return _greedy(step, x, start, state, feed=lambda x, path: start)


@wrong("05.point_greedily", "step reads x[i] at step i")
def reads_in_order(step, x, start, state):
    return _greedy(step, x, start, state, feed=lambda x, path: x[len(path) - 1])


@wrong("05.point_greedily", "the state is not handed on")
def state_dropped(step, x, start, state):
    return _greedy(step, x, start, state, hand_on=False)


@wrong("05.point_greedily", "the lowest scores are taken")
def lowest(step, x, start, state):
    return _greedy(step, x, start, state, pick=torch.argmin)


@wrong("05.point_greedily", "expected what was pointed at")
def feeds_the_position(step, x, start, state):
    return _greedy(step, x, start, state, feed=lambda x, path: path[-1])


@wrong("05.point_greedily", "expected 6: every position once")
def one_short(step, x, start, state):
    return _greedy(step, x, start, state)[:-1]


@wrong("05.point_greedily", "with −∞ (the scores may be lower than any other number)")
def mask_of_minus_ten(step, x, start, state):
    item, path = start, []
    for _ in range(len(x)):
        scores, state = step(item, state)
        path.append(int(scores.index_fill(0, torch.tensor(path, dtype=torch.long), -10.0).argmax()))
        item = x[path[-1]]
    return path


@wrong("05.point_greedily", "the scores that step returned are overwritten")
def scores_overwritten(step, x, start, state):
    item, path = start, []
    for _ in range(len(x)):
        scores, state = step(item, state)
        scores[path] = float("-inf")
        path.append(int(scores.argmax()))
        item = x[path[-1]]
    return path


@wrong("05.point_greedily", "called more than")
def one_too_many(step, x, start, state):
    path = _greedy(step, x, start, state)
    step(x[path[-1]], state)
    return path
