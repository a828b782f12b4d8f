import torch

from ..collection import edits, wrong

edit = edits("04.step_back")
edit("the move goes the wrong way", "0.54", "0.009")
edit(" is not ", "0.54", "0.7")
edit("one number", "0.54", '"0.54"')

edit = edits("04.longer_list")
edit("expected one of", '"nearly all"', '"all of them"')
edit("expected one of", '"nearly all"', '"three"')
edit("one of 'a guess'", '"nearly all"', "1.0")

edit = edits("04.erase_and_add")
edit(
    "add comes before erase",
    "memory * torch.prod(1 - outer, dim=1) + weights.transpose(1, 2) @ add",
    "(memory + weights.transpose(1, 2) @ add) * torch.prod(1 - outer, dim=1)",
)
edit(
    "the erasures of the heads are added up",
    "torch.prod(1 - outer, dim=1)",
    "(1 - outer.sum(dim=1))",
)
edit("nothing is erased", "memory * torch.prod(1 - outer, dim=1)", "memory")
edit("keeps where it should wipe", "1 - outer", "outer")
edit("every slot is wiped alike", ".prod(1 - outer, dim=1)", ".prod(1 - erase, dim=1).unsqueeze(1)")
edit(
    "in place",
    "return memory * torch.prod(1 - outer, dim=1)",
    "memory *= torch.prod(1 - outer, dim=1)\n    return memory",
)
edit(
    "as the memory that came in",
    "memory * torch.prod(1 - outer, dim=1) + weights.transpose(1, 2) @ add",
    "memory.unsqueeze(1) * (1 - outer) + weights.unsqueeze(-1) * add.unsqueeze(2)",
)
edit("no gradient reaches memory", "memory *", "memory.detach() *")


@wrong("04.erase_and_add", "each head erases and adds before the next")
def one_by_one(memory, weights, erase, add):
    for h in range(weights.shape[1]):
        memory = (
            memory * (1 - weights[:, h, :, None] * erase[:, h, None])
            + weights[:, h, :, None] * add[:, h, None]
        )
    return memory


edit = edits("04.shift")
edit("the shift goes the wrong way", "j - reach", "reach - j")
edit("the shifts start at 0", "j - reach", "j")
edit("the kernel of the first head", "kernel[:, :, j:j + 1]", "kernel[:, :1, j:j + 1]")
edit("the kernel of the first row of the batch", "kernel[:, :, j:j + 1]", "kernel[:1, :, j:j + 1]")
edit(
    "only the likeliest shift",
    "moved = torch",
    "kernel = (kernel == kernel.amax(-1, keepdim=True)).float()\n    moved = torch",
)
edit("no gradient reaches kernel", "kernel[:, :, j:j + 1]", "kernel[:, :, j:j + 1].detach()")


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


def _spread(u, R, down, up, low=None):
    shifts = torch.arange(-R, R + 1)
    low = u.floor() if low is None else low
    return (shifts == low[:, None]) * down[:, None] + (shifts == low[:, None] + 1) * up[:, None]


edit = edits("04.scalar_shift")
edit(
    "the two masses are swapped",
    "torch.relu(1 - (u.unsqueeze(-1) - shifts).abs())",
    "torch.relu(1 - (2 * u.floor() + 1 - u - shifts.unsqueeze(-1)).abs()).T",
)
edit("rounded to one whole shift", "u.unsqueeze(-1)", "u.round().unsqueeze(-1)")
edit("all mass lies on the lower shift", "u.unsqueeze(-1)", "u.floor().unsqueeze(-1)")
edit("from R down", ".abs())", ".abs()).flip(-1)")
edit("taken for shift 0", "u.unsqueeze(-1)", "u.unsqueeze(-1) - R")
edit("one row a number, one column a shift", ".abs())", ".abs())[:, R:]")
edit("no gradient goes back", "u.unsqueeze", "u.detach().unsqueeze")


@wrong("04.scalar_shift", "cut toward 0")
def toward_zero(u, R):
    part = (u - u.trunc()).abs()
    return _spread(u, R, 1 - part, part, u.trunc())


@wrong("04.scalar_shift", "the kernel of u = R is empty")
def overwritten_at_the_end(u, R):
    low, part = u.floor(), u - u.floor()
    kernel = torch.zeros(len(u), 2 * R + 1).scatter(
        1, (low.long() + R)[:, None], (1 - part)[:, None]
    )
    return kernel.scatter(1, (low.long() + R + 1).clamp(max=2 * R)[:, None], part[:, None])


edit = edits("04.sharpen")
edit("the powers are not divided by their sum", "torch.softmax…", "weights ** gamma.unsqueeze(-1)")
edit("expected γ log w", "* logs", "* weights")
edit("that blurs", "gamma.unsqueeze(-1) * logs", "logs / gamma.unsqueeze(-1)")
edit("log 0 is −inf: the value is right, its slope is NaN", "torch.clamp…", "weights)")
edit("1e-06 is added to the weights", "torch.clamp…", "weights + 1e-6)")
edit("the weights are raised to 1e-6 or more", "torch.finfo(weights.dtype).tiny", "1e-6")


@wrong("04.sharpen", "all powers have become 0")
def powers_first(weights, gamma):
    powers = weights ** gamma[..., None]
    return powers / powers.sum(-1, keepdim=True)


@wrong("04.sharpen", "a small number under them leaves 0")
def a_small_number_in_the_division(weights, gamma):
    powers = weights ** gamma[..., None]
    return powers / (powers.sum(-1, keepdim=True) + 1e-16)


@wrong("04.sharpen", "keep the zeros out of the logarithm")
def bare_logarithm(weights, gamma):
    powers = (weights.log() * gamma[..., None]).exp()
    return powers / powers.sum(-1, keepdim=True) + 0 * weights.log()


@wrong("04.sharpen", "over the heads")
def over_heads(weights, gamma):
    powers = weights ** gamma[..., None]
    return powers / powers.sum(1, keepdim=True)


@wrong("04.sharpen", "the division takes it out again")
def multiplied(weights, gamma):
    scaled = weights * gamma[..., None]
    return scaled / scaled.sum(-1, keepdim=True)


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


edit = edits("04.address")
edit("becomes 1e-05", "min=1e-38", "min=1e-5")
edit("becomes 1e-07", "min=1e-38", "min=1e-7")
edit("no gradient reaches previous", "* previous", "* previous.detach()")
edit("log 0 has no slope", "moved.clamp(min=1e-38)", "moved")
edit(
    "sharpening comes before the shift",
    "* previous",
    "* previous\n    gated = (gamma.unsqueeze(-1) * gated.log()).softmax(-1)",
    "return…",
    "return moved",
)
edit(
    "the gradient at an empty memory is not finite",
    "torch.sqrt(squares)",
    "torch.where(of_slots > 1e-8, squares.sqrt(), 1 + 0 * (of_slots - 1e-8).sqrt())",
)


@wrong("04.shift", "")
def cut_and_joined(weights, kernel):
    reach, total = kernel.shape[-1] // 2, 0
    for j in range(2 * reach + 1):
        k = j - reach
        moved = torch.cat([weights[..., -k:], weights[..., :-k]], -1) if k else weights
        total = total + kernel[..., j : j + 1] * moved
    return total
