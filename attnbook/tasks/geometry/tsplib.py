"""Real travelling salesman problems with their known optimal tours: TSPLIB (Reinelt 1991)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, require
from .. import datasets
from .tours import is_tour

KINDS = ("EUC_2D", "ATT", "GEO")
"""Distances: rounded Euclidean, pseudo-Euclidean rounded up, great circles in kilometres."""


class Instance(NamedTuple):
    """One instance.

    Attributes:
        name: as in the library: the number at its end is the number of cities
        kind: one of KINDS
        points: (n, 2) float64, as in the file; for GEO latitude and longitude as DDD.MM (degrees
            and minutes)
        tour: (n,) an optimal tour, from city 0, or None where the library has none
        best: the length of the shortest known tour, in the rounded distances of the instance
    """

    name: str
    kind: str
    points: Tensor
    tour: Tensor | None
    best: int


def names() -> tuple[str, ...]:
    """The instances that the registry of data sets lists, those without coordinates among them."""
    return tuple(
        file.removesuffix(".tsp")
        for name, file in datasets.read_registry()
        if name == "tsplib" and file.endswith(".tsp")
    )


def load(name: str) -> Instance:
    """An instance with its best known length, and its optimal tour if there is one."""
    check_choice("name", name, names())
    header, sections = _read(f"{name}.tsp")
    kind = header.get("EDGE_WEIGHT_TYPE", "")
    known = kind in KINDS and "NODE_COORD_SECTION" in sections
    wanted = f"an instance with {', '.join(KINDS)} distances and coordinates"
    require(known, f"name must be {wanted}; {name} has {kind}")
    rows = [line.split() for line in sections["NODE_COORD_SECTION"]]
    n = int(header["DIMENSION"])
    whole = [(int(row[0]), len(row)) for row in rows] == [(k + 1, 3) for k in range(n)]
    require(whole, f"tsplib/{name}.tsp must list {n} cities in order, with two coordinates each")
    points = torch.tensor([[float(x) for x in row[1:]] for row in rows], dtype=torch.float64)
    return Instance(name, kind, points, _tour(name, n), best_lengths()[name])


def best_lengths() -> dict[str, int]:
    """The length of the shortest known tour of each instance of the library."""
    parts = (line.partition(":") for line in _lines("bestSolutions.txt"))
    return {name.strip(): int(rest.split()[0]) for name, _, rest in parts if rest.split()}


def _tour(name: str, n: int) -> Tensor | None:
    file = f"{name}.opt.tour"
    if ("tsplib", file) not in datasets.read_registry():
        return None
    numbers = [int(x) for line in _read(file)[1]["TOUR_SECTION"] for x in line.split()]
    walk = torch.tensor(numbers[: numbers.index(-1)] if -1 in numbers else numbers) - 1
    require(is_tour(walk.tolist(), n), f"tsplib/{file} must visit each of {n} cities once")
    return walk.roll(-int((walk == 0).nonzero()))


def _lines(file: str) -> list[str]:
    path = datasets.fetch("tsplib", file)
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


def _read(file: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The lines "KEY: value", and the lines of each section."""
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in map(str.strip, _lines(file)):
        if not line or line == "EOF":
            continue
        if line.rstrip(" :").endswith("_SECTION"):
            lines = sections.setdefault(line.rstrip(" :"), [])
        elif lines is not None and (line[0].isdigit() or line[0] in "-+."):
            lines.append(line)
        elif ":" in line:
            key, _, value = line.partition(":")
            header[key.strip()] = value.strip()
    return header, sections


def lengths_of(points: Tensor, kind: str) -> Tensor:
    """Distances ``(n, n)`` as TSPLIB rounds them to integers, to compare with its best tours.

    - EUC_2D: the Euclidean distance, rounded to the nearest integer.
    - ATT: ``r = √((Δx² + Δy²) / 10)``, rounded up.
    - GEO: on a sphere of 6378.388 km with π = 3.141592, rounded down and 1 added, between different
      cities.

    Source: Reinelt 1995, TSPLIB 95, section 2.
    """
    check_choice("kind", kind, KINDS)
    p = points.double()
    if kind != "GEO":
        square = (p[:, None] - p[None]).square().sum(-1)
        rounded = (square.sqrt() + 0.5).floor() if kind == "EUC_2D" else (square / 10).sqrt().ceil()
        return rounded.long()
    latitude, longitude = (_degrees(p) * (3.141592 / 180)).unbind(1)
    q1 = (longitude[:, None] - longitude[None]).cos()
    q2 = (latitude[:, None] - latitude[None]).cos()
    q3 = (latitude[:, None] + latitude[None]).cos()
    angle = (0.5 * ((1 + q1) * q2 - (1 - q1) * q3)).clamp(-1, 1).acos()
    return (6378.388 * angle + 1).floor().long().fill_diagonal_(0)


def _degrees(points: Tensor) -> Tensor:
    """DDD.MM, degrees and minutes, as degrees."""
    degrees = points.trunc()
    return degrees + (points - degrees) * (100 / 60)


def unit_square(points: Tensor, kind: str = "EUC_2D") -> Tensor:
    """The points (n, 2) in the unit square, float32: from the origin, over the longer side.

    Both axes have one scale, so that the shortest tour stays the shortest. For GEO the first
    coordinate becomes the longitude, times the cosine of the middle latitude: a map, on which
    distances are only nearly those of the sphere.
    """
    p = points.double()
    if kind == "GEO":
        latitude, longitude = _degrees(p).unbind(1)
        middle = math.radians(float(latitude.min() + latitude.max()) / 2)
        p = torch.stack([longitude * math.cos(middle), latitude], 1)
    p = p - p.amin(0)
    longest = p.max()
    require(bool(longest > 0), "points must not all be the same")
    return (p / longest).float()
