"""Draws the small pictures on the front page, one for each chapter, and the picture that a link to
the book shows elsewhere.

    python tools/pictures/cards.py     writes _vendor/book/cards/*.svg and _vendor/book/social.png

The numbers are those of the book: what the notebooks have stored in their figures to touch, the
recorded weights of a network, the phrase of the front page, or a few lines of attnbook. A card has
no letters, the colours of the figures to touch, and takes the rest from the page that it stands on,
so that it can be read on a light and on a dark one."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import nbformat  # noqa: E402
import torch  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.patches import ConnectionPatch  # noqa: E402

from attnbook import AdditiveScore, DotScore, Score, attend  # noqa: E402
from attnbook.mechanisms import PictureAttention  # noqa: E402
from attnbook.tasks.images.far_parts import far_parts  # noqa: E402
from attnbook.tasks.translation.dictated import check_digit  # noqa: E402
from attnbook_runs.images.gan import load_pair  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "_vendor" / "book"
WIDTH, HEIGHT, EDGE = 240, 150, 6
BLUE, ORANGE = "#2b83c6", "#d9622b"  # those of the figures to touch
INK = "currentColor"


def main() -> None:
    (BOOK / "cards").mkdir(exist_ok=True)
    for name, svg in cards().items():
        (BOOK / "cards" / f"{name}.svg").write_text(svg, encoding="utf-8")
    social(BOOK / "social.png")


def cards() -> dict[str, str]:
    """Chapter → its picture, as SVG."""
    drawn = [
        _nearness, _greedy_trap, _alignment, _landscapes, _heads_on_a_memory, _tour, _four_heads,
        _looking_back, _far_parts, _tiles, _keypad,
    ]  # fmt: skip
    names = sorted(p.name for p in (ROOT / "chapters").glob("[0-9]*") if p.is_dir())
    return {name: _svg(draw()) for name, draw in zip(names, drawn, strict=True)}


def _nearness() -> Iterable[str]:
    """Forty temperatures of a day, the average by nearness, and who has a say at ten o'clock."""
    g = torch.Generator().manual_seed(0)
    hours = (24 * torch.rand(40, generator=g)).sort().values
    slow, fast = torch.pi * (hours - 9) / 12, torch.pi * (hours - 2) / 4
    notes = 14 + 6 * slow.sin() + 2 * fast.sin() + torch.randn(40, generator=g)
    day = torch.linspace(0, 24, 97)
    asked = torch.cat([day, torch.tensor([10.0])])[:, None]
    found = attend(_Near(), asked, hours[:, None], notes[:, None], need_weights=True)
    assert found.weights is not None  # they were asked for
    low, high = notes.min(), notes.max()
    x = lambda hour: 10 + 220 * float(hour) / 24  # noqa: E731
    y = lambda value: 138 - 126 * float((value - low) / (high - low))  # noqa: E731
    yield _line([(x(10), 8), (x(10), 144)], INK, 1.5, 0.45, dashes=True)
    curve = [(x(h), y(v)) for h, v in zip(day, found.context[:-1, 0])]
    yield _line(curve, BLUE, 3)
    for hour, value, weight in zip(hours, notes, found.weights[-1]):
        near = float(weight) > 0.02
        radius = 2.6 + (5.5 * math.sqrt(float(weight) / 0.2) if near else 0)
        yield _dot(x(hour), y(value), radius, ORANGE if near else INK, 0.9 if near else 0.5)


class _Near(Score):
    """Minus half the squared distance, as in the first section."""

    def compare(self, query, projected):
        return -((query[..., :, None, 0] - projected[..., None, :, 0]) ** 2) / 2


