import torch

from ..collection import wrong


def _mean(states, floats, others=lambda tensors: tensors[-1].clone()):
    found = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        found[name] = floats(tensors) if tensors[0].is_floating_point() else others(tensors)
    return found


def _wide(tensors):
    return torch.stack([t.double() for t in tensors])


@wrong("06.average_weights", "that is the sum of the checkpoints")
def the_sum(states):
    return _mean(states, lambda ts: _wide(ts).sum(0).to(ts[0].dtype))


@wrong("06.average_weights", "that is the last checkpoint alone")
def the_last(states):
    return _mean(states, lambda ts: ts[-1].clone())


@wrong("06.average_weights", "that is the first checkpoint alone")
def the_first(states):
    return _mean(states, lambda ts: ts[0].clone())


@wrong("06.average_weights", "each new checkpoint counts half")
def running(states):
    def halved(tensors):
        result = tensors[0].double()
        for tensor in tensors[1:]:
            result = (result + tensor.double()) / 2
        return result.to(tensors[0].dtype)

    return _mean(states, halved)


@wrong("06.average_weights", "changes its argument states in place")
def into_the_first(states):
    result = states[0]
    for state in states[1:]:
        for name in result:
            result[name] += state[name]
    return {
        name: (t.double() / len(states)).to(t.dtype) if t.is_floating_point() else states[-1][name]
        for name, t in result.items()
    }


@wrong("06.average_weights", "in half precision, which ends at 65,504")
def in_half(states):
    def add(tensors):
        total = tensors[0].clone()
        for tensor in tensors[1:]:
            total = total + tensor
        return total / len(tensors)

    return _mean(states, add)


@wrong("06.average_weights", "expected that of the last checkpoint, not a mean")
def counters_too(states):
    return _mean(states, lambda ts: _wide(ts).mean(0).to(ts[0].dtype), lambda ts: _wide(ts).mean(0))


@wrong("06.average_weights", "expected that of the last checkpoint, got that of the first")
def first_counter(states):
    return _mean(states, lambda ts: _wide(ts).mean(0).to(ts[0].dtype), lambda ts: ts[0].clone())


@wrong("06.average_weights", "the dtype is float64, expected float32")
def stays_wide(states):
    return _mean(states, lambda ts: _wide(ts).mean(0))


@wrong("06.average_weights", "the dict lacks 'steps'")
def floats_only(states):
    return {
        name: t
        for name, t in _mean(states, lambda ts: _wide(ts).mean(0).to(ts[0].dtype)).items()
        if t.is_floating_point()
    }


@wrong("06.average_weights", "one less than the number of checkpoints")
def bessel(states):
    return _mean(states, lambda ts: (_wide(ts).sum(0) / max(1, len(ts) - 1)).to(ts[0].dtype))


@wrong("06.average_weights", "a list came back")
def a_list(states):
    return [states[-1]]


def _order(lengths):
    return sorted(range(len(lengths)), key=lambda i: lengths[i])


def _cut(order, lengths, budget, cost):
    batches, batch = [], []
    for i in order:
        if batch and cost(batch, i) > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return batches + [batch] if batch else batches


@wrong("06.token_batches", "in the order in which they are given: expected short ones first")
def unsorted(lengths, budget):
    return _cut(
        range(len(lengths)),
        lengths,
        budget,
        lambda batch, i: (len(batch) + 1) * max(lengths[j] for j in [*batch, i]),
    )


@wrong("06.token_batches", "the longest sentences come first")
def longest_first(lengths, budget):
    return _cut(
        sorted(range(len(lengths)), key=lambda i: -lengths[i]),
        lengths,
        budget,
        lambda batch, i: (len(batch) + 1) * lengths[batch[0]],
    )


@wrong("06.token_batches", "without its padding")
def no_padding(lengths, budget):
    return _cut(
        _order(lengths),
        lengths,
        budget,
        lambda batch, i: sum(lengths[j] for j in batch) + lengths[i],
    )


@wrong("06.token_batches", "the last batch is missing")
def without_the_last(lengths, budget):
    batches, batch = [], []
    for i in _order(lengths):
        if batch and (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return batches


@wrong("06.token_batches", "exactly the budget is allowed")
def strictly_below(lengths, budget):
    return _cut(
        _order(lengths), lengths, budget - 1, lambda batch, i: (len(batch) + 1) * lengths[i]
    )


@wrong("06.token_batches", "after it has become too large")
def too_late(lengths, budget):
    batches, batch = [], []
    for i in _order(lengths):
        batch.append(i)
        if len(batch) * lengths[i] > budget:
            batches.append(batch)
            batch = []
    return batches + [batch] if batch else batches


@wrong("06.token_batches", "the sentence that does not fit is lost")
def lost(lengths, budget):
    batches, batch = [], []
    for i in _order(lengths):
        if not batch or (len(batch) + 1) * lengths[i] <= budget:
            batch.append(i)
        else:
            batches.append(batch)
            batch = []
    return batches + [batch] if batch else batches


@wrong("06.token_batches", "the length of its first sentence")
def shortest_counts(lengths, budget):
    return _cut(
        _order(lengths), lengths, budget, lambda batch, i: (len(batch) + 1) * lengths[batch[0]]
    )


@wrong("06.token_batches", "a sentence longer than the budget is left out")
def long_ones_dropped(lengths, budget):
    return _cut(
        [i for i in _order(lengths) if lengths[i] <= budget],
        lengths,
        budget,
        lambda batch, i: (len(batch) + 1) * lengths[i],
    )


@wrong("06.token_batches", "an empty batch stands before")
def empty_before_long_ones(lengths, budget):
    batches, batch = [], []
    for i in _order(lengths):
        if (len(batch) + 1) * lengths[i] > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return batches + [batch]


@wrong("06.token_batches", "one list of positions came back")
def flat(lengths, budget):
    return _order(lengths)


@wrong("06.token_batches", "the batches hold the lengths")
def of_lengths(lengths, budget):
    return [
        [lengths[i] for i in batch]
        for batch in _cut(
            _order(lengths), lengths, budget, lambda batch, i: (len(batch) + 1) * lengths[i]
        )
    ]


@wrong("06.token_batches", "equal lengths come in the wrong order")
def ties_turned(lengths, budget):
    return _cut(
        sorted(range(len(lengths)), key=lambda i: (lengths[i], -i)),
        lengths,
        budget,
        lambda batch, i: (len(batch) + 1) * lengths[i],
    )
