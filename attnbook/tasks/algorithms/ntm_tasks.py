"""The five tasks of the neural Turing machine, from copying to sorting by priority."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, check_integer, check_range, describe, require
from ..endless_batches import GeneratedBatches, drawn, torch_generator


class AlgorithmBatch(NamedTuple):
    """B sequences, padded with zeros at the end.

    Attributes:
        inputs: (B, T, d_input) what the model reads; all zeros at a step whose target is to be
            recalled
        targets: (B, T, d_output) bits, 0 or 1; zeros where the mask is False
        mask: (B, T) True at the steps that count
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor


@drawn
def draw_copy(
    count: int,
    generator: torch.Generator,
    *,
    bits: int = 8,
    length: int | tuple[int, int] = (1, 20),
    together: bool = False,
) -> AlgorithmBatch:
    """Random vectors of bits, a delimiter, then zeros: reproduce the vectors in order.

    A row of n vectors has 2n + 1 steps: the vectors, the delimiter on a separate channel, and n
    steps of zeros whose targets are the vectors.

    Args:
        count: B
        bits: of each vector
        length: n, or (least, most), both included, every length as likely
        together: draw one length for the whole batch, so that no row is padded; else one per row

    Shapes: inputs ``(B, 2 n_max + 1, bits + 1)``, targets ``(B, 2 n_max + 1, bits)``.
    Source: Graves, Wayne and Danihelka 2014, section 4.1.
    """
    lengths = _lengths("length", length, count, generator, together)
    inputs, targets, mask = _repeated(count, generator, bits, lengths, 1)
    return AlgorithmBatch(inputs[..., :-1], targets[..., :-1], mask & (targets[..., -1] == 0))


@drawn
def draw_repeat_copy(
    count: int,
    generator: torch.Generator,
    *,
    bits: int = 8,
    length: int | tuple[int, int] = (1, 10),
    repeats: int | tuple[int, int] = (1, 10),
    counted: tuple[int, int] = (1, 10),
    together: bool = False,
) -> AlgorithmBatch:
    """Random vectors and a number r: reproduce the vectors r times, then an end marker.

    A row of n vectors has n + 1 + n r + 1 steps. At step n the delimiter is 1 and the next
    channel holds the number, ``(r − μ) / σ`` with the mean and the standard deviation of the
    integers of ``counted``. The paper has the number alone; the delimiter marks a number of 0, too.

    Args:
        count, bits, length, together: as in :func:`draw_copy`
        repeats: r, or (least, most)
        counted: the range in training; use the same one in tests beyond that range

    Shapes: inputs ``(B, T, bits + 2)``, targets ``(B, T, bits + 1)``.
    Source: Graves, Wayne and Danihelka 2014, section 4.2.
    """
    lengths = _lengths("length", length, count, generator, together)
    times = _lengths("repeats", repeats, count, generator, together)
    low, high = check_range("counted", counted)
    require(low < high, f"counted must hold two numbers at least, got {counted!r}")
    normal = (times - (low + high) / 2) / (((high - low + 1) ** 2 - 1) / 12) ** 0.5
    return _repeated(count, generator, bits, lengths, times, normal)


@drawn
def draw_associative_recall(
    count: int,
    generator: torch.Generator,
    *,
    bits: int = 6,
    item: int = 3,
    items: int | tuple[int, int] = (2, 6),
    together: bool = False,
) -> AlgorithmBatch:
    """A list of items, then one of them as the query: reproduce the item that followed it.

    An item is ``item`` random vectors. A delimiter precedes each one (channel ``bits``); the
    query, any item but the last, is between two query delimiters (channel ``bits + 1``), the
    first of which also ends the last item. With k items a row has (k + 1)(item + 1) + 1 + item
    steps; the last ``item`` are zeros whose targets are the item after the query.

    Args:
        count, bits, together: as in :func:`draw_copy`
        item: vectors of an item
        items: k, or (least, most), at least 2

    Shapes: inputs ``(B, T, bits + 2)``, targets ``(B, T, bits)``.
    Two items of a row are equal with probability 2^(−bits · item); the targets do not mind.
    Source: Graves, Wayne and Danihelka 2014, section 4.3.
    """
    check_integer("bits", bits)
    check_integer("item", item)
    k = _lengths("items", items, count, generator, together, least=2)
    most, block = int(k.max()), item + 1
    vectors = torch.randint(0, 2, (count, most, item, bits), generator=generator).float()
    query = (torch.rand(count, generator=generator) * (k - 1)).long()
    time = torch.arange((most + 1) * block + 1 + item)
    # which item, and which of its vectors; −1 is the delimiter
    place, within = time // block, time % block - 1
    query_start, last = k[:, None] * block, (k[:, None] + 1) * block  # the two query delimiters
    shown = torch.where(time < query_start, place.expand(count, -1), query[:, None])
    given = (time < last) & (within >= 0)
    inputs = torch.zeros(count, len(time), bits + 2)
    inputs[..., :bits] = _pick(vectors, shown, within.expand(count, -1), given)
    inputs[..., bits] = ((time < query_start) & (within < 0)).float()
    inputs[..., bits + 1] = ((time == query_start) | (time == last)).float()
    mask = (time > last) & (time <= last + item)
    return AlgorithmBatch(inputs, _pick(vectors, query[:, None] + 1, time - last - 1, mask), mask)


