"""Alphabets that the book draws: letters of a few strokes, each example by another hand."""

import torch
from torch import Tensor

from ...validate import check_integer, check_seed
from ..endless_batches import drawn
from .few_shot_episodes import Classes

SIZE = 28  # pixels, each way
STROKES = 3  # at most, a letter
POINTS = 56  # of a stroke, at which its ink is laid down: little more than a pixel apart
TIP = (0.024, 0.045)  # radius of the pen, the picture is 1 wide
_FAR = 9.0  # the coordinate of absent strokes


def _bases() -> Tensor:
    """From four control points to those of a curve, and of three lines: ``(2, POINTS, 4)``."""
    t = torch.linspace(0, 1, POINTS)[:, None]
    curve = torch.cat([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], 1)
    lines = (1 - (3 * t - torch.arange(4)).abs()).clamp_min(0)
    return torch.stack([curve, lines])


def _letters(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Control points ``(C, STROKES, 4, 2)``; which strokes are curves, and which are there."""

    def numbers(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    points = numbers(count, STROKES, 4, 2)
    curved = numbers(count, STROKES) < 0.7
    there = torch.arange(STROKES) < 1 + (numbers(count, 1) * STROKES).long()
    # A later stroke often begins on the one before it, as in handwriting.
    touching, where = numbers(count, STROKES) < 0.6, (numbers(count, STROKES) * 4).long()
    for k in range(1, STROKES):
        on = points[:, k - 1].gather(1, where[:, k, None, None].expand(-1, 1, 2))[:, 0]
        points[:, k, 0] = torch.where(touching[:, k, None], on, points[:, k, 0])
    used = there[..., None, None]
    low = torch.where(used, points, torch.inf).amin((1, 2), keepdim=True)
    high = torch.where(used, points, -torch.inf).amax((1, 2), keepdim=True)
    side = (high - low).amax(-1, keepdim=True).clamp_min(0.2)  # every letter fills the same square
    return (points - (low + high) / 2) / side, curved, there


def render(points: Tensor, tip: Tensor, size: int = SIZE) -> Tensor:
    """Lay down ink round points: uint8 ``(N, size, size)``, 255 where it is full.

    Args:
        points: ``(N, P, 2)``, x and y in a picture that is 1 wide and high, y downwards.
        tip: ``(N,)``, radius of the pen.
    """
    middle = (torch.arange(size) + 0.5) / size
    y, x = torch.meshgrid(middle, middle, indexing="ij")
    pixels = torch.stack([x.flatten(), y.flatten()], 1)
    pixels, exact = pixels.expand(len(points), -1, -1), "donot_use_mm_for_euclid_dist"
    near = torch.cdist(points, pixels, compute_mode=exact).amin(1)  # (N, size²)
    ink = ((tip[:, None] - near) * size + 0.5).clamp(0, 1)  # one pixel from full to none
    return (ink * 255).round().to(torch.uint8).view(-1, size, size)


@drawn
def alphabet(letters: int, examples: int = 20, *, seed: int) -> Classes:
    """A new alphabet: C letters of one to three strokes, each written E times.

    A stroke is a cubic Bézier curve or a line with two corners. From example to example its control
    points move, and the letter is turned, sheared, stretched, shifted and written with a thinner or
    thicker pen. Another seed is another alphabet.
    """
    check_integer("letters", letters)
    check_integer("examples", examples)
    generator = torch.Generator().manual_seed(check_seed(seed))
    points, curved, there = _letters(letters, generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn((letters, examples, *shape), generator=generator)

    hands = points[:, None] + 0.05 * normal(STROKES, 4, 2)
    angle, shear = 0.22 * normal(), 0.2 * normal()
    stretch = 0.7 * (0.12 * normal(2)).exp()
    sides = [angle.cos(), -angle.sin(), angle.sin(), angle.cos()]
    turn = torch.stack(sides, -1).unflatten(-1, (2, 2))
    lean = torch.eye(2).expand(letters, examples, 2, 2).clone()
    lean[..., 0, 1] = shear
    hands = hands @ (turn @ lean * stretch[..., None]).mT.unsqueeze(2)  # (C, E, STROKES, 4, 2)
    hands = hands + 0.5 + 0.05 * normal(1, 1, 2)
    basis = _bases()[(~curved).long()]  # (C, STROKES, POINTS, 4)
    written = (basis[:, None] @ hands).masked_fill(~there[:, None, :, None, None], _FAR)
    tip = TIP[0] + (TIP[1] - TIP[0]) * torch.rand(letters, examples, generator=generator)
    parts = zip(written.flatten(2, 3).split(16), tip.split(16))
    pictures = [render(p.flatten(0, 1), w.flatten()) for p, w in parts]
    names = tuple((f"alphabet {seed}", f"letter {k}") for k in range(letters))
    return Classes(torch.cat(pictures).view(letters, examples, SIZE, SIZE), names)


def alphabets(count: int, letters: int = 25, examples: int = 20, *, seed: int = 0) -> Classes:
    """``count`` alphabets of as many letters each, of the seeds 1000 · seed, 1000 · seed + 1, …

    Args:
        letters, examples: of each alphabet, and of each letter
    """
    check_integer("count", count)
    drawn = [alphabet(letters, examples, seed=1000 * seed + k) for k in range(count)]
    pictures = torch.cat([one.pictures for one in drawn])
    return Classes(pictures, tuple(name for one in drawn for name in one.names))
