import math

import torch

from ..collection import wrong


def _window(
    position, half_width, lengths, n, centre=lambda p: torch.floor(p + 0.5), left=0, right=0, last=0
):
    away = torch.arange(n) - centre(position)[:, None]
    return (
        (away >= -half_width - left)
        & (away <= half_width + right)
        & (torch.arange(n) < (lengths + last)[:, None])
    )


@wrong("03.window", "padding is in the window")
def no_lengths(position, half_width, lengths, n):
    return (torch.arange(n) - torch.floor(position + 0.5)[:, None]).abs() <= half_width


@wrong("03.window", "counts as padding")
def last_word_lost(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, last=-1)


@wrong("03.window", "one padding place counts as a word")
def one_too_many(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, last=1)


@wrong("03.window", "its right end")
def as_a_range(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, right=-1)


@wrong("03.window", "its left end")
def without_left_end(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, left=-1)


@wrong("03.window", "too narrow at both ends")
def open_window(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, left=-1, right=-1)


@wrong("03.window", "one place too wide")
def too_wide(position, half_width, lengths, n):
    return _window(position, half_width + 1, lengths, n)


@wrong("03.window", "the centre is cut off")
def cut_off(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, centre=torch.floor)


@wrong("03.window", "rounded up")
def rounded_up(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, centre=torch.ceil)


@wrong("03.window", "a half is rounded down")
def half_down(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, centre=lambda p: torch.ceil(p - 0.5))


@wrong("03.window", "torch.round does that")
def half_to_even(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, centre=torch.round)


@wrong("03.window", "the position is not rounded")
def real_centre(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n, centre=lambda p: p)


@wrong("03.window", "upside down")
def inverted(position, half_width, lengths, n):
    return ~_window(position, half_width, lengths, n)


@wrong("03.window", "expected bool")
def numbers(position, half_width, lengths, n):
    return _window(position, half_width, lengths, n).float()


def _weights(scores, position, half_width, lengths):
    inside = _window(position, half_width, lengths, scores.shape[-1])
    return torch.softmax(scores.masked_fill(~inside, float("-inf")), -1), inside


def _gaussian(scores, position, sigma):
    return torch.exp(-((torch.arange(scores.shape[-1]) - position[:, None]) ** 2) / (2 * sigma**2))


@wrong("03.gaussian_weights", "the Gaussian is missing")
def no_gaussian(scores, position, half_width, lengths):
    return _weights(scores, position, half_width, lengths)[0]


@wrong("03.gaussian_weights", "sigma is D")
def sigma_d(scores, position, half_width, lengths):
    return _weights(scores, position, half_width, lengths)[0] * _gaussian(
        scores, position, half_width
    )


@wrong("03.gaussian_weights", "lacks its 1/2")
def no_half(scores, position, half_width, lengths):
    return (
        _weights(scores, position, half_width, lengths)[0]
        * _gaussian(scores, position, half_width / 2) ** 2
    )


@wrong("03.gaussian_weights", "sigma is not squared")
def sigma_not_squared(scores, position, half_width, lengths):
    return _weights(scores, position, half_width, lengths)[0] * _gaussian(
        scores, position, (half_width / 2) ** 0.5
    )


@wrong("03.gaussian_weights", "around the rounded centre")
def around_the_centre(scores, position, half_width, lengths):
    gaussian = _gaussian(scores, torch.floor(position + 0.5), half_width / 2)
    return _weights(scores, position, half_width, lengths)[0] * gaussian


@wrong("03.gaussian_weights", "normalised again")
def normalised(scores, position, half_width, lengths):
    weights = _weights(scores, position, half_width, lengths)[0] * _gaussian(
        scores, position, half_width / 2
    )
    return weights / weights.sum(-1, keepdim=True)


@wrong("03.gaussian_weights", "added to the scores")
def added(scores, position, half_width, lengths):
    return _weights(
        scores + _gaussian(scores, position, half_width / 2), position, half_width, lengths
    )[0]


@wrong("03.gaussian_weights", "it belongs after the softmax")
def scores_multiplied(scores, position, half_width, lengths):
    return _weights(
        scores * _gaussian(scores, position, half_width / 2), position, half_width, lengths
    )[0]


