import math

import torch

from ..collection import wrong


def _numbers(least, most):
    return torch.arange(least, most + 1).float()


@wrong("04.repeat_number", "the mean is not taken away")
def not_centred(repeats, least, most):
    return repeats / _numbers(least, most).std(correction=0)


@wrong("04.repeat_number", "not divided by the deviation")
def only_centred(repeats, least, most):
    return repeats - _numbers(least, most).mean()


@wrong("04.repeat_number", "divided by the variance")
def by_the_variance(repeats, least, most):
    return (repeats - _numbers(least, most).mean()) / _numbers(least, most).var(correction=0)


@wrong("04.repeat_number", "the deviation is that of a sample")
def of_a_sample(repeats, least, most):
    return (repeats - _numbers(least, most).mean()) / _numbers(least, most).std()


@wrong("04.repeat_number", "of a continuous range")
def continuous(repeats, least, most):
    return (repeats - (least + most) / 2) / ((most - least) / math.sqrt(12))


@wrong("04.repeat_number", "are those of the batch")
def of_the_batch(repeats, least, most):
    r = repeats.float()
    return (r - r.mean()) / r.std(correction=0)


@wrong("04.repeat_number", "of a sample")
def of_the_batch_as_a_sample(repeats, least, most):
    r = repeats.float()
    return (r - r.mean()) / r.std()


@wrong("04.repeat_number", "scaled to 0 … 1")
def scaled_to_one(repeats, least, most):
    return (repeats - least) / (most - least)


@wrong("04.repeat_number", "most is included")
def most_left_out(repeats, least, most):
    numbers = torch.arange(least, most).float()
    return (repeats - numbers.mean()) / numbers.std(correction=0)


@wrong("04.repeat_number", "are cut off")
def cut_off(repeats, least, most):
    return (repeats.clamp(least, most) - _numbers(least, most).mean()) / _numbers(least, most).std(
        correction=0
    )


@wrong("04.repeat_number", "the dtype is float64")
def in_double(repeats, least, most):
    numbers = _numbers(least, most).double()
    return (repeats - numbers.mean()) / numbers.std(correction=0)


@wrong("04.repeat_number", "to −1 … 1")
def scaled_to_both_sides(repeats, least, most):
    return 2 * (repeats - least) / (most - least) - 1


@wrong("04.repeat_number", "nothing is done")
def as_it_is(repeats, least, most):
    return repeats.float()


@wrong("04.repeat_number", "without brackets")
def without_brackets(repeats, least, most):
    return repeats - _numbers(least, most).mean() / _numbers(least, most).std(correction=0)


