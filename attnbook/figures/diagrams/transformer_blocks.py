"""Drawings of a Transformer from the live modules: one block, or a whole model."""

from dataclasses import replace
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch
from torch import nn

from ...validate import require
from ..canvas import arrow, axes_of, centred, figure_of, line
from ..styling import COLORS
from .module_outline import Part, Sublayer, count_parameters, describe, read_block

__all__ = ["draw_block", "draw_model"]

_WIDTH, _LINE, _PAD, _GAP, _ROUND = 4.2, 0.27, 0.18, 0.26, 0.19
_OUT = _WIDTH / 2 + 0.42  # distance of a residual connection from the stream
_INCH = 0.56  # inches per unit
_COLORS = {
    "attention": ("#dfeaf5", COLORS[0]),
    "cross": ("#f8e4d9", COLORS[1]),
    "feed": ("#e4efdd", COLORS[2]),
    "norm": ("#f3ecd2", COLORS[4]),
    "embedding": ("#ece2f3", COLORS[3]),
    "other": ("#ffffff", "#555555"),
    "dropout": ("#f1f1ee", "#999999"),
    "scale": ("#ffffff", "#555555"),
}
"""Kind of a box → its face and its edge."""

_INK, _RESIDUAL = "#222222", COLORS[5]


def draw_block(*layers: nn.Module) -> Figure:
    """Draw blocks side by side, bottom to top: sublayers, norms, dropout, residual connections.

    All of it is read off the modules: a box has name, class, widths and number of parameters; a
    residual connection is drawn where x is added to the branch; modules without effect
    (``nn.Identity``, dropout 0) are left out.

    Args:
        layers: Blocks with children ``NAME`` and ``around_NAME``, like ``EncoderLayer`` and
            ``DecoderLayer``.

    Source: the blocks of figure 1 of Vaswani et al. 2017.
    """
    require(len(layers) > 0, "layers must be at least one block, got none")
    blocks = [read_block(layer) for layer in layers]
    crosses = any(sublayer.part.kind == "cross" for block in blocks for sublayer in block)
    left, apart = (1.9 if crosses else 0.3), 2 * _OUT + (1.7 if crosses else 0.9)
    ax = axes_of(None)
    columns = [_Column(ax, k * apart, side=1) for k in range(len(layers))]
    for column, layer, block in zip(columns, layers, blocks):
        size = _stream_width(layer)
        column.caption(f"x, (n × {size})" if size else "x")
        for y in column.block(block):
            edge = column.x - _WIDTH / 2
            arrow(ax, (edge - 0.6, y), (edge, y), COLORS[1], mutation_scale=8, linewidth=1.2)
            centred(ax, edge - 0.66, y, "source", 8, ha="right", color=COLORS[1])
        column.end("to the next block")
    for column, layer in zip(columns, layers):
        residuals = (child for name, child in _children(layer) if name.startswith("around_"))
        names = f"{type(layer).__name__}, {type(next(residuals)).__name__}"
        text = f"{names}\n{count_parameters(layer):,} parameters"
        centred(ax, column.x, column.y + 0.2, text, 9.5, va="bottom", color=_INK)
    across = (-_WIDTH / 2 - left, columns[-1].x + _OUT + 0.4)
    return _finished(ax, across, max(column.y for column in columns) + 1.0)


