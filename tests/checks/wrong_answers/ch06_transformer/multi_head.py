import torch

from ..collection import wrong


def _count(d, h, key, value, bias, out=None, biases=None):
    total = 2 * d * h * key + d * h * value + (h * value * d if out is None else out)
    return total + bias * (h * (2 * key + value) + d if biases is None else biases)


@wrong("06.head_parameters", "W_o is missing")
def no_output(d, h, key, value, bias):
    return _count(d, h, key, value, bias, out=0, biases=h * (2 * key + value))


@wrong("06.head_parameters", "W_o is missing")
def no_output_but_its_bias(d, h, key, value, bias):
    return _count(d, h, key, value, bias, out=0)


@wrong("06.head_parameters", "every head has the full width")
def full_width(d, h, key, value, bias):
    return h * (4 * d * d + bias * 4 * d)


@wrong("06.head_parameters", "the widths of the heads are not used")
def four_squares(d, h, key, value, bias):
    return 4 * d * d + bias * 4 * d


@wrong("06.head_parameters", "the values are as wide as the keys")
def one_width(d, h, key, value, bias):
    return _count(d, h, key, key, bias)


@wrong("06.head_parameters", "W_o is square")
def square_output(d, h, key, value, bias):
    return _count(d, h, key, value, bias, out=d * d)


@wrong("06.head_parameters", "as wide as the values")
def output_of_keys(d, h, key, value, bias):
    return _count(d, h, key, value, bias, out=h * key * d)


@wrong("06.head_parameters", "only one head is counted")
def one_head(d, h, key, value, bias):
    return _count(d, 1, key, value, bias)


@wrong("06.head_parameters", "one matrix for queries and keys")
def shared_sides(d, h, key, value, bias):
    return _count(d, h, key, value, bias) - d * h * key


@wrong("06.head_parameters", "where none were asked for")
def always_biased(d, h, key, value, bias):
    return _count(d, h, key, value, True)


@wrong("06.head_parameters", "the biases are missing")
def never_biased(d, h, key, value, bias):
    return _count(d, h, key, value, False)


@wrong("06.head_parameters", "the bias of W_o is missing")
def output_unbiased(d, h, key, value, bias):
    return _count(d, h, key, value, bias, biases=h * (2 * key + value))


@wrong("06.head_parameters", "added to the output: d_model numbers")
def bias_of_the_joined(d, h, key, value, bias):
    return _count(d, h, key, value, bias, biases=2 * h * (key + value))


@wrong("06.head_parameters", "each bias has d_model numbers")
def biases_as_wide_as_the_inputs(d, h, key, value, bias):
    return _count(d, h, key, value, False) + bias * 4 * d


@wrong("06.head_parameters", "each bias is counted as one number")
def one_number_a_bias(d, h, key, value, bias):
    return _count(d, h, key, value, False) + bias * 4


@wrong("06.head_parameters", "expected one number")
def a_list(d, h, key, value, bias):
    return [d * h * key, d * h * key, d * h * value, h * value * d]


def _columns(W, num_heads, keep):
    return W.unflatten(1, (num_heads, -1))[:, keep].flatten(1)


def _taken(W_q, W_k, W_v, W_o, num_heads, keep):
    return *(_columns(W, num_heads, keep) for W in (W_q, W_k, W_v)), _columns(
        W_o.T, num_heads, keep
    ).T


@wrong("06.take_heads_out", "with zeros in it")
def zeros(W_q, W_k, W_v, W_o, num_heads, keep):
    width = len(W_q) // num_heads
    stays = torch.tensor([i // width in keep for i in range(len(W_q))])
    return W_q * stays, W_k * stays, W_v * stays, W_o * stays[:, None]


@wrong("06.take_heads_out", "rows of W_q were taken out")
def rows(W_q, W_k, W_v, W_o, num_heads, keep):
    return *(_columns(W.T, num_heads, keep).T for W in (W_q, W_k, W_v)), _columns(
        W_o, num_heads, keep
    )


@wrong("06.take_heads_out", "one column a head")
def heads_for_columns(W_q, W_k, W_v, W_o, num_heads, keep):
    return W_q[:, keep], W_k[:, keep], W_v[:, keep], W_o[keep]


@wrong("06.take_heads_out", "a head is a group of its rows")
def columns_of_the_output(W_q, W_k, W_v, W_o, num_heads, keep):
    return *_taken(W_q, W_k, W_v, W_o, num_heads, keep)[:3], _columns(W_o, num_heads, keep)


@wrong("06.take_heads_out", "a head is a group of its rows")
def output_left(W_q, W_k, W_v, W_o, num_heads, keep):
    return *_taken(W_q, W_k, W_v, W_o, num_heads, keep)[:3], W_o


@wrong("06.take_heads_out", "these were to go")
def the_others(W_q, W_k, W_v, W_o, num_heads, keep):
    others = [i for i in range(num_heads) if i not in keep]
    return _taken(W_q, W_k, W_v, W_o, num_heads, others if len(others) == len(keep) else keep)


@wrong("06.take_heads_out", "counted from 0")
def from_one(W_q, W_k, W_v, W_o, num_heads, keep):
    return _taken(W_q, W_k, W_v, W_o, num_heads, [(i - 1) % num_heads for i in keep])


@wrong("06.take_heads_out", "holds the heads [0, 1], expected [0, 2]")
def the_first_ones(W_q, W_k, W_v, W_o, num_heads, keep):
    return _taken(W_q, W_k, W_v, W_o, num_heads, list(range(len(keep))))


@wrong("06.take_heads_out", "every num_heads-th column")
def strided(W_q, W_k, W_v, W_o, num_heads, keep):
    def take(W):
        return torch.cat([W[:, i::num_heads] for i in keep], 1)

    return take(W_q), take(W_k), take(W_v), take(W_o.T).T


@wrong("06.take_heads_out", "one order for all four")
def other_order(W_q, W_k, W_v, W_o, num_heads, keep):
    taken = _taken(W_q, W_k, W_v, W_o, num_heads, keep)
    return *taken[:3], _columns(W_o.T, num_heads, keep[::-1]).T


@wrong("06.take_heads_out", "the heads that stay keep their share")
def made_up_for(W_q, W_k, W_v, W_o, num_heads, keep):
    *sides, out = _taken(W_q, W_k, W_v, W_o, num_heads, keep)
    return *sides, out * num_heads / len(keep)


@wrong("06.take_heads_out", "with it the scale of its scores")
def rescaled(W_q, W_k, W_v, W_o, num_heads, keep):
    q, *others = _taken(W_q, W_k, W_v, W_o, num_heads, keep)
    return q * (len(keep) / num_heads) ** 0.5, *others


@wrong("06.take_heads_out", "is no head of the layer")
def values_cut_elsewhere(W_q, W_k, W_v, W_o, num_heads, keep):
    return tuple(
        W.roll(1, 1) if n == 2 else W
        for n, W in enumerate(_taken(W_q, W_k, W_v.roll(1, 1), W_o, num_heads, keep))
    )