@wrong("04.repeat_number", "the mean is rounded down")
def whole_mean(repeats, least, most):
    return (repeats - (least + most) // 2) / _numbers(least, most).std(correction=0)


@wrong("04.repeat_number", "it starts at `least`")
def from_one(repeats, least, most):
    return (repeats - _numbers(1, most).mean()) / _numbers(1, most).std(correction=0)


@wrong("04.repeat_number", "numbers[")
def for_one_range_alone(repeats, least, most):
    return (repeats - 5.5) / _numbers(1, 10).std(correction=0)


@wrong("04.repeat_number", "changes its argument repeats in place")
def in_place(repeats, least, most):
    repeats *= 2
    return (repeats / 2 - _numbers(least, most).mean()) / _numbers(least, most).std(correction=0)


def _pick(vectors, index):
    return vectors.gather(1, index[..., None].expand(-1, -1, vectors.shape[2]))


@wrong("04.highest_first", "the lowest come first")
def lowest_first(vectors, priorities, wanted):
    return _pick(vectors, priorities.argsort(1)[:, :wanted])


@wrong("04.highest_first", "the first vectors came back as they stand")
def as_they_stand(vectors, priorities, wanted):
    return vectors[:, :wanted]


@wrong("04.highest_first", "all vectors came back")
def all_of_them(vectors, priorities, wanted):
    return _pick(vectors, priorities.argsort(1, descending=True))


@wrong("04.highest_first", "the lowest of them comes first")
def turned(vectors, priorities, wanted):
    return (
        _pick(vectors, priorities.argsort(1)[:, -wanted:])
        if wanted > 1
        else _pick(vectors, priorities.argsort(1)[:, :1])
    )


@wrong("04.highest_first", "in the order in which they were given")
def as_given(vectors, priorities, wanted):
    if wanted == 1:
        return vectors[:, :1]
    return _pick(vectors, priorities.topk(wanted, 1).indices.sort(1).values)


@wrong("04.highest_first", "ranks are taken for places")
def ranks_for_places(vectors, priorities, wanted):
    return _pick(vectors, priorities.argsort(1, descending=True).argsort(1)[:, :wanted])


@wrong("04.highest_first", "every row is put into the order of the first row")
def order_of_the_first_row(vectors, priorities, wanted):
    return vectors[:, priorities[0].argsort(descending=True)[:wanted]]


@wrong("04.highest_first", "the bits of each vector are sorted on their own")
def sorted_bits(vectors, priorities, wanted):
    return vectors.sort(1, descending=True).values[:, :wanted]


@wrong("04.highest_first", "the sign of a priority is not looked at")
def without_the_sign(vectors, priorities, wanted):
    return _pick(vectors, priorities.abs().argsort(1, descending=True)[:, :wanted])


@wrong("04.highest_first", "priorities or indices came back")
def indices_alone(vectors, priorities, wanted):
    return priorities.topk(wanted, 1).indices


def _one_by_one(vectors, priorities, wanted, blank):
    left, found = priorities.clone(), []
    for _ in range(wanted):
        found.append(left.argmax(1))
        left[torch.arange(len(left)), found[-1]] = blank
    return _pick(vectors, torch.stack(found, 1))


@wrong("04.highest_first", "the 0 that blanks out")
def blanked_by_zero(vectors, priorities, wanted):
    return _one_by_one(vectors, priorities, wanted, 0.0)


@wrong("04.highest_first", "the −1 that blanks out")
def blanked_by_minus_one(vectors, priorities, wanted):
    return _one_by_one(vectors, priorities, wanted, -1.0)


@wrong("04.highest_first", "again and again")
def the_highest_alone(vectors, priorities, wanted):
    return _pick(vectors, priorities.argmax(1, keepdim=True).expand(-1, wanted))


@wrong("04.highest_first", "cut off before sorting")
def cut_off_first(vectors, priorities, wanted):
    return _pick(vectors, priorities[:, :wanted].argsort(1, descending=True))


@wrong("04.highest_first", "of the other end")
def the_other_end(vectors, priorities, wanted):
    return _pick(vectors, priorities.argsort(1, descending=True)[:, -wanted:])


@wrong("04.highest_first", "as they stand")
def rounded_priorities(vectors, priorities, wanted):
    return _pick(
        vectors, (priorities * 10).round().argsort(dim=1, descending=True, stable=True)[:, :wanted]
    )


@wrong("04.highest_first", "changes its argument priorities in place")
def crossed_out_in_place(vectors, priorities, wanted):
    found = []
    for _ in range(wanted):
        found.append(priorities.argmax(1))
        priorities[torch.arange(len(priorities)), found[-1]] = -math.inf
    return _pick(vectors, torch.stack(found, 1))


@wrong("04.highest_first", "expected (1, 1, 3)")
def squeezed(vectors, priorities, wanted):
    return _pick(vectors, priorities.topk(wanted, 1).indices).squeeze()


def _after(items, query, by=1):
    same = (items == query[:, None]).flatten(2).all(-1)
    return items[torch.arange(len(items)), (same.int().argmax(1) + by) % items.shape[1]]


@wrong("04.item_after", "the query itself came back")
def the_query(items, query):
    return _after(items, query, 0)


@wrong("04.item_after", "the item before it")
def the_one_before(items, query):
    return _after(items, query, -1)


@wrong("04.item_after", "an item of many ones wins")
def largest_product(items, query):
    place = (items * query[:, None]).sum((2, 3)).argmax(1)
    return items[torch.arange(len(items)), (place + 1) % items.shape[1]]


@wrong("04.item_after", "the first vector alone is compared")
def first_vector(items, query):
    place = (items[:, :, 0] == query[:, None, 0]).all(-1).int().argmax(1)
    return items[torch.arange(len(items)), (place + 1) % items.shape[1]]


@wrong("04.item_after", "one bit that agrees is enough")
def any_bit(items, query):
    place = (items == query[:, None]).flatten(2).any(-1).int().argmax(1)
    return items[torch.arange(len(items)), (place + 1) % items.shape[1]]


@wrong("04.item_after", "always the last item")
def the_last(items, query):
    return items[:, -1]


@wrong("04.item_after", "always the second item")
def the_second(items, query):
    return items[:, 1]


@wrong("04.item_after", "each has a query of its own")
def place_of_the_first_row(items, query):
    place = (items[0] == query[0]).flatten(1).all(-1).int().argmax()
    return items[:, place + 1]


@wrong("04.item_after", "places came back")
def the_place(items, query):
    return (items == query[:, None]).flatten(2).all(-1).int().argmax(1) + 1


def _found(items, place):
    return items[torch.arange(len(items)), (place.int().argmax(1) + 1) % items.shape[1]]


@wrong("04.item_after", "the cosine with the query")
def by_cosine(items, query):
    cosine = torch.nn.functional.cosine_similarity(
        items.flatten(2), query.flatten(1).unsqueeze(1), dim=-1
    )
    return items[torch.arange(len(items)), (cosine.argmax(1) + 1).clamp(max=items.shape[1] - 1)]


@wrong("04.item_after", "one vector that agrees is enough")
def any_vector(items, query):
    return _found(items, (items == query[:, None]).all(-1).any(-1))


@wrong("04.item_after", "the last vector alone")
def last_vector(items, query):
    return _found(items, (items[:, :, -1] == query[:, None, -1]).all(-1))


@wrong("04.item_after", "the number of ones is compared")
def number_of_ones(items, query):
    return _found(items, items.sum((2, 3)) == query.sum((1, 2))[:, None])


@wrong("04.item_after", "the ones of each vector are counted")
def ones_of_each_vector(items, query):
    return _found(items, (items.sum(3) == query.sum(2)[:, None]).all(-1))


@wrong("04.item_after", "the vectors of an item are added up")
def vectors_added_up(items, query):
    return _found(items, (items.sum(2) == query.sum(1)[:, None]).all(-1))


@wrong("04.item_after", "the zeros are compared alone")
def zeros_alone(items, query):
    return _found(items, (items <= query[:, None]).flatten(2).all(-1))


@wrong("04.item_after", "the shape is")
def of_all_rows(items, query):
    return items[:, (items == query[:, None]).flatten(2).all(-1).int().argmax(1) + 1]


@wrong("04.item_after", "answers[")
def one_vector_on(items, query):
    """The vectors after the first of the query, not the item after it."""
    place = (items == query[:, None]).flatten(2).all(-1).int().argmax(1) * items.shape[2] + 1
    return items.flatten(1, 2)[
        torch.arange(len(items))[:, None], place[:, None] + torch.arange(items.shape[2])
    ]


def _table(told, came, bins, place=None):
    where = (told * bins).long().clamp(max=bins - 1) if place is None else place
    inside = torch.nn.functional.one_hot(where, bins).to(told.dtype)
    count = inside.sum(0)
    safe = count.clamp(min=1)
    return told @ inside / safe, came @ inside / safe, count.long()


@wrong("04.reliability", "exactly 1 is lost")
def lost_ones(told, came, bins):
    return _table(told[told < 1], came[told < 1], bins)


@wrong("04.reliability", "an empty bin has nothing to divide by")
def nan_where_empty(told, came, bins):
    inside = torch.nn.functional.one_hot((told * bins).long().clamp(max=bins - 1), bins).float()
    return told @ inside / inside.sum(0), came @ inside / inside.sum(0), inside.sum(0).long()


@wrong("04.reliability", "the middle of the bin")
def middles(told, came, bins):
    _, share, count = _table(told, came, bins)
    return (torch.arange(bins) + 0.5) / bins, share, count


@wrong("04.reliability", "the share of right guesses")
def right_guesses(told, came, bins):
    said, _, count = _table(told, came, bins)
    return said, _table(told, ((told > 0.5) == (came == 1)).float(), bins)[1], count


@wrong("04.reliability", "said and share are swapped")
def swapped_columns(told, came, bins):
    said, share, count = _table(told, came, bins)
    return share, said, count


@wrong("04.reliability", "the place is rounded to the nearest")
def rounded_place(told, came, bins):
    return _table(told, came, bins, (told * bins).round().long().clamp(max=bins - 1))


@wrong("04.reliability", "equally many")
def by_quantiles(told, came, bins):
    place = torch.empty(len(told), dtype=torch.long)
    for k, part in enumerate(told.argsort().tensor_split(bins)):
        place[part] = k
    return _table(told, came, bins, place)


@wrong("04.reliability", "the ones are counted")
def ones_counted(told, came, bins):
    said, share, _ = _table(told, came, bins)
    return said, share, _table(told[came == 1], came[came == 1], bins)[2]


@wrong("04.reliability", "the number of ones: divide by the count")
def ones_not_divided(told, came, bins):
    said, share, count = _table(told, came, bins)
    return said, share * count, count


@wrong("04.reliability", "the dtype is float32")
def counts_as_numbers(told, came, bins):
    said, share, count = _table(told, came, bins)
    return said, share, count.float()


@wrong("04.reliability", "from the smallest to the largest")
def from_the_smallest(told, came, bins):
    place = ((told - told.min()) / (told.max() - told.min()) * bins).long().clamp(max=bins - 1)
    return _table(told, came, bins, place)


@wrong("04.reliability", "belongs to the upper one")
def edge_below(told, came, bins):
    return _table(told, came, bins, torch.bucketize(told, torch.linspace(0, 1, bins + 1)[1:-1]))


def _between(told, came, bins, inside):
    said, share, count = torch.zeros(bins), torch.zeros(bins), torch.zeros(bins, dtype=torch.long)
    for k in range(bins):
        members = inside(k)
        if members.any():
            said[k], share[k], count[k] = told[members].mean(), came[members].mean(), members.sum()
    return said, share, count


@wrong("04.reliability", "the upper one alone")
def both_edges(told, came, bins):
    return _between(told, came, bins, lambda k: (told >= k / bins) & (told <= (k + 1) / bins))


@wrong("04.reliability", "a probability of exactly 0 is lost")
def lost_zeros(told, came, bins):
    return _table(told[told > 0], came[told > 0], bins)


@wrong("04.reliability", "turned over")
def by_confidence(told, came, bins):
    right = ((told > 0.5) == (came == 1)).float()
    return _table(torch.maximum(told, 1 - told), right, bins)


@wrong("04.reliability", "one bin less")
def one_bin_less(told, came, bins):
    return _table(told, came, bins, (told * (bins - 1)).long())


@wrong("04.reliability", "counts added up")
def added_up(told, came, bins):
    said, share, count = _table(told, came, bins)
    return said, share, count.cumsum(0)


@wrong("04.reliability", "the middle of the bin where it is empty")
def middle_where_empty(told, came, bins):
    said, share, count = _table(told, came, bins)
    return torch.where(count > 0, said, (torch.arange(bins) + 0.5) / bins), share, count


@wrong("04.reliability", "½ where the bin is empty")
def half_where_empty(told, came, bins):
    said, share, count = _table(told, came, bins)
    return said, torch.where(count > 0, share, 0.5), count


@wrong("04.reliability", "count: the shape is")
def without_empty_bins(told, came, bins):
    return tuple(part[_table(told, came, bins)[2] > 0] for part in _table(told, came, bins))


@wrong("04.reliability", "share[")
def one_sorted_alone(told, came, bins):
    return _table(told.sort().values, came, bins)


def _mix(told, logs):
    return (logs.softmax(0) * told).sum(0)


def _before(told, bits):
    seen = torch.where(bits == 1, told, 1 - told).log()
    return seen.cumsum(1) - seen, seen


@wrong("04.unknown_order", "has a say in the weights")
def with_a_look_ahead(told, bits):
    before, seen = _before(told, bits)
    return _mix(told, before + seen)


@wrong("04.unknown_order", "the plain mean")
def plain_mean(told, bits):
    return told.mean(0)


@wrong("04.unknown_order", "only the best order so far speaks")
def the_best_so_far(told, bits):
    return told[_before(told, bits)[0].argmax(0), torch.arange(told.shape[1])]


@wrong("04.unknown_order", "underflows to 0")
def products(told, bits):
    seen = torch.where(bits == 1, told, 1 - told)
    weights = torch.cat([torch.ones(len(told), 1), seen.cumprod(1)[:, :-1]], 1)
    return (weights / weights.sum(0) * told).sum(0)


@wrong("04.unknown_order", "those of the end, for all steps")
def weights_of_the_end(told, bits):
    before, seen = _before(told, bits)
    return _mix(told, (before + seen)[:, -1:])


@wrong("04.unknown_order", "only the last bit decides")
def last_bit_only(told, bits):
    _, seen = _before(told, bits)
    return _mix(told, torch.cat([torch.zeros(len(told), 1), seen[:, :-1]], 1))


@wrong("04.unknown_order", "wrong sign")
def worst_weighs_most(told, bits):
    return _mix(told, -_before(told, bits)[0])


@wrong("04.unknown_order", "the bits are not looked at")
def bits_ignored(told, bits):
    return _mix(told, told.log().cumsum(1) - told.log())


@wrong("04.unknown_order", "logarithms to base 2")
def base_two(told, bits):
    return _mix(told, _before(told, bits)[0] / math.log(2))


@wrong("04.unknown_order", "expected of a 1")
def of_a_zero_again(told, bits):
    return 1 - _mix(told, _before(told, bits)[0])


@wrong("04.unknown_order", "probabilities[")
def products_in_double(told, bits):
    """A product of 3000 probabilities is 0 in float64 as well."""
    seen = torch.where(bits == 1, told, 1 - told).double()
    weights = torch.cat([torch.ones(len(told), 1), seen.cumprod(1)[:, :-1]], 1) + 1e-320
    return (weights / weights.sum(0) * told).sum(0).float()


@wrong("04.unknown_order", "the softmax runs along the steps")
def softmax_along_the_steps(told, bits):
    return (_before(told, bits)[0].softmax(1) * told).sum(0)


@wrong("04.unknown_order", "the weights of the first step are those of the end")
def rolled(told, bits):
    return _mix(told, _before(told, bits)[1].cumsum(1).roll(1, 1))


@wrong("04.unknown_order", "the last bit has no say yet")
def one_bit_late(told, bits):
    return _mix(told, torch.nn.functional.pad(_before(told, bits)[0], (1, 0))[:, :-1])


@wrong("04.unknown_order", "the logarithms of the probabilities are averaged")
def geometric_mean(told, bits):
    return (_before(told, bits)[0].softmax(0) * told.log()).sum(0).exp()


@wrong("04.unknown_order", "the mean logarithm")
def mean_logarithm(told, bits):
    return _mix(told, _before(told, bits)[0] / torch.arange(told.shape[1]).clamp(min=1))


@wrong("04.unknown_order", "looked at in its own prediction")
def of_what_came(told, bits):
    return (_before(told, bits)[0].softmax(0) * torch.where(bits == 1, told, 1 - told)).sum(0)


@wrong("04.unknown_order", "squared errors")
def by_squared_errors(told, bits):
    error = -(told - bits).square()
    return _mix(told, error.cumsum(1) - error)


@wrong("04.unknown_order", "0 and 1 are exchanged")
def exchanged(told, bits):
    return _mix(told, _before(1 - told, bits)[0])


@wrong("04.unknown_order", "the weights do not sum to 1")
def not_normalised(told, bits):
    return (_before(told, bits)[0].exp() * told).sum(0)


@wrong("04.unknown_order", "probabilities[")
def squared_root_weights(told, bits):
    return _mix(told, _before(told, bits)[0] / 2)


def _addresses(
    memory,
    previous,
    key,
    strength,
    gate,
    kernel,
    came=lambda previous, h, found: previous[:, h],
    swapped=False,
    back=1,
    content=True,
    cosine=True,
    ring=True,
):
    found = []
    for h in range(key.shape[1]):
        alike = (
            torch.cosine_similarity(key[:, h, None], memory, dim=-1)
            if cosine
            else (key[:, h, None] * memory).sum(-1)
        )
        by_content = torch.softmax((strength[:, h, None] if content else 1.0) * alike, -1)
        g = 1 - gate[:, h, None] if swapped else gate[:, h, None]
        mixed = g * by_content + (1 - g) * came(previous, h, found)
        parts = []
        for k in range(3):
            rolled = mixed.roll(back * (k - 1), -1)
            if not ring and k != 1:
                rolled = rolled.index_fill(
                    -1, torch.tensor([0 if k == 2 else mixed.shape[-1] - 1]), 0.0
                )
            parts.append(kernel[:, h, k, None] * rolled)
        found.append(sum(parts))
    return torch.stack(found, 1)


@wrong("04.several_heads", "a head starts from where the head before it looks at this step")
def heads_as_printed(*given):
    return _addresses(
        *given, came=lambda previous, h, found: found[-1] if found else previous[:, 0]
    )


@wrong("04.several_heads", "every head starts from the previous weights of the first head")
def heads_from_the_first(*given):
    return _addresses(*given, came=lambda previous, h, found: previous[:, 0])


@wrong("04.several_heads", "from one another's previous weights")
def heads_in_reverse(*given):
    return _addresses(*given, came=lambda previous, h, found: previous[:, -1 - h])


@wrong("04.several_heads", "the mean of the heads' previous weights")
def heads_from_the_mean(*given):
    return _addresses(*given, came=lambda previous, h, found: previous.mean(1))


@wrong("04.several_heads", "the gate is swapped")
def heads_gate_swapped(*given):
    return _addresses(*given, swapped=True)


@wrong("04.several_heads", "the shift goes the wrong way")
def heads_wrong_way(*given):
    return _addresses(*given, back=-1)


@wrong("04.several_heads", "the shift is missing")
def heads_no_shift(*given):
    return _addresses(*given, back=0)


@wrong("04.several_heads", "the slots lie on a ring")
def heads_no_ring(*given):
    return _addresses(*given, ring=False)


@wrong("04.several_heads", "the strength is not used")
def heads_no_strength(*given):
    return _addresses(*given, content=False)


@wrong("04.several_heads", "expected the cosine")
def heads_dot_product(*given):
    return _addresses(*given, cosine=False)


@wrong("04.several_heads", "the gate mixes content with the weights of the step before")
def heads_no_past(*given):
    return _addresses(*given, came=lambda previous, h, found: 0.0)


@wrong("04.several_heads", "the gate is not used")
def heads_no_gate(memory, previous, key, strength, gate, kernel):
    return _addresses(memory, previous, key, strength, torch.ones_like(gate), kernel)


@wrong("04.several_heads", "no gradient reaches previous")
def heads_detached(memory, previous, *rest):
    return _addresses(memory, previous.detach(), *rest)
