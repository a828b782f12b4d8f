"""The map of the book, drawn from data/map.csv: who took what from whom.

Time runs down the page. Where there is room, each stream of ideas is a column of boxes; on a phone
the streams are coloured lines beside a list. Both are SVG that takes its colours from the page
(rules ``.book-map`` of the style sheet), and each name is a link to its section.
"""

from __future__ import annotations

import csv
import html
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from pybtex.database import Entry, parse_file

STREAMS = {
    "memory": "recurrence and memory",
    "source": "attention to a source",
    "self": "self-attention",
    "positions": "positions",
    "cost": "cost",
    "pictures": "convolutions and pictures",
}


class Idea(NamedTuple):
    id: str
    year: str
    label: str
    stream: int
    took: tuple[str, ...]
    authors: str
    href: str


def ideas(root: Path) -> list[Idea]:
    """The rows of the file, in order."""
    entries = parse_file(str(root / "references.bib")).entries
    with (root / "data" / "map.csv").open(encoding="utf-8") as file:
        return [
            Idea(
                row["id"], row["year"], row["label"], list(STREAMS).index(row["stream"]),
                tuple(row["took"].split()), _authors(entries[row["cite"]]),
                f"../chapters/{row['section']}.html",
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def _authors(entry: Entry) -> str:
    """As they stand in a narrow box."""
    people = (entry.persons or {})["author"]
    names = [" ".join([*p.prelast_names, *p.last_names]).strip("{}") for p in people]
    both = " & ".join(names)
    return both if len(names) == 1 or (len(names) == 2 and len(both) < 19) else f"{names[0]} et al."


def columns(ideas: list[Idea]) -> str:
    """A column of boxes for each stream, a row or more for each year."""
    left, wide, tall, across, down, top = 46, 120, 54, 137, 76, 46
    rows = _rows(ideas)
    width, height = left + 6 * across, top + down * (1 + max(rows.values()))
    at = {one.id: (left + across * one.stream, top + down * rows[one.id]) for one in ideas}
    parts = []
    for k, name in enumerate(STREAMS.values()):
        for i, line in enumerate(textwrap.wrap(name, 16)):
            parts.append(_text("stream", left + across * k + wide / 2, 14 + 15 * i, line))
    for year in dict.fromkeys(one.year for one in ideas):
        y = top + down * min(rows[one.id] for one in ideas if one.year == year) - 11
        parts.append(f'<line class="year" x1="0" x2="{width}" y1="{y}" y2="{y}"/>')
        parts.append(_text("year", 0, y + 18, year))
    around: dict[int, list[str]] = defaultdict(list)  # whose arrows go around boxes, by stream
    for source, one in _taken(ideas):
        (sx, sy), (x, y) = at[source.id], at[one.id]
        if one.stream != source.stream:
            side = 1 if x > sx else -1
            far = abs(one.stream - source.stream) > 1
            begin = sx + wide * (0.5 + (0.26 if far else 0.12) * side), sy + tall
            down_to = begin[0], begin[1] + max(6, (y - begin[1]) / 2)
            if far:  # over the boxes between, through the gap above them
                end, turn = (x + wide * (0.5 - 0.3 * side), y), y - 12
                near = end[0] - 0.6 * abs(end[0] - begin[0]) * side, turn
                path = _curve(begin, down_to, near, (end[0] - 8 * side, turn))
                path += f"Q{end[0]:g} {turn} {end[0]:g} {y}"
            else:  # into the near side
                end = (x if side > 0 else x + wide), y + 16
                path = _curve(begin, down_to, (end[0] - 42 * side, y + 10), end)
        elif any(o.stream == one.stream and sy < at[o.id][1] < y for o in ideas):
            if source.id not in around[one.stream]:
                around[one.stream].append(source.id)
            right = around[one.stream].index(source.id) % 2 == 0
            edge, out = (sx + wide, 11) if right else (sx, -11)
            path = f"M{edge} {sy + 38}h{out}V{y + 38}h{-out}"
        else:
            path = f"M{sx + wide / 2:g} {sy + tall}V{y}"
        parts.append(_arrow(path, source, one))
    for one in ideas:
        x, y = at[one.id]
        lines = textwrap.wrap(one.label, 14)
        assert len(lines) <= 2, f"the label of {one.id} must fit in two lines, got {one.label!r}"
        parts.append(_link(one, f'<rect x="{x}" y="{y}" width="{wide}" height="{tall}" rx="6"/>', *(
            _text("label", x + wide / 2, y + (17 if lines[1:] else 23) + 14 * i, line)
            for i, line in enumerate(lines)
        ), _text("authors", x + wide / 2, y + 47, one.authors)))  # fmt: skip
    return _svg("columns", width, height, parts)


def lines(ideas: list[Idea]) -> str:
    """A list in order of time; beside it a line for each stream, and who took what from whom."""
    left, across, down, top, width = 12, 17, 46, 24, 358
    at = {one.id: (left + across * one.stream, top + down * k) for k, one in enumerate(ideas)}
    text = left + across * len(STREAMS) + 4
    parts = []
    for source, one in _taken(ideas):
        (sx, sy), (x, y) = at[source.id], at[one.id]
        if any(o.stream == one.stream == source.stream and sy < at[o.id][1] < y for o in ideas):
            path = _curve((sx + 5, sy + 4), (sx + 15, sy + 30), (x + 15, y - 30), (x + 6, y - 3))
        elif sx == x:
            path = f"M{x} {sy + 7}V{y - 7}"
        else:
            side = 1 if x > sx else -1
            path = _curve((sx, sy + 6), (sx, y), (x - 16 * side, y - 12), (x - 6 * side, y - 3))
        parts.append(_arrow(path, source, one))
    for one in ideas:
        x, y = at[one.id]
        parts.append(_link(
            one,
            f'<rect class="whole" y="{y - down / 2:g}" width="{width}" height="{down}"/>',
            f'<circle cx="{x}" cy="{y}" r="6.5"/>',
            _text("label", text, y - 1, one.label),
            _text("authors", text, y + 15, f"{one.year} · {one.authors}"),
        ))  # fmt: skip
    key = "".join(
        f'<li class="stream-{k}"><span></span>{name}</li>'
        for k, name in enumerate(STREAMS.values())
    )
    drawn = _svg("lines", width, top + down * len(ideas), parts)
    return f'<ul class="map-key">{key}</ul>{drawn}'


def _rows(ideas: list[Idea]) -> dict[str, int]:
    """The row of each: below those of earlier years, below what it took, no two in one place."""
    rows: dict[str, int] = {}
    begin, year = 0, ideas[0].year
    for one in ideas:
        if one.year != year:
            begin, year = 1 + max(rows.values()), one.year
        taken = {rows[o.id] for o in ideas if o.id in rows and o.stream == one.stream}
        row = max([begin, *(1 + rows[source] for source in one.took)])
        while row in taken:
            row += 1
        rows[one.id] = row
    return rows


def _taken(ideas: list[Idea]) -> list[tuple[Idea, Idea]]:
    """What was taken, and what took it up."""
    named = {one.id: one for one in ideas}
    return [(named[source], one) for one in ideas for source in one.took]


def _curve(*points: tuple[float, float]) -> str:
    begin, *others = (f"{x:g} {y:g}" for x, y in points)
    return f"M{begin}C{' '.join(others)}"


def _arrow(path: str, source: Idea, one: Idea) -> str:
    return (
        f'<path class="took stream-{source.stream}" data-from="{source.id}" data-to="{one.id}" '
        f'marker-end="url(#tip-%KIND%-{source.stream})" d="{path}"/>'
    )


def _text(kind: str, x: float, y: float, words: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{html.escape(words)}</text>'


def _link(one: Idea, *inside: str) -> str:
    return (
        f'<a class="idea stream-{one.stream}" href="{one.href}" data-id="{one.id}">'
        f"{''.join(inside)}</a>"
    )


def _svg(kind: str, width: float, height: float, parts: list[str]) -> str:
    tips = "".join(
        f'<marker id="tip-{kind}-{k}" class="stream-{k}" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="tip" d="M0 0L8 4L0 8z"/></marker>'
        for k in range(len(STREAMS))
    )
    inside = "".join(parts).replace("%KIND%", kind)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="group" viewBox="0 0 '
        f'{width:g} {height:g}" aria-label="The map as a drawing; the table below tells the same">'
        f"<defs>{tips}</defs>{inside}</svg>"
    )