@drawn
def draw_n_grams(
    count: int, generator: torch.Generator, *, n: int = 6, length: int = 200
) -> AlgorithmBatch:
    """Bits of a random n-gram source: predict each one from those before.

    Each row draws for all 2^(n−1) contexts the probability of a 1 from Beta(½, ½). The first n − 1
    bits are tosses of a fair coin; each later one is drawn with the probability of the n − 1 bits
    before it. Step t shows bit t − 1 (step 0 shows 0) and its target is bit t; all steps count. The
    source itself is hidden, so the model has to learn it on the way.

    Shapes: inputs and targets ``(B, length, 1)``. Source: Graves, Wayne and Danihelka 2014, section
    4.4.
    """
    check_integer("count", count)
    check_integer("n", n)
    check_integer("length", length)
    # Beta(½, ½) is the arcsine law: sin²(πu/2) of a uniform u.
    table = (torch.rand(count, 2 ** (n - 1), generator=generator) * (torch.pi / 2)).sin().square()
    uniform = torch.rand(count, length, generator=generator)
    context, sequence = torch.zeros(count, dtype=torch.long), torch.zeros(count, length)
    for t in range(length):
        one = 0.5 if t < n - 1 else table.gather(1, context[:, None])[:, 0]
        sequence[:, t] = (uniform[:, t] < one).float()
        context = (2 * context + sequence[:, t].long()) % 2 ** (n - 1)
    inputs = torch.cat([torch.zeros(count, 1), sequence[:, :-1]], 1)
    counts = torch.ones(count, length, dtype=torch.bool)
    return AlgorithmBatch(inputs[..., None], sequence[..., None], counts)


def optimal_n_grams(bits: Tensor, n: int = 6) -> Tensor:
    """The optimal predictions for :func:`draw_n_grams`: p(1) of each bit, given those before it.

    ``p_t = (N1 + ½) / (N0 + N1 + 1)``, where N1 and N0 count how often a 1 and a 0 followed the
    same n − 1 bits so far; ½ for the first n − 1 bits. It is the mean of the posterior of the
    hidden probability: Beta(N1 + ½, N0 + ½).

    Shapes: bits ``(B, T)`` of 0 and 1, result ``(B, T)`` in float64. Source: Graves et al. 2014,
    equation 10.
    """
    require(
        bits.dim() == 2 and bits.numel() > 0 and bool(((bits == 0) | (bits == 1)).all()),
        f"bits must be (batch, T) of 0 and 1, got {describe(bits)}",
    )
    check_integer("n", n)
    history, known = n - 1, bits.long()
    if bits.shape[1] <= history:
        return torch.full(bits.shape, 0.5, dtype=torch.float64, device=bits.device)
    powers = 2 ** torch.arange(history - 1, -1, -1, device=bits.device)
    context = torch.zeros_like(known)
    if history:
        context = (known.unfold(1, history, 1)[:, :-1] * powers).sum(-1)
    following = known[:, history:]  # the bit after each context
    seen = torch.nn.functional.one_hot(context, 2**history)
    # (2, B, T − n + 1, contexts)
    before = torch.stack([seen * (following == value)[..., None] for value in (0, 1)])
    counts = (before.cumsum(2) - before).gather(3, context.expand(2, -1, -1)[..., None])[..., 0]
    probability = (counts[1].double() + 0.5) / (counts.sum(0) + 1)
    return torch.cat([probability.new_full((len(bits), history), 0.5), probability], 1)


@drawn
def draw_priority_sort(
    count: int, generator: torch.Generator, *, bits: int = 8, given: int = 20, wanted: int = 16
) -> AlgorithmBatch:
    """Vectors with priorities from [−1, 1): reproduce the ``wanted`` highest, the highest first.

    A row has given + 1 + wanted steps: vectors with the priority on channel ``bits``, a delimiter
    on channel ``bits + 1``, and zeros. The delimiter is ours: the paper says neither that there is
    one nor that there is none.

    Args:
        count, bits: as in :func:`draw_copy`
        given: vectors that are read
        wanted: vectors to reproduce, at most as many

    Shapes: inputs ``(B, given + 1 + wanted, bits + 2)``, targets ``(B, given + 1 + wanted, bits)``.
    Source: Graves, Wayne and Danihelka 2014, section 4.5.
    """
    for name, value in (("count", count), ("bits", bits), ("given", given)):
        check_integer(name, value)
    check_integer("wanted", wanted, 1, given)
    vectors = torch.randint(0, 2, (count, given, bits), generator=generator).float()
    priority = 2 * torch.rand(count, given, generator=generator) - 1
    order = priority.argsort(1, descending=True)[:, :wanted]
    steps = given + 1 + wanted
    inputs, targets = torch.zeros(count, steps, bits + 2), torch.zeros(count, steps, bits)
    inputs[:, :given, :bits], inputs[:, :given, bits] = vectors, priority
    inputs[:, given, bits + 1] = 1
    targets[:, given + 1 :] = vectors.gather(1, order[..., None].expand(-1, -1, bits))
    mask = torch.arange(steps) > given
    return AlgorithmBatch(inputs, targets, mask.expand(count, -1).contiguous())


