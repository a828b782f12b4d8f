import math

import torch
from torch.nn import functional as F

from ..collection import wrong


@wrong("07.interval", "single episodes spread")
def of_single_ones(shares):
    return shares.mean(), 1.96 * shares.std()


@wrong("07.interval", "that is the standard error")
def standard_error(shares):
    return float(shares.mean()), float(shares.std()) / math.sqrt(len(shares))


@wrong("07.interval", "division by n")
def of_the_numbers_themselves(shares):
    return shares.mean(), 1.96 * shares.std(correction=0) / len(shares) ** 0.5


@wrong("07.interval", "the whole width")
def whole(shares):
    return shares.mean(), 2 * 1.96 * shares.std() / len(shares) ** 0.5


@wrong("07.interval", "divided by n: expected by its root")
def no_root(shares):
    return shares.mean(), 1.96 * shares.std() / len(shares)


@wrong("07.interval", "yes-or-no")
def binomial(shares):
    p = shares.mean()
    return p, 1.96 * (p * (1 - p) / len(shares)).sqrt()


@wrong("07.interval", "the variance is used where its root belongs")
def variance(shares):
    return shares.mean(), 1.96 * shares.var() / len(shares) ** 0.5


@wrong("07.interval", "an end of the interval")
def lower_end(shares):
    return shares.mean(), shares.mean() - 1.96 * shares.std() / len(shares) ** 0.5


@wrong("07.interval", "the two ends of the interval")
def both_ends(shares):
    half = 1.96 * shares.std() / len(shares) ** 0.5
    return shares.mean() - half, shares.mean() + half


@wrong("07.interval", "the interval of 90 %")
def narrower(shares):
    return shares.mean(), 1.645 * shares.std() / len(shares) ** 0.5


@wrong("07.interval", "expected the mean first")
def turned(shares):
    return 1.96 * shares.std() / len(shares) ** 0.5, shares.mean()


@wrong("07.interval", "the mean is in percent")
def percent(shares):
    return 100 * shares.mean(), 196 * shares.std() / len(shares) ** 0.5


def _sequences(support, labels, query, ways, *, own=None, front=False, first=False, repeat=None):
    b, s, d = support.shape
    q = query.shape[1]
    known = F.one_hot(labels, ways).float()
    examples = torch.cat([known, support] if front else [support, known], -1)
    examples = examples[:, None].expand(-1, q, -1, -1) if repeat is None else repeat(examples, q)
    own = torch.zeros(b, q, ways) if own is None else own(known, b, q)
    asked = torch.cat([own, query] if front else [query, own], -1)[:, :, None]
    return torch.cat([asked, examples] if first else [examples, asked], 2)


@wrong("07.sequences", "one_hot(0) is a label")
def label_zero(support, labels, query, ways):
    return _sequences(
        support,
        labels,
        query,
        ways,
        own=lambda known, b, q: F.one_hot(torch.zeros(b, q).long(), ways).float(),
    )


@wrong("07.sequences", "1/N for each class")
def even(support, labels, query, ways):
    return _sequences(
        support, labels, query, ways, own=lambda known, b, q: torch.full((b, q, ways), 1 / ways)
    )


@wrong("07.sequences", "a 1 for each class")
def every_class(support, labels, query, ways):
    return _sequences(support, labels, query, ways, own=lambda known, b, q: torch.ones(b, q, ways))


@wrong("07.sequences", "in front of the vectors")
def labels_in_front(support, labels, query, ways):
    return _sequences(support, labels, query, ways, front=True)


@wrong("07.sequences", "the query comes first")
def query_first(support, labels, query, ways):
    return _sequences(support, labels, query, ways, first=True)


@wrong("07.sequences", "episodes are mixed up")
def repeated_in_another_order(support, labels, query, ways):
    return _sequences(
        support,
        labels,
        query,
        ways,
        repeat=lambda examples, q: examples.repeat(q, 1, 1).view(
            len(examples), q, *examples.shape[1:]
        ),
    )


@wrong("07.sequences", "the queries stand in one sequence")
def one_sequence(support, labels, query, ways):
    known = torch.cat([F.one_hot(labels, ways), torch.zeros(*query.shape[:2], ways)], 1).float()
    return torch.cat([torch.cat([support, query], 1), known], -1)


@wrong("07.sequences", "expected a one-hot vector")
def label_as_a_number(support, labels, query, ways):
    q = query.shape[1]
    examples = torch.cat([support, labels[..., None].float()], -1)[:, None].expand(-1, q, -1, -1)
    return torch.cat([examples, F.pad(query, (0, 1))[:, :, None]], 2)


@wrong("07.sequences", "labels in place")
def wiped(support, labels, query, ways):
    made = _sequences(support, labels, query, ways)
    labels[:, -1] = 0
    return made


@wrong("07.sequences", "batch and queries are one dimension")
def flattened(support, labels, query, ways):
    return _sequences(support, labels, query, ways).flatten(0, 1)


@wrong("07.sequences", "no gradient")
def detached(support, labels, query, ways):
    return _sequences(support.detach(), labels, query.detach(), ways)
