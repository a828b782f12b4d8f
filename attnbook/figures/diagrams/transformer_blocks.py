"""Drawings of a Transformer from the live modules: one block, or a whole model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from torch import nn

from ..style import COLORS
from .module_outline import Part, Sublayer, count_parameters, describe, read_block

__all__ = ["draw_block", "draw_model"]

_WIDTH, _LINE, _PAD, _GAP, _ROUND = 4.2, 0.27, 0.18, 0.26, 0.19
_OUT = _WIDTH / 2 + 0.42  # how far from the stream a residual runs
_INCH = 0.56  # of a unit
_FILL = {
    "attention": "#dfeaf5",
    "cross": "#f8e4d9",
    "feed": "#e4efdd",
    "norm": "#f3ecd2",
    "embedding": "#ece2f3",
    "other": "#ffffff",
    "dropout": "#f1f1ee",
    "scale": "#ffffff",
}
_EDGE = {
    "attention": COLORS[0],
    "cross": COLORS[1],
    "feed": COLORS[2],
    "norm": COLORS[4],
    "embedding": COLORS[3],
    "other": "#555555",
    "dropout": "#999999",
    "scale": "#555555",
}
_INK, _STREAM, _AROUND = "#222222", "#555555", COLORS[5]


def draw_block(
    *layers: nn.Module, titles: Sequence[str] | None = None, ax: Axes | None = None
) -> Figure:
    """Draw blocks beside each other, each from bottom to top: its sublayers, where norms and
    dropout stand, the residuals.

    All of it is read off the modules: a box has name, class, widths and number of parameters; a
    residual is drawn where x is added to the branch; modules without effect (``nn.Identity``,
    dropout 0) are left out.

    Args:
        layers: blocks with children ``NAME`` and ``around_NAME``, like ``EncoderLayer`` and
            ``DecoderLayer``.
        titles: one per block; class, residual connection and number of parameters when not given.

    Raises:
        ValueError: without a block, for a block that has no sublayer with a residual connection, or
            for another number of titles.

    Source: the blocks of figure 1 of Vaswani et al. 2017.
    """
    parts = [read_block(layer) for layer in layers]
    if not layers or (titles is not None and len(titles) != len(layers)):
        raise ValueError(
            f"give at least one layer and one title a layer, got {len(layers)} layers and titles "
            f"{titles!r}"
        )
    ax = ax if ax is not None else plt.subplots(layout="constrained")[1]
    looks = any(sublayer.part.kind == "cross" for block in parts for sublayer in block)
    left, apart = (1.9 if looks else 0.3), 2 * _OUT + (1.7 if looks else 0.9)
    columns = [_Column(ax, k * apart, side=1) for k in range(len(layers))]
    for column, layer, block in zip(columns, layers, parts):
        size = _stream_width(layer)
        column.caption(f"x, (n × {size})" if size else "x")
        for y in column.block(block):
            edge = column.x - _WIDTH / 2
            _arrow(ax, (edge - 0.6, y), (edge, y), color=COLORS[1])
            ax.text(edge - 0.66, y, "source", ha="right", va="center", fontsize=8, color=COLORS[1])
        column.end("to the next block")
    for k, (column, layer) in enumerate(zip(columns, layers)):
        residual = next(
            type(child).__name__
            for name, child in layer._modules.items()
            if name.startswith("around_")
        )
        text = (
            f"{type(layer).__name__}, {residual}\n{count_parameters(layer):,} parameters"
            if titles is None
            else titles[k]
        )
        ax.text(column.x, column.y + 0.2, text, ha="center", va="bottom", fontsize=9.5, color=_INK)
    _finish(
        ax,
        (-_WIDTH / 2 - left, columns[-1].x + _OUT + 0.4),
        max(column.y for column in columns) + 1.0,
    )
    return ax.figure


def draw_model(model: nn.Module, *, title: str | None = None) -> Figure:
    """Draw a whole model from bottom to top: embeddings, its stacks of blocks, and what turns the
    last vectors into logits.

    Read off the module like :func:`draw_block`. Stacks are the children with a ``ModuleList`` named
    ``layers``; equal blocks are drawn once. Of two stacks the first is the encoder, left, and the
    second has an arrow from it to every sublayer ``cross_attention``. Other children stand below or
    above the stacks in the order in which they were made; those called ``source_…`` and
    ``target_…`` belong to the one or the other column.

    Args:
        model: like ``Transformer`` (two stacks), ``TransformerLM`` or ``TransformerEncoderModel``
            (one).
        title: above the drawing; class and number of parameters when not given.

    Raises:
        ValueError: if the model has no stack, or more than two.

    Source: figure 1 of Vaswani et al. 2017.
    """
    children = [
        (name, child) for name, child in getattr(model, "_modules", {}).items() if child is not None
    ]
    stacks = [
        name
        for name, child in children
        if isinstance(getattr(child, "layers", None), nn.ModuleList)
    ]
    if len(stacks) not in (1, 2):
        raise ValueError(
            f"model must have one or two stacks (children with a ModuleList named layers), got "
            f"{len(stacks)} in "
            f"{type(model).__name__}"
        )
    order = [name for name, _ in children]
    first, last = order.index(stacks[0]), order.index(stacks[-1])
    _, ax = plt.subplots(layout="constrained")
    apart = 2 * _OUT + 1.9
    columns, crossings, seen = [], [], {}
    for k, stack in enumerate(stacks):
        own, others = (
            (("source_", "target_") if k == 0 else ("target_", "source_"))
            if len(stacks) == 2
            else ("", "\0")
        )
        column = _Column(ax, k * apart, side=-1 if k == 0 and len(stacks) == 2 else 1)
        column.caption(
            {
                "source_": "source tokens, (n)",
                "target_": "target tokens so far, (m)",
                "": "tokens, (n)",
            }[own]
        )
        for name, child in children[:first]:
            if not name.startswith(others):
                column.child(child, name, seen)
        for _, group in groupby(model._modules[stack].layers, key=read_block):
            crossings += column.repeated(list(group))
        for name, child in model._modules[stack]._modules.items():
            if name != "layers" and child is not None:
                column.child(child, f"{name} of the {stack}", seen)
        columns.append(column)
    if len(stacks) == 2:
        columns[0].join(crossings, apart)
    for name, child in children[last + 1 :]:
        columns[-1].child(child, name, seen)
    columns[-1].end("logits")
    ax.set_title(
        title or f"{type(model).__name__}: {count_parameters(model):,} parameters", fontsize=10.5
    )
    _finish(
        ax,
        (-_OUT - 0.95, (len(stacks) - 1) * apart + _OUT + 0.95),
        max(column.y for column in columns),
    )
    return ax.figure


class _Column:
    """A stream that is drawn upwards; ``side`` is where its residuals run, 1 right and -1 left."""

    def __init__(self, ax: Axes, x: float, side: int) -> None:
        self.ax, self.x, self.side, self.y = ax, x, side, 0.0

    def caption(self, text: str) -> None:
        self.ax.text(self.x, self.y, text, ha="center", va="top", fontsize=8.5, color=_INK)
        self.y += 0.06

    def _climb(self, height: float = _GAP) -> None:
        _arrow(self.ax, (self.x, self.y), (self.x, self.y + height))
        self.y += height

    def box(self, part: Part) -> float:
        """A box and the arrow into it; the height of its middle."""
        self._climb()
        lines = part.lines
        thin, height = len(lines) == 1, len(lines) * _LINE + _PAD
        middle, width = (
            self.y + height / 2,
            _WIDTH * (0.42 if part.kind in ("dropout", "scale") else 1),
        )
        self.ax.add_patch(
            FancyBboxPatch(
                (self.x - width / 2, self.y),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=0.09",
                facecolor=_FILL[part.kind],
                edgecolor=_EDGE[part.kind],
                linewidth=1.3,
                zorder=3,
            )
        )
        for k, line in enumerate(lines):
            self.ax.text(
                self.x,
                middle + ((len(lines) - 1) / 2 - k) * _LINE,
                line,
                ha="center",
                va="center_baseline",
                zorder=4,
                fontsize=7.6 if thin or k else 9,
                color=_INK if thin or not k else "#444444",
                weight="bold" if not thin and not k else "normal",
            )
        self.y += height
        return middle

    def block(self, parts: tuple[Sublayer, ...]) -> list[float]:
        """All sublayers; the heights of those that look at a source."""
        looks = []
        for sublayer in parts:
            start = self.y + _GAP / 2
            if sublayer.join != "none":
                self._climb(_GAP * 0.6)
                start = self.y
            for part in sublayer.before:
                self.box(part)
            height = self.box(sublayer.part)
            looks += [height] if sublayer.part.kind == "cross" else []
            for part in sublayer.behind:
                self.box(part)
            if sublayer.join == "sum":
                self._sum(start)
            for k, part in enumerate(sublayer.after):
                height = self.box(part)
                if sublayer.join == "other" and k == 0:
                    self._residual(start, height, _WIDTH / 2)
        return looks

    def _sum(self, start: float) -> None:
        self._climb()
        middle = self.y + _ROUND
        self.ax.add_patch(
            Circle(
                (self.x, middle),
                _ROUND,
                facecolor="#ffffff",
                edgecolor=_INK,
                linewidth=1.3,
                zorder=3,
            )
        )
        for dx, dy in ((0.11, 0), (0, 0.11)):
            self.ax.plot(
                (self.x - dx, self.x + dx),
                (middle - dy, middle + dy),
                color=_INK,
                linewidth=1.3,
                linestyle="-",
                zorder=4,
            )
        self._residual(start, middle, _ROUND)
        self.y = middle + _ROUND

    def _residual(self, start: float, end: float, near: float) -> None:
        out = self.x + self.side * _OUT
        self.ax.plot(
            (self.x, out, out),
            (start, start, end),
            color=_AROUND,
            linewidth=1.5,
            linestyle="-",
            zorder=2,
            solid_joinstyle="round",
        )
        _arrow(self.ax, (out, end), (self.x + self.side * near, end), color=_AROUND, linewidth=1.5)
        self.ax.text(
            out + self.side * 0.18,
            (start + end) / 2,
            "residual",
            rotation=90 * self.side * -1,
            ha="center",
            va="center",
            fontsize=7.6,
            color=_AROUND,
        )

    def child(self, module: nn.Module, name: str, seen: dict[int, str]) -> None:
        """A module beside the stacks; one whose matrix was drawn before says so instead of
        counting it again.
        """
        if type(module) is nn.Identity or getattr(module, "p", None) == 0:
            return
        part = describe(module, name)
        weight = getattr(module, "weight", None)
        if weight is not None and part.kind != "norm":
            first = seen.setdefault(id(weight), name.replace("_", " "))
            if first != name.replace("_", " "):
                part = replace(part, shared=f"the matrix of the {first}")
        if part.kind == "norm":
            part = replace(part, role="", detail="")
        self.box(part)

    def repeated(self, blocks: list[nn.Module]) -> list[float]:
        """A block in a frame, with the number of blocks like it."""
        below = self.y
        self.y += 0.12
        looks = self.block(read_block(blocks[0]))
        self._climb(_GAP * 0.8)
        width, edge = _OUT + 0.42, self.x - (_OUT + 0.42 if self.side < 0 else _WIDTH / 2 + 0.2)
        self.ax.add_patch(
            FancyBboxPatch(
                (edge, below + 0.1),
                width + _WIDTH / 2 + 0.2,
                self.y - below - 0.16,
                boxstyle="round,pad=0,rounding_size=0.2",
                facecolor="#f3f3ef",
                edgecolor="#bbbbbb",
                linewidth=1.1,
                zorder=0,
            )
        )
        same = len(blocks) > 1 and all(block is blocks[0] for block in blocks)
        text = (
            f"{len(blocks)} × {'the same block' if same else type(blocks[0]).__name__}, "
            f"{count_parameters(*blocks):,} parameters"
        )
        self.ax.text(
            self.x + self.side * (_OUT + 0.62),
            (below + self.y) / 2,
            text,
            rotation=-90 * self.side,
            ha="center",
            va="center",
            fontsize=9,
            color=_INK,
        )
        return looks

    def join(self, places: list[float], apart: float) -> None:
        """Lead what an encoder gives to the sublayers of the other column that look at it."""
        way = self.x + apart / 2 - 0.35
        top = self.y + 0.35
        ends = [top, *places]
        line = dict(color=COLORS[1], linewidth=1.5, linestyle="-", zorder=2)
        self.ax.plot((self.x, self.x, way), (self.y, top, top), **line)
        self.ax.plot((way, way), (min(ends), max(ends)), **line)
        for y in places:
            _arrow(
                self.ax, (way, y), (self.x + apart - _WIDTH / 2, y), color=COLORS[1], linewidth=1.5
            )
        self.ax.text(
            (self.x + way) / 2 + 0.1,
            top + 0.1,
            "read by every decoder block",
            ha="center",
            va="bottom",
            fontsize=8,
            color=COLORS[1],
        )
        self.y = top + 0.4

    def end(self, text: str) -> None:
        self._climb(_GAP * 1.5)
        self.ax.text(
            self.x, self.y + 0.05, text, ha="center", va="bottom", fontsize=8.5, color=_INK
        )
        self.y += 0.35


def _arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    color: str = _STREAM,
    linewidth: float = 1.2,
) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=8,
            shrinkA=0,
            shrinkB=0,
            color=color,
            linewidth=linewidth,
            zorder=2,
        )
    )


def _stream_width(layer: nn.Module) -> int | None:
    return next(
        (
            module.d_model
            for module in layer.modules()
            if isinstance(getattr(module, "d_model", None), int)
        ),
        None,
    )


def _finish(ax: Axes, across: tuple[float, float], top: float) -> None:
    ax.set(xlim=across, ylim=(-0.4, top))
    ax.set_aspect("equal")
    ax.axis("off")
    if len(ax.figure.axes) == 1:  # text has a size in points: so has a unit, about
        ax.figure.set_size_inches(
            _INCH * (across[1] - across[0]), _INCH * (top + 0.4) + (0.3 if ax.get_title() else 0.1)
        )