@wrong("03.gaussian_weights", "cut out after the softmax")
def window_after(scores, position, half_width, lengths):
    words = torch.arange(scores.shape[-1]) < lengths[:, None]
    weights = torch.softmax(scores.masked_fill(~words, float("-inf")), -1)
    inside = _window(position, half_width, lengths, scores.shape[-1])
    return weights * inside * _gaussian(scores, position, half_width / 2)


@wrong("03.gaussian_weights", "there is no window")
def no_window(scores, position, half_width, lengths):
    words = torch.arange(scores.shape[-1]) < lengths[:, None]
    return torch.softmax(scores.masked_fill(~words, float("-inf")), -1) * _gaussian(
        scores, position, half_width / 2
    )


@wrong("03.gaussian_weights", "padding in the window gets weight")
def padding(scores, position, half_width, lengths):
    everything = torch.full_like(lengths, scores.shape[-1])
    return _weights(scores, position, half_width, everything)[0] * _gaussian(
        scores, position, half_width / 2
    )


@wrong("03.gaussian_weights", "the softmax of the scores is missing")
def bare_gaussian(scores, position, half_width, lengths):
    return (
        _gaussian(scores, position, half_width / 2)
        * _weights(scores, position, half_width, lengths)[1]
    )


@wrong("03.gaussian_weights", "expected exactly 0")
def mild_fill(scores, position, half_width, lengths):
    inside = _window(position, half_width, lengths, scores.shape[-1])
    return torch.softmax(scores.masked_fill(~inside, -9.0), -1) * _gaussian(
        scores, position, half_width / 2
    )


@wrong("03.gaussian_weights", "normalised over the window")
def gaussian_normalised(scores, position, half_width, lengths):
    shares, inside = _weights(scores, position, half_width, lengths)
    gaussian = _gaussian(scores, position, half_width / 2) * inside
    return shares * gaussian / gaussian.sum(-1, keepdim=True)


@wrong("03.gaussian_weights", "it is no density")
def gaussian_as_a_density(scores, position, half_width, lengths):
    sigma = half_width / 2
    return (
        _weights(scores, position, half_width, lengths)[0]
        * _gaussian(scores, position, sigma)
        / (sigma * math.sqrt(2 * math.pi))
    )


@wrong("03.gaussian_weights", "no gradient goes back")
def weights_detached(scores, position, half_width, lengths):
    return (
        _weights(scores, position, half_width, lengths)[0]
        * _gaussian(scores, position, half_width / 2)
    ).detach()


@wrong("03.gaussian_weights", "no gradient reaches the position")
def position_detached(scores, position, half_width, lengths):
    return _weights(scores, position, half_width, lengths)[0] * _gaussian(
        scores, position.detach(), half_width / 2
    )


@wrong("03.gaussian_weights", "no gradient reaches the position")
def loop_over_floats(scores, position, half_width, lengths):
    gaussian = [
        [
            math.exp(-((j - float(p)) ** 2) / (2 * (half_width / 2) ** 2))
            for j in range(scores.shape[-1])
        ]
        for p in position
    ]
    return _weights(scores, position, half_width, lengths)[0] * torch.tensor(gaussian)


@wrong("03.gaussian_weights", "the gradient at the scores is not")
def shares_half_detached(scores, position, half_width, lengths):
    inside = _window(position, half_width, lengths, scores.shape[-1])
    powers = torch.exp(scores) * inside
    return (
        powers / powers.sum(-1, keepdim=True).detach() * _gaussian(scores, position, half_width / 2)
    )