def _greedy_trap() -> Iterable[str]:
    """What the small decoder of the second section can say; a line is as wide as it is likely."""
    table = _defined("01_seq2seq/decoding", "TABLE")
    ends = {
        ("l'", "arbre"): 118, ("le", "grand", "arbre"): 16, ("le", "jeune", "arbre"): 48,
        ("le", "petit", "arbre"): 80, ("un", "arbre"): 140,
    }  # fmt: skip
    best, greedy = ("l'", "arbre"), ("le", "grand", "arbre")

    def height(prefix: tuple[str, ...]) -> float:
        below = [y for end, y in ends.items() if end[: len(prefix)] == prefix]
        return sum(below) / len(below) if prefix else 75

    prefixes = sorted({end[:k] for end in ends for k in range(1, len(end) + 1)})
    for prefix in prefixes:
        p = math.prod(table[prefix[:k]][prefix[k]] for k in range(len(prefix)))
        at, before = [(14 + 71 * len(w), height(w)) for w in (prefix, prefix[:-1])]
        on = [path[: len(prefix)] == prefix for path in (greedy, best)]
        hue = ORANGE if on[0] else BLUE if on[1] else INK
        yield _line([before, at], hue, 1.5 + 16 * p, 1 if any(on) else 0.4)
    for prefix in [(), *prefixes]:
        hue = ORANGE if prefix == greedy else BLUE if prefix == best else INK
        yield _dot(14 + 71 * len(prefix), height(prefix), 8 if hue != INK else 5, hue)


def _alignment() -> Iterable[str]:
    """The weights of the phrase on the front page."""
    shown = json.loads((BOOK / "front.json").read_text(encoding="utf-8"))
    yield _cells(shown["weights"], 6, 6, 228, 138)
    yield _frame(6, 6, 228, 138)


def _landscapes() -> Iterable[str]:
    """Which keys of a plane score high for one query, and which low, by two scores."""
    additive = AdditiveScore(2, 2)
    with torch.no_grad():
        for layer in (additive.query_projection, additive.key_projection):
            layer.weight.copy_(torch.eye(2))
        additive.vector.weight.fill_(1.0)
        x, y = torch.linspace(-3.75, 3.75, 16), torch.linspace(4.75, -4.75, 20)
        plane = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)
        for left, score in ((6, DotScore()), (124, additive)):
            e = score(torch.tensor([[2.0, 1.0]]), plane.reshape(-1, 2)).view(20, 16)
            yield _cells((e.clamp_min(0) / e.max()).tolist(), left, 6, 110, 138)
            yield _cells((e.clamp_max(0) / e.min()).tolist(), left, 6, 110, 138, hue=ORANGE)
            yield _frame(left, 6, 110, 138)
            tip = left + 55 + 2 * 110 / 8, 75 - 138 / 10
            yield _line([(left + 55, 75), tip], INK, 3)
            yield _dot(*tip, 6, INK)


def _heads_on_a_memory() -> Iterable[str]:
    """Where the heads of a machine are while it copies ten vectors: write, then read."""
    weights = torch.tensor(_touched("04_neural_turing_machines/copying", "machine")["weights"])
    read, write = weights[:, 0].T.tolist(), weights[:, 1].T.tolist()
    yield _cells(write, 6, 6, 228, 138)
    yield _cells(read, 6, 6, 228, 138, hue=ORANGE)
    yield _line([(6 + 10.5 * 228 / 21, 6), (6 + 10.5 * 228 / 21, 144)], INK, 1.5, 0.5, dashes=True)
    yield _frame(6, 6, 228, 138)


def _tour() -> Iterable[str]:
    """The tour of a network through ten cities, over the shortest one."""
    shown = _touched("05_pointer_networks/tours", "tour")
    points = torch.tensor(shown["points"])
    low, high = points.min(0).values, points.max(0).values
    xy = [(18 + 204 * float(a), 134 - 118 * float(b)) for a, b in (points - low) / (high - low)]
    ring = lambda order: [xy[k] for k in [*order, order[0]]]  # noqa: E731
    yield _line(ring(shown["best"]), INK, 11, 0.25)
    yield _line(ring(shown["walk"]), ORANGE, 3)
    for k, (x, y) in enumerate(xy):
        yield _dot(x, y, 9 if k == shown["walk"][0] else 6, BLUE)


