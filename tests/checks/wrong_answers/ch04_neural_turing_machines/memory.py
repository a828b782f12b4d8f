import torch

from ..collection import wrong


def _outer(weights, erase):
    return weights[..., None] * erase[:, :, None]


@wrong("04.erase_and_add", "add comes before erase")
def add_first(memory, weights, erase, add):
    return (memory + weights.mT @ add) * (1 - _outer(weights, erase)).prod(1)


@wrong("04.erase_and_add", "each head erases and adds before the next")
def one_by_one(memory, weights, erase, add):
    for h in range(weights.shape[1]):
        memory = (
            memory * (1 - weights[:, h, :, None] * erase[:, h, None])
            + weights[:, h, :, None] * add[:, h, None]
        )
    return memory


@wrong("04.erase_and_add", "the erasures of the heads are added up")
def erasures_added(memory, weights, erase, add):
    return memory * (1 - weights.mT @ erase) + weights.mT @ add


@wrong("04.erase_and_add", "nothing is erased")
def no_erase(memory, weights, erase, add):
    return memory + weights.mT @ add


@wrong("04.erase_and_add", "keeps where it should wipe")
def keeps(memory, weights, erase, add):
    return memory * _outer(weights, erase).prod(1) + weights.mT @ add


@wrong("04.erase_and_add", "every slot is wiped alike")
def wiped_alike(memory, weights, erase, add):
    return memory * (1 - erase).prod(1)[:, None] + weights.mT @ add


@wrong("04.erase_and_add", "in place")
def in_place(memory, weights, erase, add):
    memory *= (1 - _outer(weights, erase)).prod(1)
    memory += weights.mT @ add
    return memory


@wrong("04.erase_and_add", "as the memory that came in")
def a_memory_a_head(memory, weights, erase, add):
    return memory[:, None] * (1 - _outer(weights, erase)) + _outer(weights, add)


@wrong("04.erase_and_add", "no gradient reaches memory")
def memory_cut_off(memory, weights, erase, add):
    return memory.detach() * (1 - _outer(weights, erase)).prod(1) + weights.mT @ add


