"""Figures to touch: beam search and the tour of a pointer network, step by step."""

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from ...validate import check_integer, require
from ..canvas import as_array
from .figure import InteractiveFigure

__all__ = ["beam_steps", "tour_steps"]


def beam_steps(
    following: Callable[[tuple[str, ...]], Mapping[str, float]],
    *,
    end: str,
    beam_size: int = 4,
    longest: int,
    between: str = " ",
    truth: str = "",
    still: Figure,
) -> InteractiveFigure:
    """Show beam search over a decoder's own probabilities, step by step, at beam sizes from 1.

    A hypothesis that ends with ``end`` is finished and stays in the beam.

    Args:
        following: the words so far → each next word with its probability.
        end: the word that ends an answer.
        beam_size: the largest one that the reader can choose.
        longest: steps at most.
        between: what stands between two words when they are shown.
        truth: the right answer, if it is to be shown.
    """
    check_integer("beam_size", beam_size)
    check_integer("longest", longest)
    nodes: list[tuple[int, str, float]] = [(-1, "", 0.0)]  # parent, word, log p of the word
    prefixes: list[tuple[str, ...]] = [()]
    opened: dict[int, list[int]] = {}

    def candidates(node: int) -> list[int]:
        """The next words of a hypothesis, the best that a beam of this size can use."""
        if node not in opened:
            given = following(prefixes[node])
            best = sorted(given.items(), key=lambda pair: -pair[1])[: beam_size + 3]
            best = [(word, p) for word, p in best if p > 0]
            require(
                len(best) > 0,
                f"following must give some word a probability above 0 after {prefixes[node]}, "
                f"got {dict(given)}",
            )
            opened[node] = [len(nodes) + i for i in range(len(best))]
            nodes.extend((node, word, math.log(p)) for word, p in best)
            prefixes.extend((*prefixes[node], word) for word, _ in best)
        return opened[node]

    for size in range(1, beam_size + 1):
        beam = [(0, 0.0)]
        for _ in range(longest):
            grown = []
            for node, log_p in beam:
                if nodes[node][1] == end:
                    grown.append((node, log_p))
                else:
                    grown += [(k, log_p + nodes[k][2]) for k in candidates(node)]
            beam = sorted(grown, key=lambda pair: -pair[1])[:size]
    data = dict(nodes=nodes, end=end, sizes=beam_size, steps=longest)
    data |= dict(between=between, truth=truth)
    label = "Beam search, step by step: the candidates and their probabilities"
    return InteractiveFigure("beam", label, data, still)


def tour_steps(
    points, walk: Sequence[int], weights, best: Sequence[int], *, step: int = 0, still: Figure
) -> InteractiveFigure:
    """Show the tour of a pointer network one step at a time, over the shortest one.

    Args:
        points: ``(n, 2)``, the cities.
        walk: the n cities in the order in which the network took them.
        weights: ``(n, n)`` or ``(n, n + 1)``: a row for each step.
        best: the n cities in the order of the shortest tour.
        step: how many are taken at the start.

    Source: figure 1 of Vinyals, Fortunato and Jaitly 2015 is the idea of such a picture.
    """
    n, rows = len(points), as_array("weights", weights, 2)
    xy = as_array("points", points, (n, 2))
    fits = rows.shape in ((n, n), (n, n + 1))
    require(fits, f"weights must be ({n}, {n}) or ({n}, {n + 1}), got shape {rows.shape}")
    tours = {name: [int(k) for k in tour] for name, tour in (("walk", walk), ("best", best))}
    for name, tour in tours.items():
        once = sorted(tour) == list(range(n))
        require(once, f"{name} must visit each of the {n} cities once, got {tour}")
    check_integer("step", step, 0, n)
    data = {"points": xy, "weights": rows[:, :n], "step": step, **tours}
    label = "The tour of a pointer network, step by step over the shortest tour"
    return InteractiveFigure("tour", label, data, still)