def _decode(
    cell,
    embedded,
    start,
    annotations,
    W,
    W_c,
    query="new",
    fed="vector",
    first=None,
    tanh=True,
    order="cs",
    inputs="ef",
    transposed=False,
    scale=1.0,
    stuck=False,
    cut=(),
):
    s, feed, found = start, torch.zeros_like(start) if first is None else first, []
    for x in embedded:
        s = start if stuck else s.detach() if "state" in cut else s
        feed = feed.detach() if "fed" in cut else feed
        before = s
        s = cell(torch.cat((x, feed) if inputs == "ef" else (feed, x), -1), s)
        q = s if query == "new" else before
        scores = scale * ((q @ (W.T if transposed else W))[:, None] * annotations).sum(-1)
        c = (torch.softmax(scores, -1)[..., None] * annotations).sum(1)
        v = torch.cat((c, s) if order == "cs" else (s, c), -1) @ W_c.T
        v = torch.tanh(v) if tanh else v
        feed = {"vector": v, "context": c, "state": s, "nothing": torch.zeros_like(s)}[fed]
        found.append(v)
    return torch.stack(found)


@wrong("03.input_feeding", "asks with the new state")
def old_state(*arguments):
    return _decode(*arguments, query="old")


@wrong("03.input_feeding", "the tanh of the attention vector is missing")
def no_tanh(*arguments):
    return _decode(*arguments, tanh=False)


@wrong("03.input_feeding", "W_c meets the context first")
def state_first(*arguments):
    return _decode(*arguments, order="sc")


@wrong("03.input_feeding", "expected [embedding; h̃]")
def fed_first(*arguments):
    return _decode(*arguments, inputs="fe")


@wrong("03.input_feeding", "the context is fed")
def context_fed(*arguments):
    return _decode(*arguments, fed="context")


@wrong("03.input_feeding", "the state is fed")
def state_fed(*arguments):
    return _decode(*arguments, fed="state")


@wrong("03.input_feeding", "zeros are fed at every step")
def nothing_fed(*arguments):
    return _decode(*arguments, fed="nothing")


@wrong("03.input_feeding", "the start state is fed at the first step")
def start_fed(cell, embedded, start, *arguments):
    return _decode(cell, embedded, start, *arguments, first=start)


@wrong("03.input_feeding", "sᵀ W h")
def transposed(*arguments):
    return _decode(*arguments, transposed=True)


@wrong("03.input_feeding", "W is not used in the score")
def dot_score(cell, embedded, start, annotations, W, W_c):
    return _decode(cell, embedded, start, annotations, torch.eye(len(W)), W_c)


@wrong("03.input_feeding", "the general score is not scaled")
def scaled_score(cell, embedded, start, *arguments):
    return _decode(cell, embedded, start, *arguments, scale=start.shape[-1] ** -0.5)


@wrong("03.input_feeding", "the weights are equal")
def equal_weights(*arguments):
    return _decode(*arguments, scale=0.0)


@wrong("03.input_feeding", "every step starts from s_0")
def state_not_passed_on(*arguments):
    return _decode(*arguments, stuck=True)


@wrong("03.input_feeding", "reverse order")
def last_step_first(*arguments):
    return _decode(*arguments).flip(0)


@wrong("03.input_feeding", "no gradient goes back")
def vectors_detached(*arguments):
    return _decode(*arguments).detach()


@wrong("03.input_feeding", "the gradient at embedded is not")
def fed_vector_detached(*arguments):
    return _decode(*arguments, cut=("fed",))


@wrong("03.input_feeding", "no gradient reaches start")
def state_detached(*arguments):
    return _decode(*arguments, cut=("state", "fed"))


@wrong("03.input_feeding", "the cell got inputs of width 3")
def not_fed(cell, embedded, start, annotations, W, W_c):
    s = start
    for x in embedded:
        s = cell(x, s)
    return s


@wrong("03.input_feeding", "the shape is")
def last_only(*arguments):
    return _decode(*arguments)[-1]


@wrong("03.window", "the centre is moved into the source")
def centre_moved_into_the_source(position, D, lengths, n):
    centre = torch.minimum(torch.floor(position + 0.5).long(), lengths - 1)
    places = torch.arange(n)
    return ((places - centre[:, None]).abs() <= D) & (places < lengths[:, None])


@wrong("03.window", "expected 0")
def negative_places_wrap_to_the_end(position, D, lengths, n):
    window = torch.zeros(len(position), n, dtype=torch.bool)
    for b, centre in enumerate(torch.floor(position + 0.5).long().tolist()):
        for j in range(centre - D, centre + D + 1):
            if j < int(lengths[b]):
                window[b, j] = True
    return window
