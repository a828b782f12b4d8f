import math

import torch
from torch.nn import functional as F

from ..collection import wrong


def _task(vectors, at=None, channel=-1, begin=None, again=False, least=None):
    batch, n, bits = vectors.shape
    inputs, targets = torch.zeros(batch, 2 * n + 1, bits + 1), torch.zeros(batch, 2 * n + 1, bits)
    inputs[:, :n, :bits] = vectors
    if again:
        inputs[:, n + 1 :, :bits] = vectors
    if at is not False:
        inputs[:, n if at is None else at, channel] = 1
    begin = n + 1 if begin is None else begin
    targets[:, begin : begin + n] = vectors
    return (
        inputs,
        targets,
        (torch.arange(2 * n + 1) > (n if least is None else least)).expand(batch, -1),
    )


@wrong("04.copy_task", "the vectors are shown again")
def targets_visible(vectors):
    return _task(vectors, again=True)


@wrong("04.copy_task", "there is no delimiter")
def no_delimiter(vectors):
    return _task(vectors, at=False)


@wrong("04.copy_task", "together with the last vector")
def delimiter_with_the_last(vectors):
    return _task(vectors, at=vectors.shape[1] - 1)


@wrong("04.copy_task", "the delimiter is the first channel")
def delimiter_in_front(vectors):
    inputs, targets, mask = _task(vectors)
    return inputs.roll(1, -1), targets, mask


@wrong("04.copy_task", "the delimiter stays on")
def delimiter_stays(vectors):
    return _task(vectors, at=slice(vectors.shape[1], None))


@wrong("04.copy_task", "the targets stand beside the inputs")
def targets_at_once(vectors):
    return _task(vectors, begin=0)


@wrong("04.copy_task", "the targets begin at the delimiter")
def targets_early(vectors):
    return _task(vectors, begin=vectors.shape[1])


@wrong("04.copy_task", "the targets run backwards")
def backwards(vectors):
    inputs, _, mask = _task(vectors)
    return inputs, _task(vectors.flip(1))[1], mask


@wrong("04.copy_task", "all steps count")
def mask_of_all(vectors):
    return _task(vectors, least=-1)


@wrong("04.copy_task", "the step of the delimiter counts")
def mask_with_the_delimiter(vectors):
    return _task(vectors, least=vectors.shape[1] - 1)


@wrong("04.copy_task", "the mask is the wrong way round")
def mask_turned(vectors):
    inputs, targets, mask = _task(vectors)
    return inputs, targets, ~mask


@wrong("04.copy_task", "mask: the dtype is float32, expected bool")
def mask_of_numbers(vectors):
    inputs, targets, mask = _task(vectors)
    return inputs, targets, mask.float()


@wrong("04.copy_task", "inputs: the shape is")
def no_room_for_the_delimiter(vectors):
    inputs, targets, mask = _task(vectors)
    return inputs[..., :-1], targets, mask


@wrong("04.copy_task", "a vector of zeros has to be said, too")
def mask_from_the_targets(vectors):
    inputs, targets, _ = _task(vectors)
    return inputs, targets, targets.any(-1)


def _each(logits, targets):
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="none") / math.log(2)


def _masked(costs, mask):
    return (costs * mask[..., None]).sum((1, 2))


@wrong("04.bits", "the costs are in nats")
def nats(logits, targets, mask):
    return _masked(_each(logits, targets) * math.log(2), mask)


@wrong("04.bits", "all steps are counted")
def no_mask(logits, targets, mask):
    return _each(logits, targets).sum((1, 2))


@wrong("04.bits", "the mask is the wrong way round")
def the_other_steps(logits, targets, mask):
    return _masked(_each(logits, targets), ~mask)


@wrong("04.bits", "those of one bit on average")
def a_bit_on_average(logits, targets, mask):
    return _masked(_each(logits, targets), mask) / (mask.sum(1) * targets.shape[2])


@wrong("04.bits", "averaged over all steps")
def averaged(logits, targets, mask):
    return (_each(logits, targets) * mask[..., None]).mean((1, 2))


@wrong("04.bits", "the sum over the bits of a vector is a mean")
def mean_of_a_vector(logits, targets, mask):
    return (_each(logits, targets).mean(-1) * mask).sum(1)


@wrong("04.bits", "the targets are not looked at")
def always_a_one(logits, targets, mask):
    return _masked(_each(logits, torch.ones_like(targets)), mask)


@wrong("04.bits", "the sign is wrong")
def log_likelihood(logits, targets, mask):
    return -_masked(_each(logits, targets), mask)


