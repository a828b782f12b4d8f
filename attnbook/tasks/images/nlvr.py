"""Human sentences about drawn scenes: the NLVR corpus, pictures drawn from their description.

A picture is three grey boxes with yellow, black and blue squares, circles and triangles in them; a
sentence is true of it. The corpus gives the place of every object, from which the picture is drawn
here; no picture is fetched."""

import json
import random
import re
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, check_seed, require
from .. import datasets
from ..sequences.vocabulary import Vocabulary
from .captioned_pictures import Box, Captioned

FILES = ("dev", "test", "hidden")
SIDE = 48  # pixels of a box; 100 units of the corpus
LEFT = (0, 72, 144)  # where the three boxes begin; 0, 150 and 300 in the corpus
SIZE = (SIDE, LEFT[-1] + SIDE)  # height and width of a picture
GRID = (6, 24)  # regions of 8 × 8 pixels
GROUND, PAPER = (128, 128, 128), (211, 211, 211)
COLOURS = {"yellow": (255, 255, 0), "black": (0, 0, 0), "blue": (0, 153, 255)}
_NAMES = {"Yellow": "yellow", "Black": "black", "#0099ff": "blue"}
SHAPES = ("square", "circle", "triangle")
_FINER = 4  # samples per pixel, each way


class Item(NamedTuple):
    """One object: left and top in units of the corpus (100 a box), width, and what it is."""

    x: int
    y: int
    size: int
    shape: str
    colour: str


class Statement(NamedTuple):
    """A sentence that is true of a picture.

    Attributes:
        sentence: as the person wrote it
        identifier: n of the corpus's n-m: scenes with the same n were shown together
        boxes: the three boxes from left to right, each a tuple of items
    """

    sentence: str
    identifier: str
    boxes: tuple[tuple[Item, ...], ...]


def read(file: str) -> list[Statement]:
    """The sentences of "dev", "test" or "hidden" that are true of their picture."""
    check_choice("file", file, FILES)
    path = datasets.fetch("nlvr", f"nlvr/{file}/{file}.json")
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [_statement(row) for row in rows if row["label"] == "true"]


def _statement(row: dict) -> Statement:
    boxes = tuple(
        tuple(Item(o["x_loc"], o["y_loc"], o["size"], o["type"], _NAMES[o["color"]]) for o in box)
        for box in row["structured_rep"]
    )
    return Statement(row["sentence"], row["identifier"].split("-")[0], boxes)


def words(sentence: str) -> tuple[str, ...]:
    """Lower-case words and numbers, without punctuation."""
    return tuple(re.findall(r"[a-z]+|[0-9]+", sentence.lower()))


def split(statements: Iterable[Statement], shares: tuple[float, float] = (0.1, 0.1), seed: int = 0):
    """Train, valid and test lists that share neither a sentence nor an identifier.

    ``shares`` are those of valid and test. Statements with the same words, or the same identifier,
    stay together."""
    some = len(shares) == 2 and min(shares) >= 0 and sum(shares) < 1
    require(some, f"shares must be two shares that leave some for training, got {shares!r}")
    statements = list(statements)
    parent: dict[tuple, tuple] = {}

    def root(key: tuple) -> tuple:
        parent.setdefault(key, key)
        while parent[key] != key:
            key = parent[key]
        return key

    for s in statements:
        parent[root(("words", *words(s.sentence)))] = root(("identifier", s.identifier))
    groups: dict[tuple, list[Statement]] = {}
    for s in statements:
        groups.setdefault(root(("identifier", s.identifier)), []).append(s)
    order = [groups[key] for key in sorted(groups)]
    random.Random(check_seed(seed)).shuffle(order)
    train, valid, test = [], [], []
    for group in order:
        for part, share in ((valid, shares[0]), (test, shares[1])):
            if len(part) + len(group) <= share * len(statements):
                part += group
                break
        else:
            train += group
    return train, valid, test


def place(item: Item, box: int) -> Box:
    """The pixels of the picture that an item of a box (0, 1, 2) touches."""
    scale = SIDE / 100
    left, top = LEFT[box] + item.x * scale, item.y * scale
    right, bottom = left + item.size * scale, top + item.size * scale
    return Box(
        int(left), int(top), min(LEFT[box] + SIDE, -int(-right // 1)), min(SIDE, -int(-bottom // 1))
    )


def draw_box(items: Sequence[Item]) -> Tensor:
    """One box, uint8 ``(3, SIDE, SIDE)``; triangles are inscribed in the square of their size."""
    painted = torch.tensor(PAPER, dtype=torch.float32)[:, None, None].expand(3, SIDE, SIDE).clone()
    for item in items:
        box = place(item, 0)
        step = 100 / SIDE / _FINER
        y = (torch.arange(box.top * _FINER, box.bottom * _FINER) + 0.5)[:, None] * step - item.y
        x = (torch.arange(box.left * _FINER, box.right * _FINER) + 0.5)[None] * step - item.x
        x, y = 2 * x / item.size - 1, 2 * y / item.size - 1  # −1 … 1 from edge to edge
        inside = (x.abs() <= 1) & (y.abs() <= 1)
        if item.shape == "circle":
            inside = x * x + y * y <= 1
        elif item.shape == "triangle":
            inside = inside & (2 * x.abs() <= y + 1)
        elif item.shape != "square":
            check_choice("shape", item.shape, SHAPES)
        rows, columns = box.bottom - box.top, box.right - box.left
        cover = inside.float().view(rows, _FINER, columns, _FINER).mean((1, 3))
        colour = torch.tensor(COLOURS[item.colour], dtype=torch.float32)[:, None, None]
        window = painted[:, box.top : box.bottom, box.left : box.right]
        window.copy_(cover * colour + (1 - cover) * window)
    return painted.round().to(torch.uint8)


def named(word: str, boxes: Sequence[Sequence[Item]]) -> tuple[Box, ...]:
    """The places of the objects that a word can mean: those of its colour or shape, or none."""
    kind, items = word.removesuffix("s"), [(i, k) for k, box in enumerate(boxes) for i in box]
    return tuple(place(item, k) for item, k in items if kind in (item.shape, item.colour))


def captioned(statements: Sequence[Statement], permute: bool = False) -> Captioned:
    """Pictures, words and the places of what they can mean; ``permute``: in all orders."""
    require(len(statements) > 0, "statements must hold at least one, got none")
    orders = list(permutations(range(3))) if permute else [(0, 1, 2)]
    ground = torch.tensor(GROUND, dtype=torch.uint8)[:, None, None]
    pictures = ground.expand(len(statements) * len(orders), 3, *SIZE).clone()
    captions, places = [], []
    for s in statements:
        drawn, caption = [draw_box(box) for box in s.boxes], words(s.sentence)
        for order in orders:
            for left, k in zip(LEFT, order):
                pictures[len(captions), :, :, left : left + SIDE] = drawn[k]
            boxes = [s.boxes[k] for k in order]
            captions.append(caption)
            places.append(tuple(named(word, boxes) for word in caption))
    return Captioned(pictures, captions, places)


def vocabulary(data: Captioned) -> Vocabulary:
    """The words that training captions hold three times or more; the rest is read as <unk>."""
    return Vocabulary.from_sequences(data.captions, min_count=3, unknown="unk")
