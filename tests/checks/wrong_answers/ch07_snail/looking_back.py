import math

import torch
from torch.nn import functional as F

from ..collection import wrong


@wrong("07.dilations", "begins with 2")
def as_listed(length):
    return [2**i for i in range(1, math.ceil(math.log2(length)) + 1)] if length > 1 else []


@wrong("07.dilations", "the natural logarithm")
def natural(length):
    return [2**i for i in range(math.ceil(math.log(length)))]


@wrong("07.dilations", "rounded down")
def rounded_down(length):
    return [2**i for i in range(int(math.log2(length)))]


@wrong("07.dilations", "one layer too many")
def bits_of_the_length(length):
    return [2**i for i in range(length.bit_length())]


@wrong("07.dilations", "all dilations are 1")
def plain(length):
    return [1] * math.ceil(math.log2(length))


@wrong("07.dilations", "turned round")
def largest_first(length):
    return [2**i for i in range(math.ceil(math.log2(length)))][::-1]


@wrong("07.dilations", "these are the exponents")
def exponents(length):
    return list(range(math.ceil(math.log2(length))))


@wrong("07.dilations", "grow by 1")
def by_one(length):
    return list(range(1, math.ceil(math.log2(length)) + 1))


@wrong("07.dilations", "one position has nothing to look back to")
def at_least_one(length):
    return [2**i for i in range(max(1, math.ceil(math.log2(length))))]


def _ways(dilations):
    steps = [0]
    for d in dilations:
        steps = steps + [step + d for step in steps]
    return steps


@wrong("07.steps_back", "the own position is missing")
def without_itself(dilations):
    return sorted(set(_ways(dilations)) - {0})


@wrong("07.steps_back", "each layer is looked at alone: what")
def alone(dilations):
    return sorted({0, *dilations})


@wrong("07.steps_back", "looked at alone, and the own position is missing")
def the_dilations(dilations):
    return sorted(set(dilations))


@wrong("07.steps_back", "that is how far it reaches")
def all_up_to_the_farthest(dilations):
    return list(range(sum(dilations) + 1))


@wrong("07.steps_back", "a step that two ways lead to is listed twice")
def with_repetitions(dilations):
    return sorted(_ways(dilations))


@wrong("07.steps_back", "none stays where it is")
def one_way(dilations):
    found = [0]
    for d in dilations:
        found.append(found[-1] + d)
    return found


@wrong("07.steps_back", "expected [0], got []")
def nothing_without_layers(dilations):
    return sorted(set(_ways(dilations))) if dilations else []


@wrong("07.steps_back", "ascending order was asked for")
def from_the_farthest(dilations):
    return sorted(set(_ways(dilations)), reverse=True)


@wrong("07.steps_back", "no minus")
def below_zero(dilations):
    return sorted({-step for step in _ways(dilations)})


def _block(
    x, far, near, b, dilation, *, back=None, finish=None, join=lambda x, a: torch.cat([x, a], -1)
):
    n = x.shape[1]
    before = F.pad(x, (0, 0, dilation, 0))[:, :n] if back is None else back(x, dilation)
    f, g = (before @ far + x @ near + b).chunk(2, -1)
    return join(x, f.tanh() * g.sigmoid() if finish is None else finish(f, g))


@wrong("07.dense_block", "the input is missing")
def found_alone(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, join=lambda x, a: a)


@wrong("07.dense_block", "expected behind it")
def in_front(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, join=lambda x, a: torch.cat([a, x], -1))


@wrong("07.dense_block", "it reads later positions")
def ahead(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, back=lambda x, r: F.pad(x, (0, 0, 0, r))[:, r:])


@wrong("07.dense_block", "comes in at its beginning")
def rolled(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, back=lambda x, r: x.roll(r, 1))


@wrong("07.dense_block", "the first position is repeated")
def held(x, W_far, W_near, b, dilation):
    return _block(
        x,
        W_far,
        W_near,
        b,
        dilation,
        back=lambda x, r: x[:, (torch.arange(x.shape[1]) - r).clamp_min(0)],
    )


@wrong("07.dense_block", "the dilation is not used")
def no_dilation(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, 1)


@wrong("07.dense_block", "change places: the first D columns")
def exchanged(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, finish=lambda f, g: g.tanh() * f.sigmoid())


@wrong("07.dense_block", "W_far and W_near change places")
def wrong_matrices(x, W_far, W_near, b, dilation):
    return _block(x, W_near, W_far, b, dilation)


@wrong("07.dense_block", "there is no gate: tanh(f) alone")
def no_gate(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, finish=lambda f, g: f.tanh())


@wrong("07.dense_block", "there is no tanh")
def linear_unit(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, finish=lambda f, g: f * g.sigmoid())


@wrong("07.dense_block", "the gate is a tanh")
def tanh_twice(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, finish=lambda f, g: f.tanh() * g.tanh())


@wrong("07.dense_block", "are added")
def added(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, finish=lambda f, g: f.tanh() + g.sigmoid())


@wrong("07.dense_block", "belongs to f alone")
def squashed_product(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation, finish=lambda f, g: (f * g.sigmoid()).tanh())


@wrong("07.dense_block", "the first R positions find nothing")
def zeros_as_result(x, W_far, W_near, b, dilation):
    def join(x, a):
        return torch.cat(
            [x, torch.where((torch.arange(x.shape[1]) < dilation)[:, None], 0.0, a)], -1
        )

    return _block(x, W_far, W_near, b, dilation, join=join)


@wrong("07.dense_block", "the first positions are missing")
def shortened(x, W_far, W_near, b, dilation):
    f, g = (x[:, :-dilation] @ W_far + x[:, dilation:] @ W_near + b).chunk(2, -1)
    return torch.cat([x[:, dilation:], f.tanh() * g.sigmoid()], -1)


@wrong("07.dense_block", "no gradient")
def detached(x, W_far, W_near, b, dilation):
    return _block(x, W_far, W_near, b, dilation).detach()