_DRAW: dict[str, Callable[..., AlgorithmBatch]] = {
    "copy": draw_copy,
    "repeat-copy": draw_repeat_copy,
    "associative-recall": draw_associative_recall,
    "n-grams": draw_n_grams,
    "priority-sort": draw_priority_sort,
}
KINDS = tuple(_DRAW)


def draw(kind: str, count: int, generator: torch.Generator, **settings: Any) -> AlgorithmBatch:
    """A batch of one of :data:`KINDS`, with the settings of its ``draw_…`` function."""
    return _DRAW[check_choice("kind", kind, KINDS)](count, generator, **settings)


def widths(kind: str, **settings: Any) -> tuple[int, int]:
    """d_input and d_output of a task."""
    batch = draw(kind, 1, torch.Generator().manual_seed(0), **settings)
    return batch.inputs.shape[2], batch.targets.shape[2]


class AlgorithmBatches(GeneratedBatches[AlgorithmBatch]):
    """Endless batches of :func:`draw`, with its settings.

    Args:
        grow: number of steps over which the largest length (copy, repeat copy), the number of items
            (associative recall) or n (n-grams, from 2) grows linearly to its maximum; 0 for the
            full range from the start.
    """

    _GROWS = dict(zip(KINDS, ("length", "length", "items", "n")))

    def __init__(
        self, kind: str, batch_size: int, seed: int = 0, *, grow: int = 0, **settings: Any
    ):
        super().__init__(partial(draw, kind, **settings), batch_size, seed)
        self.kind, self.settings, self.grow = kind, settings, check_integer("grow", grow, 0)
        grows = not grow or kind in self._GROWS
        require(grows, f"grow must be 0 for {kind}, whose sequences have one length, got {grow!r}")

    def batch(self, step: int) -> AlgorithmBatch:
        """The batch of a step, counted from 0."""
        if check_integer("step", step, 0) >= self.grow:
            return super().batch(step)
        name = self._GROWS[self.kind]
        default = signature(_DRAW[self.kind]).parameters[name].default
        low, high = check_range(name, self.settings.get(name, default))
        if name == "n":
            reached = min(2, high) + (high - min(2, high)) * step // self.grow
        else:
            reached = low, low + (high - low) * step // self.grow
        settings = {**self.settings, name: reached}
        return draw(self.kind, self.batch_size, torch_generator(self.seed, step), **settings)


def _repeated(count, generator, bits, lengths, times, normal=None) -> AlgorithmBatch:
    """Vectors, a delimiter (and a number), the vectors so many times and an end marker."""
    check_integer("bits", bits)
    times = torch.as_tensor(times).expand(count)
    spoken = lengths * times
    vectors = torch.randint(0, 2, (count, int(lengths.max()), bits), generator=generator).float()
    time = torch.arange(int((lengths + spoken).max()) + (1 if normal is None else 2))
    n, end = lengths[:, None], (lengths + spoken)[:, None] + 1
    inputs, targets = (torch.zeros(count, len(time), bits + k) for k in (2, 1))
    vectors, first = vectors[:, :, None], torch.zeros_like(time)
    inputs[..., :bits] = _pick(vectors, time.expand(count, -1), first, time < n)
    inputs[..., bits] = (time == n).float()
    if normal is not None:
        inputs[..., bits + 1] = (time == n) * normal[:, None].float()
    recall = (time > n) & (time < end)
    targets[..., :bits] = _pick(vectors, (time - n - 1) % n, first, recall)
    targets[..., bits] = (time == end).float()
    return AlgorithmBatch(inputs, targets, (time > n) & (time <= end))


def _pick(vectors, place, within, where):
    """``vectors[b, place[b, t], within[b, t]]``, zeros unless ``where[b, t]``: (B, T, bits)."""
    rows, (_, k, m, _) = torch.arange(len(vectors))[:, None], vectors.shape
    return vectors[rows, place.clamp(0, k - 1), within.clamp(0, m - 1)] * where[..., None]


def _lengths(name, given, count, generator, together, least=1):
    low, high = check_range(name, given, least)
    check_integer("count", count)
    drawn = torch.randint(low, high + 1, (1 if together else count,), generator=generator)
    return drawn.expand(count)