def _shift(weights, kernel, sign=1, first=None):
    first = -(kernel.shape[-1] // 2) if first is None else first
    return sum(
        kernel[..., j, None] * weights.roll(sign * (j + first), -1) for j in range(kernel.shape[-1])
    )


@wrong("04.shift", "the shift goes the wrong way")
def wrong_way(weights, kernel):
    return _shift(weights, kernel, sign=-1)


@wrong("04.shift", "the shifts start at 0")
def from_zero(weights, kernel):
    return _shift(weights, kernel, first=0)


@wrong("04.shift", "the slots go round")
def lost_at_the_ends(weights, kernel):
    reach, n = kernel.shape[-1] // 2, weights.shape[-1]
    padded = torch.nn.functional.pad(weights, (reach, reach))
    return sum(
        kernel[..., j, None] * padded[..., 2 * reach - j : 2 * reach - j + n]
        for j in range(kernel.shape[-1])
    )


@wrong("04.shift", "weight is lost at the ends, and")
def a_plain_conv(weights, kernel):
    rows = weights.reshape(1, -1, weights.shape[-1])
    out = torch.nn.functional.conv1d(
        rows,
        kernel.reshape(-1, 1, kernel.shape[-1]),
        padding=kernel.shape[-1] // 2,
        groups=rows.shape[1],
    )
    return out.view_as(weights)


@wrong("04.shift", "the kernel of the first head")
def first_head(weights, kernel):
    return _shift(weights, kernel[:, :1].expand_as(kernel))


@wrong("04.shift", "the kernel of the first row of the batch")
def first_row(weights, kernel):
    return _shift(weights, kernel[:1].expand_as(kernel))


@wrong("04.shift", "only the likeliest shift")
def likeliest(weights, kernel):
    return _shift(weights, torch.nn.functional.one_hot(kernel.argmax(-1), kernel.shape[-1]).float())


@wrong("04.shift", "no gradient reaches kernel")
def kernel_cut_off(weights, kernel):
    return _shift(weights, kernel.detach())


def _spread(x, R, down, up, low=None):
    shifts = torch.arange(-R, R + 1)
    low = x.floor() if low is None else low
    return (shifts == low[:, None]) * down[:, None] + (shifts == low[:, None] + 1) * up[:, None]


@wrong("04.scalar_shift", "the two masses are swapped")
def swapped(x, R):
    return _spread(x, R, x - x.floor(), 1 - x + x.floor())


@wrong("04.scalar_shift", "rounded to one whole shift")
def rounded(x, R):
    return (torch.arange(-R, R + 1) == x.round()[:, None]).float()


@wrong("04.scalar_shift", "all mass lies on the lower shift")
def lower(x, R):
    return _spread(x, R, torch.ones_like(x), torch.zeros_like(x))


@wrong("04.scalar_shift", "cut toward 0")
def toward_zero(x, R):
    part = (x - x.trunc()).abs()
    return _spread(x, R, 1 - part, part, x.trunc())


@wrong("04.scalar_shift", "from R down")
def turned(x, R):
    return _spread(x, R, 1 - x + x.floor(), x - x.floor()).flip(-1)


@wrong("04.scalar_shift", "taken for shift 0")
def from_the_first_column(x, R):
    return _spread(x - R, R, 1 - x + x.floor(), x - x.floor())


@wrong("04.scalar_shift", "one row a number, one column a shift")
def no_negative_columns(x, R):
    return _spread(x, R, 1 - x + x.floor(), x - x.floor())[:, R:]


@wrong("04.scalar_shift", "the kernel of x = R is empty")
def overwritten_at_the_end(x, R):
    low, part = x.floor(), x - x.floor()
    kernel = torch.zeros(len(x), 2 * R + 1).scatter(
        1, (low.long() + R)[:, None], (1 - part)[:, None]
    )
    return kernel.scatter(1, (low.long() + R + 1).clamp(max=2 * R)[:, None], part[:, None])


@wrong("04.scalar_shift", "no gradient goes back")
def number_cut_off(x, R):
    return (1 - (x.detach()[:, None] - torch.arange(-R, R + 1)).abs()).clamp_min(0)


@wrong("04.sharpen", "the powers are not divided by their sum")
def not_normalised(weights, gamma):
    return weights ** gamma[..., None]


@wrong("04.sharpen", "all powers have become 0")
def powers_first(weights, gamma):
    powers = weights ** gamma[..., None]
    return powers / powers.sum(-1, keepdim=True)


@wrong("04.sharpen", "a small number under them leaves 0")
def a_small_number_in_the_division(weights, gamma):
    powers = weights ** gamma[..., None]
    return powers / (powers.sum(-1, keepdim=True) + 1e-16)


@wrong("04.sharpen", "expected γ log w")
def no_logarithm(weights, gamma):
    return (gamma[..., None] * weights).softmax(-1)


@wrong("04.sharpen", "keep the zeros out of the logarithm")
def bare_logarithm(weights, gamma):
    powers = (weights.log() * gamma[..., None]).exp()
    return powers / powers.sum(-1, keepdim=True) + 0 * weights.log()


@wrong("04.sharpen", "that blurs")
def blurred(weights, gamma):
    return (weights.clamp_min(1e-38).log() / gamma[..., None]).softmax(-1)


@wrong("04.sharpen", "over the heads")
def over_heads(weights, gamma):
    powers = weights ** gamma[..., None]
    return powers / powers.sum(1, keepdim=True)


@wrong("04.sharpen", "the division takes it out again")
def multiplied(weights, gamma):
    scaled = weights * gamma[..., None]
    return scaled / scaled.sum(-1, keepdim=True)


@wrong("04.sharpen", "log 0 is −inf: the value is right, its slope is NaN")
def slope_of_log_zero(weights, gamma):
    return (gamma[..., None] * weights.log()).softmax(-1)


@wrong("04.sharpen", "equal weights have to share it")
def patched_by_the_largest(weights, gamma):
    powers = weights ** gamma[..., None]
    result = powers / powers.sum(-1, keepdim=True)
    return torch.where(
        result.isnan(),
        torch.nn.functional.one_hot(weights.argmax(-1), weights.shape[-1]).float(),
        result,
    )


@wrong("04.sharpen", "all powers have become 0, and 0/0 is NaN")
def in_double_precision(weights, gamma):
    powers = weights.double() ** gamma.double()[..., None]
    return (powers / powers.sum(-1, keepdim=True)).float()


@wrong("04.sharpen", "1e-06 is added to the weights")
def a_small_number_in_the_logarithm(weights, gamma):
    return (gamma[..., None] * (weights + 1e-6).log()).softmax(-1)


@wrong("04.sharpen", "the weights are raised to 1e-6 or more")
def raised_too_far(weights, gamma):
    return (gamma[..., None] * weights.clamp_min(1e-6).log()).softmax(-1)


def _address(
    memory,
    previous,
    key,
    strength,
    gate,
    kernel,
    gamma,
    *,
    order="gsp",
    sign=1,
    axis=-1,
    epsilon=1e-8,
    cosine=True,
    divided=True,
):
    scores = key @ memory.mT
    if cosine:
        scores = (
            scores
            / (
                (key.square().sum(-1, keepdim=True) + epsilon)
                * (memory.square().sum(-1) + epsilon)[:, None]
            ).sqrt()
        )
    w = (strength[..., None] * scores).softmax(axis)
    for letter in order:
        if letter == "g":
            w = gate[..., None] * w + (1 - gate[..., None]) * previous
        elif letter == "s":
            w = _shift(w, kernel, sign)
        elif letter == "p":
            w = w ** gamma[..., None]
            w = w / w.sum(-1, keepdim=True) if divided else w
    return w


@wrong("04.address", "sharpening comes before the shift")
def sharpened_first(*given):
    return _address(*given, order="gps")


@wrong("04.address", "the gate is the wrong way round")
def gate_turned(memory, previous, key, strength, gate, kernel, gamma):
    return _address(memory, previous, key, strength, 1 - gate, kernel, gamma)


@wrong("04.address", "the shift goes the wrong way")
def shifted_back(*given):
    return _address(*given, sign=-1)


@wrong("04.address", "the shift comes before the interpolation")
def shifted_first(*given):
    return _address(*given, order="sgp")


@wrong("04.address", "expected the cosine")
def dot_products(*given):
    return _address(*given, cosine=False)


@wrong("04.address", "the strength β is not used")
def no_strength(memory, previous, key, strength, gate, kernel, gamma):
    return _address(memory, previous, key, torch.ones_like(strength), gate, kernel, gamma)


@wrong("04.address", "runs over the heads")
def softmax_over_heads(*given):
    return _address(*given, axis=1)


@wrong("04.address", "there is no sharpening")
def not_sharpened(*given):
    return _address(*given, order="gs")


@wrong("04.address", "there is no shift")
def not_shifted(*given):
    return _address(*given, order="gp")


@wrong("04.address", "the previous weights are not used")
def no_memory_of_the_last_step(*given):
    return _address(*given, order="sp")


@wrong("04.address", "not divided by their sum")
def unnormalised(*given):
    return _address(*given, divided=False)


@wrong("04.address", "add 1e-8 under the root")
def nothing_under_the_root(*given):
    return _address(*given, epsilon=0.0)


def _with_root(root):
    def address(memory, previous, key, strength, gate, kernel, gamma):
        kk, mm = key.square().sum(-1, keepdim=True), memory.square().sum(-1)[:, None]
        content = (strength[..., None] * (key @ memory.mT) / root(kk, mm)).softmax(-1)
        w = _shift(gate[..., None] * content + (1 - gate[..., None]) * previous, kernel)
        return (gamma[..., None] * w.clamp_min(1e-38).log()).softmax(-1)

    return address


@wrong("04.address", "not to the lengths")
def small_number_beside_the_lengths(*given):
    return _with_root(lambda kk, mm: kk.sqrt() * mm.sqrt() + 1e-8)(*given)


@wrong("04.address", "a lower bound of the lengths does not do it")
def lengths_kept_above(*given):
    return _with_root(lambda kk, mm: (kk.sqrt() * mm.sqrt()).clamp_min(1e-8))(*given)


@wrong("04.address", "1e-8 is added to the product of the squares")
def small_number_at_the_product(*given):
    return _with_root(lambda kk, mm: (kk * mm + 1e-8).sqrt())(*given)


@wrong("04.address", "the gradient at an empty memory is not finite")
def patched_at_empty_slots(*given):
    return _with_root(
        lambda kk, mm: torch.where(mm > 0, ((kk + 1e-8) * (mm + 1e-8)).sqrt(), 1 + 0 * mm.sqrt())
    )(*given)


@wrong("04.address", "the cosine cancels a factor in the key")
def strength_in_the_key(memory, previous, key, strength, gate, kernel, gamma):
    return _address(
        memory, previous, key * strength[..., None], torch.ones_like(strength), gate, kernel, gamma
    )


@wrong("04.address", "no gradient reaches previous")
def previous_cut_off(memory, previous, *given):
    return _address(memory, previous.detach(), *given)