def draw_model(model: nn.Module) -> Figure:
    """Draw a whole model from bottom to top: embeddings, stacks of blocks, and what makes logits.

    Read off the module like :func:`draw_block`. Stacks are the children with a ``ModuleList`` named
    ``layers``; equal blocks are drawn once. Of two stacks the first is the encoder, left, and the
    second has an arrow from it to every sublayer ``cross_attention``. Other children stand below or
    above the stacks in the order of their registration; those called ``source_…`` and ``target_…``
    belong to one of the columns.

    Args:
        model: Like ``Transformer`` (two stacks), ``TransformerLM`` or ``TransformerEncoderModel``
            (one).

    Source: figure 1 of Vaswani et al. 2017.
    """
    children = _children(model) if isinstance(model, nn.Module) else []
    stacks: list[tuple[str, Any]] = [
        (name, child)
        for name, child in children
        if isinstance(getattr(child, "layers", None), nn.ModuleList)
    ]
    require(
        len(stacks) in (1, 2),
        "model must have one or two stacks (children with a ModuleList named layers), got "
        f"{len(stacks)} in {type(model).__name__}",
    )
    order = [name for name, _ in children]
    first, last = order.index(stacks[0][0]), order.index(stacks[-1][0])
    two, apart, ax = len(stacks) == 2, 2 * _OUT + 1.9, axes_of(None)
    columns: list[_Column] = []
    crossings, drawn = [], {}
    captions = ["source tokens, (n)", "target tokens so far, (m)"] if two else ["tokens, (n)"]
    for k, (caption, (name, stack)) in enumerate(zip(captions, stacks)):
        column = _Column(ax, k * apart, side=-1 if two and k == 0 else 1)
        column.caption(caption)
        for below, child in children[:first]:
            if not (two and below.startswith(("target_", "source_")[k])):
                column.child(child, below, drawn)
        for _, group in groupby(stack.layers, key=read_block):
            crossings += column.repeated(list(group))
        for inner, child in _children(stack):
            if inner != "layers":
                column.child(child, f"{inner} of the {name}", drawn)
        columns.append(column)
    if two:
        columns[0].join(crossings, apart)
    for name, child in children[last + 1 :]:
        columns[-1].child(child, name, drawn)
    columns[-1].end("logits")
    ax.set_title(f"{type(model).__name__}: {count_parameters(model):,} parameters", fontsize=10.5)
    across = (-_OUT - 0.95, (len(stacks) - 1) * apart + _OUT + 0.95)
    return _finished(ax, across, max(column.y for column in columns))


