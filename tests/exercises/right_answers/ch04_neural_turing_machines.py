import math
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from .collection import right, solution


@right("04.erase_and_add")
def head_after_head(memory, weights, erase, add):
    heads = range(weights.shape[1])
    for h in heads:
        memory = memory - memory * torch.einsum("bn,bd->bnd", weights[:, h], erase[:, h])
    for h in heads:
        memory = torch.baddbmm(memory, weights[:, h, :, None], add[:, h, None])
    return memory


@right("04.erase_and_add")
def slot_by_slot(memory, weights, erase, add):
    new = memory.clone()
    for b, i in product(range(memory.shape[0]), range(memory.shape[1])):
        w = weights[b, :, i, None]
        new[b, i] = memory[b, i] * (1 - w * erase[b]).prod(0) + (w * add[b]).sum(0)
    return new


@right("04.shift")
def by_matrix(weights, kernel):
    N, R = weights.shape[-1], kernel.shape[-1] // 2
    source = (torch.arange(N)[:, None] - torch.arange(-R, R + 1)) % N
    return torch.einsum("bhij,bhj->bhi", weights[..., source], kernel)


@right("04.shift")
def with_fourier(weights, kernel):
    N, R = weights.shape[-1], kernel.shape[-1] // 2
    place = torch.arange(-R, R + 1).remainder(N)
    on_ring = torch.zeros_like(weights).index_add(2, place, kernel)
    return torch.fft.irfft(torch.fft.rfft(weights) * torch.fft.rfft(on_ring), n=N)


@right("04.sharpen")
def divided_by_the_largest(weights, gamma):
    powers = (weights / weights.amax(-1, keepdim=True)) ** gamma[..., None]
    return powers / powers.sum(-1, keepdim=True)


@right("04.sharpen")
def zeros_left_out(weights, gamma):
    positive = weights > 0
    logs = torch.where(positive, weights, 1.0).log()
    scores = (gamma.unsqueeze(-1) * logs).masked_fill(~positive, -torch.inf)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp()


@right("04.copy_task")
def joined_and_padded(vectors):
    batch, n, bits = vectors.shape
    delimiter = F.one_hot(torch.tensor(bits), bits + 1).expand(batch, 1, -1)
    heard = torch.cat([F.pad(vectors, (0, 1)), delimiter], dim=1)
    mask = torch.tensor([[False] * (n + 1) + [True] * n] * batch)
    return F.pad(heard, (0, 0, 0, n)), F.pad(vectors, (0, 0, n + 1, 0)), mask


@right("04.copy_task")
def buffers_of_numpy(vectors):
    batch, n, bits = vectors.shape
    inputs = np.zeros((batch, 2 * n + 1, bits + 1), dtype=np.float32)
    targets, mask = np.zeros_like(inputs[..., :-1]), np.zeros(inputs.shape[:2], dtype=bool)
    inputs[:, :n, :-1] = targets[:, -n:] = vectors.numpy()
    inputs[:, n, -1] = 1
    mask[:, n + 1 :] = True
    return [torch.from_numpy(x) for x in (inputs, targets, mask)]


@right("04.bits")
def with_cross_entropy_of_torch(logits, targets, mask):
    nats = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    return torch.einsum("btk,bt->b", nats, mask.to(nats.dtype)) / math.log(2)


@right("04.bits")
def powers_of_two(logits, targets, mask):
    z = logits / math.log(2)
    paid = torch.logaddexp2(z, torch.zeros_like(z)) - targets * z
    return torch.where(mask[..., None].bool(), paid, 0.0).flatten(1).sum(1)


@right("04.follow")
def windows_of_numpy(write, read):
    places, looks = write.numpy().argmax(1), read.numpy().argmax(1)
    shares = (np.lib.stride_tricks.sliding_window_view(looks, len(places)) == places).mean(1)
    delay = shares.argmax()
    return [delay, shares[delay]]


@right("04.follow")
def unfolded(write, read):
    hits = (read.argmax(1).unfold(0, len(write), 1) == write.argmax(1)).sum(1)
    delay = max(range(len(hits)), key=lambda d: (hits[d].item(), -d))
    return torch.tensor(delay), hits[delay] / len(write)


@right("04.best_predictor")
def float64_of_numpy(bits, n):
    return torch.from_numpy(np.array(solution("04.best_predictor")(bits, n), dtype=np.float64))


@right("04.program")
def whole_numbers(phase, vector):
    stay, step = torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1])
    if phase == "store":
        return (0, stay), (0, step, torch.ones(len(vector), dtype=torch.long), vector)
    none = torch.zeros(len(vector))
    return (0, step if phase == "recall" else stay), (0, stay, none, none)