def _four_heads() -> Iterable[str]:
    """Four heads of a decoder on one sentence: none sees what comes later."""
    shown = _touched("06_transformer/reading_heads", "heads")
    (part,) = [p for p in shown["parts"] if p["name"].startswith("decoder, over the target")]
    for k, weights in enumerate(part["weights"][0]):
        left, top = 6 + 118 * (k % 2), 4 + 73 * (k // 2)
        yield _cells([[w / 1000 for w in row] for row in weights], left, top, 110, 69)
        yield _frame(left, top, 110, 69)


def _looking_back() -> Iterable[str]:
    """What four convolutions with gaps of 1, 2, 4 and 8 see, and one look back beyond them."""
    xs = [12 + 216 * k / 23 for k in range(24)]
    ys = [140 - 27 * level for level in range(5)]
    seen = {4: {23}}
    for level in (4, 3, 2, 1):
        gap = 2 ** (level - 1)
        seen[level - 1] = seen[level] | {k - gap for k in seen[level]}
        for k in sorted(seen[level]):
            for before in (k, k - gap):
                yield _line([(xs[k], ys[level]), (xs[before], ys[level - 1])], BLUE, 2.2)
    for level, y in enumerate(ys):
        for k, x in enumerate(xs):
            mine = k in seen[level]
            yield _dot(x, y, 4 if mine else 2.5, BLUE if mine else INK, 1 if mine else 0.4)
    far = f"M{xs[23]:.1f} {ys[4]:.1f}C{xs[15]:.1f} -16 {xs[2]:.1f} 0 {xs[2]:.1f} {ys[0]:.1f}"
    yield _path(far, ORANGE, 3)
    yield _dot(xs[2], ys[0], 6, ORANGE)
    yield _dot(xs[23], ys[4], 6, BLUE)


def _far_parts() -> Iterable[str]:
    """A picture with two parts, and what the place at the left part attends to."""
    watched = far_parts(500, seed=5).data
    pictures, labels = watched.pictures[3:4], watched.labels[3:4]
    network = load_pair("far-parts-attention").discriminator
    (layer,) = [part for part in network.modules() if isinstance(part, PictureAttention)]
    given: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    with torch.no_grad():
        network(pictures.float() / 127.5 - 1, labels)
        found = layer.attended(given[0]).weights
    assert found is not None  # they were asked for
    weights = found[0]
    hook.remove()
    hue = (pictures[0].amax(0).int() - pictures[0].amin(0) > 60).float()
    row = int(hue.view(8, 4, 8, 4).mean((1, 3))[:, :2].amax(1).argmax())
    share = weights[8 * row].view(8, 8)
    yield _cells(hue.tolist(), 6, 20, 110, 110)
    yield _frame(6, 20, 110, 110)
    yield _cells((0.18 * hue).tolist(), 124, 20, 110, 110, hue=INK)
    yield _cells((share / share.max()).tolist(), 124, 20, 110, 110)
    yield _frame(124, 20, 110, 110)
    for left in (6, 124):
        yield _frame(left, 20 + 13.75 * row, 13.75, 13.75, ORANGE, 3, 1)


def _tiles() -> Iterable[str]:
    """A causal matrix in tiles, in the order in which they are visited; one is in hand."""
    across, down = 228 / 6, 138 / 6
    order = [(i, j) for i in range(6) for j in range(i + 1)]
    now = order.index((4, 2))
    for step, (i, j) in enumerate(order):
        hue, opacity = (BLUE, 0.2 + 0.7 * step / now) if step < now else (INK, 0.14)
        if step == now:
            hue, opacity = ORANGE, 1
        yield (
            f'<rect x="{6 + across * j + 1.5:.1f}" y="{6 + down * i + 1.5:.1f}" rx="3" '
            f'width="{across - 3:.1f}" height="{down - 3:.1f}" fill="{hue}" '
            f'opacity="{opacity:.2f}"/>'
        )
    yield _frame(6, 6, 228, 138)


def _keypad() -> Iterable[str]:
    """The keys of a telephone, and the way over them of a number to its check digit."""
    rows = enumerate(("123", "456", "789", "*0#"))
    keys = {key: (20 + 100 * x, 18 + 38 * y) for y, row in rows for x, key in enumerate(row)}
    number = "1578" + check_digit("1578")
    yield _line([keys[key] for key in number], ORANGE, 3)
    for key, at in keys.items():
        hue = ORANGE if key == number[-1] else BLUE if key in number else INK
        yield _dot(*at, 10 if hue == INK else 14, hue, 0.4 if hue == INK else 1)


def _svg(parts: Iterable[str]) -> str:
    inside = "\n".join(part for part in parts if part)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'fill="none" aria-hidden="true">\n{inside}\n</svg>\n'
    )