@wrong("04.bits", "through the sigmoid twice")
def squashed_twice(logits, targets, mask):
    return _masked(_each(logits.sigmoid(), targets), mask)


@wrong("04.bits", "log(0) is -inf")
def log_of_zero(logits, targets, mask):
    p = logits.sigmoid()
    return _masked(-torch.where(targets == 1, p, 1 - p).log2(), mask)


@wrong("04.bits", "cut off at 100 nats")
def loss_on_probabilities(logits, targets, mask):
    return _masked(
        F.binary_cross_entropy(logits.sigmoid(), targets, reduction="none") / math.log(2), mask
    )


@wrong("04.bits", "a model could not learn through them")
def no_gradient(logits, targets, mask):
    return _masked(_each(logits.detach(), targets), mask)


@wrong("04.bits", "the gradient at logits is not finite")
def nan_in_the_gradient(logits, targets, mask):
    z = torch.where(targets == 1, logits, -logits)
    # right, but the branch not taken is inf, and inf · 0 is NaN
    costs = torch.where(z < -60, -z, torch.log1p(torch.exp(-z)))
    return _masked(costs / math.log(2), mask)


@wrong("04.bits", "e to the power of some hundreds is inf")
def overflowing(logits, targets, mask):
    z = torch.where(targets == 1, logits, -logits)
    return _masked((1 + torch.exp(-z)).log2(), mask)


@wrong("04.bits", "costs: the shape is ()")
def one_number(logits, targets, mask):
    return _masked(_each(logits, targets), mask).sum()


def _follow(write, read, first=0, last=0, later=False, by=None, shift=0):
    written, looked = write.argmax(1), read.argmax(1)
    n = len(written)
    shares = {
        d: float((looked[d : d + n] == written).float().sum()) / (by or n)
        for d in range(first, len(looked) - n + 1 - last)
    }
    best = max(shares, key=lambda d: (shares[d], d if later else -d))
    return best + shift, shares[best]


@wrong("04.follow", "the share is the number of hits")
def number_of_hits(write, read):
    return _follow(write, read, by=1)


@wrong("04.follow", "over all steps of the read head")
def over_all_steps(write, read):
    return _follow(write, read, by=len(read))


@wrong("04.follow", "the later one")
def the_later_one(write, read):
    return _follow(write, read, later=True)


@wrong("04.follow", "counted from 1")
def counted_from_one(write, read):
    return _follow(write, read, shift=1)


@wrong("04.follow", "delay 0 is never tried")
def never_at_once(write, read):
    return _follow(write, read, first=1)


@wrong("04.follow", "delay is")
def always_at_once(write, read):
    n = len(write)
    return 0, float((read[:n].argmax(1) == write.argmax(1)).float().mean())


@wrong("04.follow", "your function returns")
def the_delay_alone(write, read):
    return _follow(write, read)[0]


@wrong("04.follow", "share and delay are swapped")
def swapped(write, read):
    return _follow(write, read)[::-1]


@wrong("04.follow", "the last delay that fits, T − n, is never tried")
def never_the_last(write, read):
    return _follow(write, read, last=1)


@wrong("04.follow", "delays beyond T − n are tried")
def beyond_the_end(write, read):
    written, looked = write.argmax(1), read.argmax(1)
    shares = [
        float((looked[d : d + len(written)] == written[: len(looked) - d]).float().mean())
        for d in range(len(looked))
    ]
    return shares.index(max(shares)), max(shares)


@wrong("04.follow", "None came back as the delay where nothing hits")
def nothing_found(write, read):
    delay, share = _follow(write, read)
    return (delay if share > 0 else None), share


@wrong("04.follow", "the largest overlap of the weights")
def chosen_by_overlap(write, read):
    n = len(write)
    delay = int(
        torch.stack([(read[d : d + n] * write).sum() for d in range(len(read) - n + 1)]).argmax()
    )
    return delay, float((read[delay : delay + n].argmax(1) == write.argmax(1)).float().mean())


@wrong("04.follow", "the share is the overlap")
def share_of_overlap(write, read):
    n = len(write)
    overlaps = torch.stack(
        [(read[d : d + n] * write).sum(1).mean() for d in range(len(read) - n + 1)]
    )
    return int(overlaps.argmax()), float(overlaps.max())


def _predict(bits, n, prior=0.5, peek=False, first=0.5):
    told, counts = [], {}
    for t, bit in enumerate(bits.tolist()):
        if t < n - 1:
            told.append(first)
            continue
        zeros_ones = counts.setdefault(tuple(bits[t - n + 1 : t].tolist()), [0, 0])
        if peek:
            zeros_ones[bit] += 1
        below = sum(zeros_ones) + 2 * prior
        told.append((zeros_ones[1] + prior) / below if below else float("nan"))
        if not peek:
            zeros_ones[bit] += 1
    return torch.tensor(told)


