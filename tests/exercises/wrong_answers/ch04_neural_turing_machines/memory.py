import torch
from torch.nn import functional as F

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
edit("in place", "wiped = memory * kept", "memory *= kept", "wiped +", "memory +")
edit("as the memory that came in", "memory * kept.prod(1)", "memory[:, None] * kept", ".sum(1)", "")
edit("no gradient reaches memory", "memory *", "memory.detach() *")


edit = edits("04.shift")
edit("the kernel of the first row of the batch", "kernel[:, :, j:j + 1]", "kernel[:1, :, j:j + 1]")
edit("no gradient reaches kernel", "kernel[:, :, j:j + 1]", "kernel[:, :, j:j + 1].detach()")


edit = edits("04.sharpen")
edit("log 0 is −inf: the value is right, its slope is NaN", "torch.clamp…", "weights)")


@wrong("04.sharpen", "keep the zeros out of the logarithm")
def bare_logarithm(weights, gamma):
    powers = (weights.log() * gamma[..., None]).exp()
    return powers / powers.sum(-1, keepdim=True) + 0 * weights.log()


@wrong("04.sharpen", "all powers have become 0, and 0/0 is NaN")
def in_double_precision(weights, gamma):
    powers = weights.double() ** gamma.double()[..., None]
    return (powers / powers.sum(-1, keepdim=True)).float()


edit = edits("04.content_weights")
edit("0/0 is NaN", "F.normalize(key, dim=-1)", "(key / key.norm(dim=-1, keepdim=True))")
edit("no gradient reaches key", "normalize(key,", "normalize(key.detach(),")


@wrong("04.content_weights", "a tensor of 8192 is made")
def content_weights_as_printed(memory, key, strength):
    cosine = F.cosine_similarity(key.unsqueeze(2), memory.unsqueeze(1), dim=-1)
    return torch.softmax(strength.unsqueeze(-1) * cosine, dim=-1)


edit = edits("04.allocation")
edit("no gradient reaches free", "free.unsqueeze", "free.detach().unsqueeze")
edit("the allocation: the shape is", "(1 - used) * before)", "(1 - used) * before)[:, 1:]")


@wrong("04.shift", "")
def cut_and_joined(weights, kernel):
    reach, total = kernel.shape[-1] // 2, 0
    for j in range(2 * reach + 1):
        k = j - reach
        moved = torch.cat([weights[..., -k:], weights[..., :-k]], -1) if k else weights
        total = total + kernel[..., j : j + 1] * moved
    return total


@wrong("04.content_weights", "the root of 0 has no slope")
def bound_above_the_root(memory, key, strength):
    key = key / key.square().sum(-1, keepdim=True).sqrt().clamp(min=1e-8)
    memory = memory / memory.square().sum(-1, keepdim=True).sqrt().clamp(min=1e-8)
    return torch.softmax(strength.unsqueeze(-1) * (key @ memory.mT), dim=-1)


@wrong("04.allocation", "a usage of 0 is a slot that was never used")
def divides_the_own_usage_out(usage, write, reads, free):
    kept = (1 - free.unsqueeze(-1) * reads).prod(1)
    used, slot = ((usage + write - usage * write) * kept).sort(dim=-1)
    return torch.zeros_like(used).scatter(-1, slot, (1 - used) * used.cumprod(-1) / used)