def _cells(
    weights: Sequence[Sequence[float]], x: float, y: float, width: float, height: float,
    hue: str = BLUE,
) -> str:  # fmt: skip
    """A matrix, darker = more weight: eight steps of its root, and nothing below a twentieth."""
    down, across = height / len(weights), width / len(weights[0])
    paths = defaultdict(list)
    for i, row in enumerate(weights):
        for j, weight in enumerate(row):
            if weight > 0.05:
                level = round(8 * math.sqrt(weight))
                corner = f"M{x + across * j:.1f} {y + down * i:.1f}"
                paths[level].append(f"{corner}h{across:.1f}v{down:.1f}h-{across:.1f}z")
    return "\n".join(
        f'<path shape-rendering="crispEdges" fill="{hue}" opacity="{level / 8:g}" '
        f'd="{"".join(cells)}"/>'
        for level, cells in sorted(paths.items())
    )


def _frame(
    x: float, y: float, width: float, height: float, hue: str = INK, stroke: float = 1.5,
    opacity: float = 0.4,
) -> str:  # fmt: skip
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'stroke="{hue}" stroke-width="{stroke:g}" opacity="{opacity:g}"/>'
    )


def _line(points: Sequence[tuple[float, float]], hue: str, width: float, opacity: float = 1.0,
          dashes: bool = False) -> str:  # fmt: skip
    d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return _path(d, hue, width, opacity, dashes)


def _path(d: str, hue: str, width: float, opacity: float = 1.0, dashes: bool = False) -> str:
    dashed = ' stroke-dasharray="5 5"' if dashes else ""
    return (
        f'<path d="{d}" stroke="{hue}" stroke-width="{width:.1f}" stroke-linecap="round" '
        f'stroke-linejoin="round" opacity="{opacity:g}"'
        f"{dashed}/>"
    )


def _dot(x: float, y: float, radius: float, hue: str, opacity: float = 1.0) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{hue}" opacity="{opacity:g}"/>'
    )


def _touched(section: str, kind: str) -> dict:
    """The numbers behind the first figure to touch of this kind, as the notebook has stored it."""
    notebook = nbformat.read(ROOT / "chapters" / f"{section}.ipynb", as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown = output.get("data", {}).get("text/html", "")
            if f'data-attnbook-figure="{kind}"' in shown:
                found = re.search(r"^const data = (.*);$", shown, re.MULTILINE)
                assert found, f"{section}: the figure of kind {kind} holds no data"
                return json.loads(found[1])
    raise ValueError(f"{section} must have a figure to touch of the kind {kind!r}, got none")


def _defined(section: str, name: str):
    """What a name stands for at the first cell of a section that defines it by a literal."""
    notebook = nbformat.read(ROOT / "chapters" / f"{section}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code" and f"\n{name} = " in f"\n{cell.source}":
            space: dict = {}
            exec(cell.source, space)
            return space[name]
    raise ValueError(f"{section} must define {name}, got no cell that does")


def social(path: Path) -> None:
    """The title, what the book is, and the phrase of the front page with its weights."""
    shown = json.loads((BOOK / "front.json").read_text(encoding="utf-8"))
    source, target, weights = shown["source"], shown["target"], shown["weights"]
    fig = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="#fbfbf8")
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 1200), ylim=(630, 0))
    ax.axis("off")
    text: dict[str, Any] = dict(color="#1c2733", family="DejaVu Sans")
    ax.text(600, 112, "Attention, Cell by Cell", fontsize=50, weight="bold", ha="center", **text)
    said = "A book about attention that runs"
    ax.text(600, 182, said, fontsize=18.5, ha="center", **text)
    places = []
    for words, y in ((source, 304), (target, 538)):
        drawn = [ax.text(0, y, w, fontsize=17, ha="center", **text) for w in words]
        fig.canvas.draw()
        widths = [word.get_window_extent().width for word in drawn]
        gap = (1080 - sum(widths)) / (len(words) - 1)
        lefts = [60 + sum(widths[:k]) + gap * k for k in range(len(words))]
        places.append([left + wide / 2 for left, wide in zip(lefts, widths)])
        for word, x in zip(drawn, places[-1]):
            word.set_x(x)
    for t, row in enumerate(weights):
        for s, weight in enumerate(row):
            if weight > 0.04:
                ax.add_patch(ConnectionPatch(
                    (places[1][t], 510), (places[0][s], 318), "data", linewidth=1 + 7 * weight,
                    color=BLUE, alpha=0.15 + 0.75 * weight, capstyle="round",
                ))  # fmt: skip
    fig.savefig(path, metadata={"Software": None})
    plt.close(fig)


if __name__ == "__main__":
    main()