@right("04.program")
def write_head_never_rests(phase, vector):
    moves = {"store": (0.0, 1.0, 0.0), "turn": (0.0, 1.0, 0.0), "recall": (0.0, 0.0, 1.0)}
    erase = torch.full_like(vector, phase == "store")
    return (0.0, torch.tensor(moves[phase])), (0.0, torch.tensor([0.0, 0.0, 1.0]), erase, vector)


@right("04.repeat_number")
def closed_formula(repeats, least, most):
    variance = ((most - least + 1) ** 2 - 1) / 12
    return (repeats - (least + most) / 2) / math.sqrt(variance)


@right("04.repeat_number")
def moments_of_numpy(repeats, least, most):
    numbers = np.arange(least, most + 1)
    shown = (repeats.numpy() - numbers.mean()) / numbers.std()
    return torch.from_numpy(shown.astype(np.float32))


@right("04.item_after")
def nearest_and_gathered(items, query):
    after = (items - query[:, None]).abs().sum((2, 3)).argmin(1) + 1
    return items.gather(1, after[:, None, None, None].expand(-1, 1, *query.shape[1:])).squeeze(1)


@right("04.item_after")
def mask_of_the_items_before(items, query):
    return items[:, 1:][(items[:, :-1] == query[:, None]).all(-1).all(-1)]


@right("04.several_heads")
def heads_all_at_once(memory, previous, key, strength, gate, kernel):
    cosine = F.cosine_similarity(key[:, :, None], memory[:, None], dim=-1)
    content = torch.softmax(strength[..., None] * cosine, dim=-1)
    mixed = torch.lerp(previous, content, gate[..., None])
    moved = torch.stack([mixed.roll(move, -1) for move in (-1, 0, 1)], -1)
    return (moved @ kernel[..., None])[..., 0]


@right("04.several_heads")
def padded_ring(memory, previous, key, strength, gate, kernel):
    def address_of_one(w, k, beta, g, shares):
        cosine = F.cosine_similarity(k[:, None], memory, dim=-1)
        w = g[:, None] * (beta[:, None] * cosine).softmax(-1) + (1 - g[:, None]) * w
        ring = torch.cat([w[:, -1:], w, w[:, :1]], dim=1)
        back, stay, on = shares[:, :, None].unbind(1)
        return back * ring[:, 2:] + stay * ring[:, 1:-1] + on * ring[:, :-2]

    heads = zip(*(x.unbind(1) for x in (previous, key, strength, gate, kernel)))
    return torch.stack([address_of_one(*head) for head in heads], dim=1)


@right("04.highest_first")
def topk_and_gather(vectors, priorities, wanted):
    index = priorities.topk(wanted, dim=1).indices
    return vectors.gather(1, index.unsqueeze(-1).expand(-1, -1, vectors.shape[-1]))


@right("04.highest_first")
def ranks_of_numpy(vectors, priorities, wanted):
    order = np.argsort(-priorities.numpy(), axis=1)[..., None]
    return torch.from_numpy(np.take_along_axis(vectors.numpy(), order, axis=1)[:, :wanted])


@right("04.reliability")
def bins_of_numpy(told, came, bins):
    edges = np.arange(1, bins) / bins
    part = np.digitize(told.numpy().astype(np.float64), edges)
    count = np.bincount(part, minlength=bins)
    sums = [np.bincount(part, x.numpy(), minlength=bins) for x in (told, came)]
    said, share = (torch.from_numpy(x / np.maximum(count, 1)).to(told) for x in sums)
    return [said, share, torch.from_numpy(count)]


@right("04.unknown_order")
def bit_after_bit(told, bits):
    weights = np.full(len(told), 1 / len(told))
    mixed = np.zeros(told.shape[1])
    for t, (p, bit) in enumerate(zip(told.numpy().T.astype(np.float64), bits.tolist())):
        mixed[t] = weights @ p
        weights = weights * (p if bit else 1 - p)
        weights = weights / weights.sum()
    return torch.from_numpy(mixed).to(told.dtype)


@right("04.unknown_order")
def ratio_of_sums(told, bits):
    gains = -F.binary_cross_entropy(told, bits.to(told).expand_as(told), reduction="none").double()
    before = F.pad(gains, (1, 0)).cumsum(1)[:, :-1]
    chance = torch.logsumexp(before + told.log(), dim=0) - torch.logsumexp(before, dim=0)
    return chance.exp().to(told.dtype)