class _Column:
    """A stream drawn upwards; ``side`` is that of its residual connections, 1 right, −1 left."""

    def __init__(self, ax: Axes, x: float, side: int) -> None:
        self.ax, self.x, self.side, self.y = ax, x, side, 0.0

    def caption(self, text: str) -> None:
        centred(self.ax, self.x, self.y, text, 8.5, va="top", color=_INK)
        self.y += 0.06

    def _climb(self, height: float = _GAP) -> None:
        ends = (self.x, self.y), (self.x, self.y + height)
        arrow(self.ax, *ends, mutation_scale=8, linewidth=1.2)
        self.y += height

    def box(self, part: Part) -> float:
        """Draw a box and the arrow into it; the height of its centre."""
        self._climb()
        lines, (face, edge) = part.lines, _COLORS[part.kind]
        thin, height = len(lines) == 1, len(lines) * _LINE + _PAD
        middle = self.y + height / 2
        width = _WIDTH * (0.42 if part.kind in ("dropout", "scale") else 1)
        style = dict(facecolor=face, edgecolor=edge, linewidth=1.3, zorder=3)
        self._rounded(self.x - width / 2, self.y, width, height, 0.09, **style)
        for k, text in enumerate(lines):
            y = middle + ((len(lines) - 1) / 2 - k) * _LINE
            color = _INK if thin or not k else "#444444"
            weight = "bold" if not thin and not k else "normal"
            style = dict(va="center_baseline", zorder=4, color=color, weight=weight)
            centred(self.ax, self.x, y, text, 7.6 if thin or k else 9, **style)
        self.y += height
        return middle

    def _rounded(
        self, x: float, y: float, width: float, height: float, radius: float, **style: Any
    ) -> None:
        shape = f"round,pad=0,rounding_size={radius}"
        self.ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, **style))

    def block(self, sublayers: tuple[Sublayer, ...]) -> list[float]:
        """Draw all sublayers; the heights of those with attention over a source."""
        crossings = []
        for sublayer in sublayers:
            start = self.y + _GAP / 2
            if sublayer.join != "none":
                self._climb(_GAP * 0.6)
                start = self.y
            for part in sublayer.before:
                self.box(part)
            height = self.box(sublayer.part)
            crossings += [height] if sublayer.part.kind == "cross" else []
            for part in sublayer.behind:
                self.box(part)
            if sublayer.join == "sum":
                self._sum(start)
            for k, part in enumerate(sublayer.after):
                height = self.box(part)
                if sublayer.join == "other" and k == 0:
                    self._residual(start, height, _WIDTH / 2)
        return crossings

    def _sum(self, start: float) -> None:
        self._climb()
        x, y = self.x, self.y + _ROUND
        style = dict(facecolor="#ffffff", edgecolor=_INK, linewidth=1.3, zorder=3)
        self.ax.add_patch(Circle((x, y), _ROUND, **style))
        for dx, dy in ((0.11, 0), (0, 0.11)):
            line(self.ax, ((x - dx, x + dx), (y - dy, y + dy)), _INK, 1.3, zorder=4)
        self._residual(start, y, _ROUND)
        self.y = y + _ROUND

    def _residual(self, start: float, end: float, near: float) -> None:
        out = self.x + self.side * _OUT
        style = dict(zorder=2, solid_joinstyle="round")
        line(self.ax, ((self.x, out, out), (start, start, end)), _RESIDUAL, 1.5, **style)
        ends = (out, end), (self.x + self.side * near, end)
        arrow(self.ax, *ends, _RESIDUAL, mutation_scale=8, linewidth=1.5)
        x, y = out + self.side * 0.18, (start + end) / 2
        centred(self.ax, x, y, "residual", 7.6, rotation=-90 * self.side, color=_RESIDUAL)

    def child(self, module: nn.Module, name: str, drawn: dict[int, str]) -> None:
        """Draw a module beside the stacks; a matrix that is drawn already is only named."""
        if type(module) is nn.Identity or getattr(module, "p", None) == 0:
            return
        part, words = describe(module, name), name.replace("_", " ")
        weight = getattr(module, "weight", None)
        first = words if weight is None else drawn.setdefault(id(weight), words)
        if part.kind == "norm":
            part = replace(part, role="", detail="")
        elif first != words:
            part = replace(part, shared=f"the matrix of the {first}")
        self.box(part)

    def repeated(self, blocks: list[nn.Module]) -> list[float]:
        """Draw a block in a frame, with the number of blocks like it."""
        bottom = self.y
        self.y += 0.12
        crossings = self.block(read_block(blocks[0]))
        self._climb(_GAP * 0.8)
        left = _OUT + 0.42 if self.side < 0 else _WIDTH / 2 + 0.2
        width, height = _OUT + 0.42 + _WIDTH / 2 + 0.2, self.y - bottom - 0.16
        style = dict(facecolor="#f3f3ef", edgecolor="#bbbbbb", linewidth=1.1, zorder=0)
        self._rounded(self.x - left, bottom + 0.1, width, height, 0.2, **style)
        same = len(blocks) > 1 and all(block is blocks[0] for block in blocks)
        what = "the same block" if same else type(blocks[0]).__name__
        text = f"{len(blocks)} × {what}, {count_parameters(*blocks):,} parameters"
        x, y = self.x + self.side * (_OUT + 0.62), (bottom + self.y) / 2
        centred(self.ax, x, y, text, 9, rotation=-90 * self.side, color=_INK)
        return crossings

    def join(self, heights: list[float], apart: float) -> None:
        """Connect an encoder's output with the sublayers of the other column that read it."""
        x, top, color = self.x + apart / 2 - 0.35, self.y + 0.35, COLORS[1]
        ends = [top, *heights]
        line(self.ax, ((self.x, self.x, x), (self.y, top, top)), color, 1.5, zorder=2)
        line(self.ax, ((x, x), (min(ends), max(ends))), color, 1.5, zorder=2)
        for y in heights:
            box = (self.x + apart - _WIDTH / 2, y)
            arrow(self.ax, (x, y), box, color, mutation_scale=8, linewidth=1.5)
        text, middle = "read by every decoder block", (self.x + x) / 2 + 0.1
        centred(self.ax, middle, top + 0.1, text, 8, va="bottom", color=color)
        self.y = top + 0.4

    def end(self, text: str) -> None:
        self._climb(_GAP * 1.5)
        centred(self.ax, self.x, self.y + 0.05, text, 8.5, va="bottom", color=_INK)
        self.y += 0.35


def _children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """The children by name; unlike in ``named_children`` a shared one comes under each name."""
    return [(name, child) for name, child in module._modules.items() if child is not None]


def _stream_width(layer: nn.Module) -> int | None:
    widths = (getattr(module, "d_model", None) for module in layer.modules())
    return next((width for width in widths if isinstance(width, int)), None)


def _finished(ax: Axes, across: tuple[float, float], top: float) -> Figure:
    ax.set(xlim=across, ylim=(-0.4, top))
    ax.set_aspect("equal")
    ax.axis("off")
    figure = figure_of(ax)
    # text has a size in points, so a unit has about the same in every drawing
    extra = 0.3 if ax.get_title() else 0.1
    figure.set_size_inches(_INCH * (across[1] - across[0]), _INCH * (top + 0.4) + extra)
    return figure