@wrong("04.best_predictor", "1 is added to each count")
def laplace(bits, n):
    return _predict(bits, n, 1.0)


@wrong("04.best_predictor", "0/0")
def frequencies(bits, n):
    return _predict(bits, n, 0.0)


@wrong("04.best_predictor", "is counted, too")
def peeking(bits, n):
    return _predict(bits, n, peek=True)


@wrong("04.best_predictor", "the context is n bits long")
def longer_context(bits, n):
    return _predict(bits, n + 1)


@wrong("04.best_predictor", "the context is n − 2 bits long")
def shorter_context(bits, n):
    return _predict(bits, max(1, n - 1))


@wrong("04.best_predictor", "the context is not looked at")
def no_context(bits, n):
    return _predict(bits, 1)


@wrong("04.best_predictor", "of a 0")
def of_a_zero(bits, n):
    return 1 - _predict(bits, n)


@wrong("04.best_predictor", "are 0 before the first whole context")
def zeros_first(bits, n):
    return _predict(bits, n, first=0.0)


@wrong("04.best_predictor", "shifted")
def shifted(bits, n):
    return torch.cat([_predict(bits, n)[1:], torch.tensor([0.5])])


@wrong("04.best_predictor", "a tuple of tensors is a new key each time")
def tuples_of_tensors(bits, n):
    told, counts = [], {}
    for t, bit in enumerate(bits):
        if t < n - 1:
            told.append(0.5)
            continue
        seen = counts.setdefault(tuple(bits[t - n + 1 : t]), [0, 0])
        told.append((seen[1] + 0.5) / (sum(seen) + 1))
        seen[int(bit)] += 1
    return torch.tensor(told)


STAY, ON, BACK = torch.eye(3)[1], torch.eye(3)[2], torch.eye(3)[0]


def _program(
    phase,
    vector,
    gate=0.0,
    erase=1.0,
    late_erase=0.0,
    turn_erase=0.0,
    waits=STAY,
    turn=STAY,
    reads=ON,
    writes=ON,
    late=STAY,
):
    ones = torch.ones_like(vector)
    if phase == "store":
        return (gate, waits), (gate, writes, erase * ones, vector)
    cut = late_erase if phase == "recall" else max(late_erase, turn_erase)
    return (gate, turn if phase == "turn" else reads), (gate, late, cut * ones, 0 * vector)


@wrong("04.program", "the gate is 1")
def by_content(phase, vector):
    return _program(phase, vector, gate=1.0)


@wrong("04.program", "nothing is erased")
def no_erase(phase, vector):
    return _program(phase, vector, erase=0.0)


@wrong("04.program", "your read head has to wait")
def read_head_moves_too(phase, vector):
    return _program(phase, vector, waits=ON)


@wrong("04.program", "your read head does not move")
def read_head_rests(phase, vector):
    return _program(phase, vector, reads=STAY)


@wrong("04.program", "your write head does not move")
def write_head_rests(phase, vector):
    return _program(phase, vector, writes=STAY)


@wrong("04.program", "opposite directions")
def opposite(phase, vector):
    return _program(phase, vector, reads=BACK)


@wrong("04.program", "at the delimiter already")
def too_early(phase, vector):
    return _program(phase, vector, turn=ON)


@wrong("04.program", "erases after the delimiter, where it stands")
def erases_the_last(phase, vector):
    return _program(phase, vector, turn_erase=1.0)


@wrong("04.program", "goes on erasing")
def goes_on_erasing(phase, vector):
    return _program(phase, vector, late_erase=1.0, late=ON)


@wrong("04.program", "no distribution")
def two_moves_at_once(phase, vector):
    return _program(phase, vector, writes=STAY + ON)


@wrong("04.program", "expected a number from 0 to 1")
def too_open(phase, vector):
    return _program(phase, vector, gate=2.0)


@wrong("04.program", "expected the tuple (gate, shift, erase, add)")
def without_add(phase, vector):
    read, write = _program(phase, vector)
    return read, write[:3]


_TURNED = []


@wrong("04.program", "your program remembers something between calls")
def phase_in_a_global(phase, vector):
    if phase == "turn":
        _TURNED.append(phase)
        return _program(phase, vector)
    if vector.any():
        _TURNED.clear()
    return _program("recall" if _TURNED else "store", vector)
