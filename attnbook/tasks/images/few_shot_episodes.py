"""Episodes: new classes, a few examples of each with their labels, and pictures to name.

All episodes of a batch are drawn and gathered at once, by index tensors on the device of the
pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...validate import check_integer, check_number, check_range, describe, require
from ..endless_batches import GeneratedBatches, drawn, torch_generator


@dataclass(frozen=True, eq=False)
class Classes:
    """Pictures by class.

    Attributes:
        pictures: uint8 ``(C, E, size, size)``: E examples of each of C classes; ink is 255, the
            ground 0
        names: C pairs of text: alphabet and class
    """

    pictures: Tensor
    names: tuple[tuple[str, str], ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def alphabets(self) -> tuple[str, ...]:
        """The names of the alphabets, each once, in order."""
        return tuple(dict.fromkeys(alphabet for alphabet, _ in self.names))

    def to(self, device) -> Classes:
        """The same with its pictures on a device."""
        return replace(self, pictures=self.pictures.to(device))


class EpisodeBatch(NamedTuple):
    """B episodes of N classes: S = N · K examples, in a random order, and Q pictures to name.

    Attributes:
        support: uint8 ``(B, S, size, size)``
        labels: long ``(B, S)``: the class of each, 0 … N − 1, as numbered in this episode
        query: uint8 ``(B, Q, size, size)``: other examples of the same classes
        answers: long ``(B, Q)``
    """

    support: Tensor
    labels: Tensor
    query: Tensor
    answers: Tensor


def with_rotations(classes: Classes) -> Classes:
    """Four times as many classes of the same alphabets: each also turned by 90, 180 and 270°.

    Source: Santoro et al. 2016, section 4.1.
    """
    ways = {f" turned by {90 * k}" if k else "": k for k in range(4)}
    return _changed({way: classes.pictures.rot90(k, (-2, -1)) for way, k in ways.items()}, classes)


def with_mirrors(classes: Classes) -> Classes:
    """Twice as many classes, of the same alphabets: each as it is, and mirrored, as a new class.

    A symmetric letter is then in two equal classes.
    """
    return _changed({"": classes.pictures, " mirrored": classes.pictures.flip(-1)}, classes)


def _changed(pictures: dict[str, Tensor], classes: Classes) -> Classes:
    """The pictures of the classes in each of several ways, by what that adds to their names."""
    names = [(alphabet, name + way) for way in pictures for alphabet, name in classes.names]
    return Classes(torch.cat([*pictures.values()]), tuple(names))


@drawn
def draw_episodes(
    pictures: Tensor,
    ways: int,
    shots: int,
    queries: int,
    count: int,
    generator: torch.Generator | None = None,
) -> EpisodeBatch:
    """Draw B episodes.

    Each picks N different classes, gives them the labels 0 … N − 1 by chance, and K + Q different
    examples of each; K of them are shown, in an order drawn anew. The class of each query is drawn
    from the N, with repetition.

    Args:
        pictures: ``(C, E, size, size)``, on any device.
        ways, shots, queries, count: N, K, Q, B.
        generator: on the device of the pictures.
    """
    fits = isinstance(pictures, Tensor) and pictures.dim() == 4
    require(fits, f"pictures must be (classes, examples, size, size), got {describe(pictures)}")
    (classes, examples), device = pictures.shape[:2], pictures.device
    for name, value in (("ways", ways), ("shots", shots), ("queries", queries), ("count", count)):
        check_integer(name, value)
    require(ways <= classes, f"ways must be at most the number of classes, {classes}, got {ways}")
    most, came = f"the {examples} examples of a class", f"{shots} + {queries}"
    require(shots + queries <= examples, f"shots + queries must be at most {most}, got {came}")

    def numbers(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=device)

    # (B, N): class of label n; different ones, in a random order
    chosen = numbers(count, classes).topk(ways, dim=1).indices
    # (B, N, K + Q): different examples
    of_class = numbers(count, ways, examples).topk(shots + queries, dim=2).indices
    order = numbers(count, ways * shots).argsort(1)  # a permutation of the N · K
    labels = order // shots
    shown = of_class[:, :, :shots].flatten(1).gather(1, order)
    # rand can round up to 1 on a GPU
    answers = (numbers(count, queries) * ways).long().clamp_max(ways - 1)
    # for query q the q-th unused example of its class
    query_example = of_class[:, :, shots:].gather(1, answers[:, None]).squeeze(1)
    support = pictures[chosen.gather(1, labels), shown]
    query = pictures[chosen.gather(1, answers), query_example]
    return EpisodeBatch(support, labels, query, answers)


@drawn
def bent(pictures: Tensor, amount: float, generator: torch.Generator | None = None) -> Tensor:
    """Each picture under a random small affine map, as if turned, slanted or moved a little.

    The result at x' is the picture at ``(I + J) x' + t``, with x from −1 to 1 on both axes and all
    six entries of J and t uniform from −amount to amount; between pixels linear, beyond the edge
    the ground (0).

    Shapes: uint8 ``(B, S, size, size)`` → the same. ``generator`` is on the device of the pictures.
    """
    check_number("amount", amount, least=0, most=1)
    flat = pictures.flatten(0, 1)
    maps = (2 * torch.rand(len(flat), 2, 3, generator=generator, device=flat.device) - 1) * amount
    maps[:, 0, 0] += 1
    maps[:, 1, 1] += 1
    places = F.affine_grid(maps, [len(flat), 1, *flat.shape[-2:]], align_corners=False)
    moved = F.grid_sample(flat[:, None].float(), places, align_corners=False)[:, 0]
    return moved.round().to(torch.uint8).view_as(pictures)


class EpisodeBatches(GeneratedBatches[EpisodeBatch]):
    """Endless new episodes.

    Args:
        classes: what they are drawn from.
        ways: ``N``.
        shots: K, or (least, most): then drawn for each batch, every number as likely.
        queries: Q, pictures to name in each episode.
        bend: how far each picture is :func:`bent`, support and queries; 0: not at all.
    """

    def __init__(
        self,
        classes: Classes,
        ways: int,
        shots: int | tuple[int, int] = 1,
        queries: int = 1,
        batch_size: int = 32,
        seed: int = 0,
        bend: float = 0.0,
    ):
        low, high = check_range("shots", shots)
        check_number("bend", bend, least=0, most=1)
        pictures = classes.pictures

        def draw(count: int, generator: torch.Generator) -> EpisodeBatch:
            # The number of shots comes from the CPU, so that it is the same on every device.
            same_seed = torch.Generator().manual_seed(generator.initial_seed())
            shots = low + int(torch.randint(high - low + 1, (), generator=same_seed))
            batch = draw_episodes(pictures, ways, shots, queries, count, generator)
            if not bend:
                return batch
            support, query = (bent(p, bend, generator) for p in (batch.support, batch.query))
            return batch._replace(support=support, query=query)

        # The largest number of shots must fit, too.
        draw_episodes(pictures, ways, high, queries, 1, torch_generator(0, 0, pictures.device))
        super().__init__(draw, batch_size, seed, partial(torch_generator, device=pictures.device))
