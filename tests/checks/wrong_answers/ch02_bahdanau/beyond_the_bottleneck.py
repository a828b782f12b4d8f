import torch

from ..collection import wrong


def _close(one, other):
    return torch.allclose(one, other, atol=1e-4)


@wrong("02.reads_a_set", "the mask must be shuffled with the states")
def mask_stays(attention, states, mask):
    order = torch.arange(states.shape[1]).flip(0)
    return _close(attention(states, mask), attention(states[:, order], mask))


@wrong("02.reads_a_set", "the states are never shuffled")
def no_shuffle(attention, states, mask):
    return _close(attention(states, mask), attention(states.clone(), mask))


@wrong("02.reads_a_set", "compare up to rounding")
def exact(attention, states, mask):
    order = torch.arange(states.shape[1]).flip(0)
    return torch.equal(attention(states, mask), attention(states[:, order], mask[:, order]))


@wrong("02.reads_a_set", "shuffled together, in one order, along the words (dim 1)")
def rows_exchanged(attention, states, mask):
    return _close(attention(states, mask), attention(states.flip(0), mask.flip(0)))


@wrong("02.reads_a_set", "shuffled together, in one order, along the words (dim 1)")
def two_orders(attention, states, mask):
    return _close(attention(states, mask), attention(states.flip(1), mask.roll(1, 1)))


@wrong("02.reads_a_set", "its context changes with the order")
def only_reversed(attention, states, mask):
    return _close(attention(states, mask), attention(states.flip(1), mask.flip(1)))


@wrong("02.reads_a_set", "its context changes with the order")
def always_true(attention, states, mask):
    attention(states, mask)
    attention(states.flip(1), mask.flip(1))
    return True


@wrong("02.reads_a_set", "a float came back, expected True or False")
def returns_distance(attention, states, mask):
    return (attention(states, mask) - attention(states.flip(1), mask.flip(1))).abs().max().item()


def _bins(predictions, references, lengths, edges, right, inside):
    result = []
    for low, high in zip(edges, edges[1:]):
        hits = [
            right(p, r) for p, r, n in zip(predictions, references, lengths) if inside(low, n, high)
        ]
        result.append(sum(hits) / len(hits) if hits else None)
    return result


def _half_open(low, n, high):
    return low <= n < high


@wrong("02.accuracy_by_length", "both edges of a bin are inside")
def both_edges(predictions, references, lengths, edges):
    return _bins(
        predictions,
        references,
        lengths,
        edges,
        lambda p, r: p == r,
        lambda low, n, high: low <= n <= high,
    )


@wrong("02.accuracy_by_length", "the lower edge is left out")
def upper_edge(predictions, references, lengths, edges):
    return _bins(
        predictions,
        references,
        lengths,
        edges,
        lambda p, r: p == r,
        lambda low, n, high: low < n <= high,
    )


@wrong("02.accuracy_by_length", "single tokens are counted")
def token_accuracy(predictions, references, lengths, edges):
    right = lambda p, r: sum(a == b for a, b in zip(p, r)) / len(r)  # noqa: E731
    return _bins(predictions, references, lengths, edges, right, _half_open)


@wrong("02.accuracy_by_length", "stops too early counts as right")
def prefix(predictions, references, lengths, edges):
    return _bins(
        predictions,
        references,
        lengths,
        edges,
        lambda p, r: all(a == b for a, b in zip(p, r)),
        _half_open,
    )


@wrong("02.accuracy_by_length", "expected None")
def zero_when_empty(predictions, references, lengths, edges):
    return [
        x or 0.0
        for x in _bins(predictions, references, lengths, edges, lambda p, r: p == r, _half_open)
    ]


@wrong("02.accuracy_by_length", "is NaN: no source has a length in")
def mean_of_nothing(predictions, references, lengths, edges):
    hits = [
        [float(p == r) for p, r, n in zip(predictions, references, lengths) if low <= n < high]
        for low, high in zip(edges, edges[1:])
    ]
    return [torch.tensor(row).mean() for row in hits]


@wrong("02.accuracy_by_length", "the number of all sources")
def of_all(predictions, references, lengths, edges):
    result = []
    for low, high in zip(edges, edges[1:]):
        hits = [p == r for p, r, n in zip(predictions, references, lengths) if low <= n < high]
        result.append(sum(hits) / len(lengths) if hits else None)
    return result


@wrong("02.accuracy_by_length", "ZeroDivisionError")
def divides_by_zero(predictions, references, lengths, edges):
    result = []
    for low, high in zip(edges, edges[1:]):
        hits = [p == r for p, r, n in zip(predictions, references, lengths) if low <= n < high]
        result.append(sum(hits) / len(hits))
    return result
