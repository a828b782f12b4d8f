"""Writes appendix/what_held.md, and the claims of each chapter's summary.md, from data/claims.yaml
and results/, after checking every row.

    python tools/make_claims.py            write the pages
    python tools/make_claims.py --check    only say what is wrong

A row of data/claims.yaml:

    id        kebab case; a section links to its row, as ../../appendix/what_held.md#claim-ID, with
              a text that holds the verdict
    claim     one plain sentence;  cite: keys of references.bib, separated by spaces, or nothing
    section   where it is measured, such as 03_attention_family/scores
    ours      our figures;  paper: the paper's;  size: of our runs against the paper's
    verdict   holds, holds in part, does not hold at this size, or not decided
    because   comparisons that the records must bear out as long as the verdict stands
    decides   for all but "holds": the run that would decide

In `ours` and `size` a figure is {NAME: PATH} or {NAME: PATH | FORMAT}, a format of Python such as
.1f or .0%; with "max" after it only the largest is shown. PATH leads through the figures of the
record of the experiment NAME (or its settings), as in rows/model=full & sentences=32/loss:
a key, a place in a list (-1 is the last), or what the one entry of a list must have; * takes all,
or with conditions after it all that meet them. "PATH minus PATH" and "PATH plus PATH" are of one
record. A figure of several seeds is shown as mean (least–largest).
A comparison is "X < Y", "X > Y" or "X overlaps Y", where each side is a number or NAME: PATH; it
has to be true of every seed on the one side with every seed on the other.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import mean

import yaml

from attnbook.files import write_atomically
from bookbuild.pages import CLAIMS

ROOT = Path(__file__).resolve().parent.parent
VERDICTS = {
    "holds": "every seed bears it out, and we know of no better run that would overturn it",
    "holds in part": "part of the claim holds, or all of it under a condition that the row names",
    "does not hold at this size": "our runs speak against it; what larger ones would show is open",
    "not decided": "our runs are too short, too few or set up differently",
}
NEEDED = ("id", "claim", "section", "ours", "paper", "size", "verdict")
FIELDS = (*NEEDED, "cite", "because", "decides")
_FIGURE = re.compile(r"\{([^{}|]+)(?:\|([^{}|]*))?\}")
_COMMAND = re.compile(r"`attnbook reproduce ([\w.-]+)`")


class ClaimError(ValueError):
    """A row of the claims does not agree with what it names."""


@cache
def records(name: str, root: Path = ROOT) -> tuple[dict, ...]:
    """Settings and figures of every recorded seed of an experiment, in the order of the seeds."""
    found = []
    for path in (root / "results").glob(f"{name}.seed*.json"):
        if seed := re.fullmatch(re.escape(name) + r"\.seed(\d+)\.json", path.name):
            record = json.loads(path.read_text(encoding="utf-8"))
            found.append((int(seed[1]), {**record["settings"], **record["figures"]}))
    if not found:
        raise ClaimError(f"results/ has no record of {name!r}")
    return tuple(record for _, record in sorted(found, key=lambda one: one[0]))


def look_up(record: dict, path: str) -> list[float]:
    """The numbers at a path of a record."""
    found: list = [record]
    for step in map(str.strip, path.split("/")):
        found = [one for node in found for one in _step(node, step, path)]
    if wrong := [one for one in found if not isinstance(one, int | float)]:
        raise ClaimError(f"{path!r} leads to {str(wrong[0])[:60]}, not to a number")
    return found


def _step(node, step: str, path: str) -> list:
    if isinstance(node, dict):
        if step not in node and step != "*":
            raise ClaimError(f"{path!r}: {step!r} is not among {', '.join(map(str, node))}")
        return list(node.values()) if step == "*" else [node[step]]
    if not isinstance(node, list):
        raise ClaimError(f"{path!r}: nothing lies below {node!r}")
    if step == "*":
        return node
    if re.fullmatch(r"-?\d+", step):
        if not -len(node) <= int(step) < len(node):
            raise ClaimError(f"{path!r}: the list has {len(node)} entries")
        return [node[int(step)]]
    wanted = [part.partition("=") for part in step.removeprefix("*").split("&")]
    found = [
        one
        for one in node
        if isinstance(one, dict)
        and all(str(one.get(key.strip())) == value.strip() for key, _, value in wanted)
    ]
    if not found or len(found) > 1 and not step.startswith("*"):
        raise ClaimError(f"{path!r}: {len(found)} entries have {step!r}")
    return found


def values(expression: str, root: Path = ROOT) -> list[float]:
    """The numbers of all seeds that "NAME: PATH", or a sum or difference of paths, stands for."""
    name, colon, path = expression.partition(":")
    if not colon:
        raise ClaimError(f"a figure begins with the name of an experiment, got {expression!r}")
    first, *rest = re.split(r" (plus|minus) ", path)
    found = []
    for record in records(name.strip(), root):
        total = look_up(record, first)
        for sign, other in zip(rest[::2], rest[1::2]):
            terms = look_up(record, other)
            factor = 1 if sign == "plus" else -1
            total = [a + factor * b for a, b in zip(total, terms, strict=True)]
        found += total
    return found


def fill(text: str, root: Path = ROOT) -> str:
    """A template with its figures."""

    def figure(found: re.Match) -> str:
        numbers, (form, _, rest) = values(found[1], root), (found[2] or ",").strip().partition(" ")
        shown = [format(n, form) for n in (mean(numbers), min(numbers), max(numbers))]
        middle, least, largest = (n.replace("-", "−") for n in shown)
        if rest == "max" or least == largest:
            return largest
        return f"{middle} ({least.removesuffix('%')}–{largest})"

    made = _FIGURE.sub(figure, text)
    if "{" in made:
        raise ClaimError(f"a figure is {{NAME: PATH | FORMAT}}, got {text!r}")
    return made


def bears_out(comparison: str, root: Path = ROOT) -> bool:
    """Whether the records say so, every seed of them."""
    match re.split(r" (<|>|overlaps) ", comparison):
        case [left, sign, right]:
            a, b = (
                [float(side)] if re.fullmatch(r"\s*-?[\d.]+\s*", side) else values(side, root)
                for side in (left, right)
            )
        case _:
            raise ClaimError(f"a comparison has one of <, >, overlaps, got {comparison!r}")
    if sign == "overlaps":
        return min(a) <= max(b) and min(b) <= max(a)
    return max(a) < min(b) if sign == "<" else min(a) > max(b)


def names(row: dict) -> list[str]:
    """The experiments whose records the row is made from."""
    text = " ".join([row["ours"], *(f"{{{one}|}}" for one in row.get("because", []))])
    found = re.findall(r"(?:\{|[<>] |overlaps )([a-z0-9][\w.-]*):", text)
    return list(dict.fromkeys(found))


def problems(rows: list[dict], registered: set[str], root: Path = ROOT) -> list[str]:
    """What is wrong with the rows, one line a fault, which names the row."""
    papers = set(re.findall(r"^@\w+\{([^,]+),", (root / "references.bib").read_text("utf-8"), re.M))
    found = [f"{i}: listed twice" for i, n in Counter(r.get("id") for r in rows).items() if n > 1]
    for row in rows:
        faults = [f"has no {field}" for field in NEEDED if not row.get(field)]
        faults += [f"has a field {field!r}" for field in row if field not in FIELDS]
        if not faults:
            faults = _faults(row, registered, papers, root)
        found += [f"{row.get('id')}: {fault}" for fault in faults]
    return found


def _faults(row, registered, papers, root):
    faults = []
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row["id"]):
        faults.append("the id is not in kebab case")
    faults += [
        f"references.bib has no {k!r}" for k in row.get("cite", "").split() if k not in papers
    ]
    if not (root / "sources" / f"{row['section']}.md").is_file():
        faults.append(f"there is no section {row['section']!r}")
    if row["verdict"] not in VERDICTS:
        faults.append(f"verdict is {row['verdict']!r}, expected one of {list(VERDICTS)}")
    elif (row["verdict"] == "holds") == bool(row.get("decides")):
        faults.append("only a verdict other than 'holds' says, and has to say, what decides")
    commands = _COMMAND.findall(row.get("decides", ""))
    faults += [f"no experiment is called {n!r}" for n in commands if n not in registered]
    for read, texts in ((fill, (row["ours"], row["size"])), (bears_out, row.get("because", []))):
        for text in texts:
            try:
                if not read(text, root):
                    faults.append(f"the records no longer bear out {text!r}: judge it again")
            except (ClaimError, ValueError) as error:
                faults.append(str(error))
    return faults


def render(rows: list[dict], root: Path = ROOT) -> str:
    """The page."""
    counts = Counter(row["verdict"] for row in rows)
    lines = [
        "---",
        "html_theme.sidebar_secondary.remove: true",
        "---",
        "",
        "<!-- keywords: replication, reproducibility, results, claims, verdicts, findings -->",
        "",
        "(app-what-held)=",
        "# What held",
        "",
        "Every claim of the literature that the book tests, with our figure beside the paper's. "
        "Our runs are small, and a small run may be wrong about a large one. So each row gives "
        "both sizes and, unless the claim holds, the run that would decide.",
        "",
        *(f"- **{verdict}** ({counts[verdict]}): {what}." for verdict, what in VERDICTS.items()),
        "",
        "A figure of several seeds is their mean, with the least and the largest in brackets; ± is "
        "half of a 95% interval. The command repeats the recorded run, with `--seed` for a seed. "
        "Figures without a command are computed while you read, in the section that is linked. "
        "The page is made from the records, and a test checks that they bear out each verdict.",
        "",
    ]
    chapter = None
    for row in sorted(rows, key=lambda row: row["section"].split("/")[0]):
        if (folder := row["section"].split("/")[0]) != chapter:
            lines += [":::", ""] if chapter else []
            index = (root / "chapters" / folder / "index.md").read_text("utf-8")
            lines += [f"## {re.findall(r'^# (.+)', index, re.M)[0]}", ""]
            lines += [":::{table}", ":class: claims", ""]
            lines += [
                "| claim | here | in the paper | sizes | verdict, and what would decide |",
                "|---|---|---|---|---|",
            ]
            chapter = folder
        lines.append(_line(row, root))
    return "\n".join([*lines, ":::"]) + "\n"


def summaries(rows: list[dict], root: Path = ROOT) -> dict[Path, str]:
    """The summary of each chapter with the table of what the chapter measured."""
    made = {}
    for path in sorted((root / "chapters").glob("*/summary.md")):
        found = [row for row in rows if row["section"].startswith(f"{path.parent.name}/")]
        lines = ["| claim | here |", "|---|---|"]
        for row in found:
            link = f"../../appendix/what_held.md#claim-{row['id']}"
            claim = row["claim"].replace("|", "\\|").replace("\n", " ").strip()
            lines.append(f"| {claim} | [{row['verdict']}]({link}) |")
        text, places = CLAIMS.subn(
            lambda place, lines=lines: "\n".join([place["begin"], *lines, "", place["end"]]),
            path.read_text(encoding="utf-8"),
        )
        if places != 1 or not found:
            raise ClaimError(
                f"chapters/{path.parent.name}/summary.md: expected one place for claims, and "
                f"claims of its sections, got {places} and {len(found)}"
            )
        made[path] = text
    return made


def _line(row, root):
    label = row["section"].rsplit("/", 1)[1].replace("_", " ")
    who = ", ".join(f"{{cite:t}}`{key}`" for key in row.get("cite", "").split())
    runs = [(name, len(records(name, root))) for name in names(row)]
    commands = "; ".join(f"`{name}`" + (f", {n} seeds" if n > 1 else "") for name, n in runs)
    cells = [
        f'<a id="claim-{row["id"]}"></a>{row["claim"]}',
        " · ".join(filter(None, [who, f"[{label}](../chapters/{row['section']}.ipynb)"])),
        fill(row["ours"], root),
        f"`attnbook reproduce` {commands}" if runs else "",
        row["paper"],
        fill(row["size"], root),
        f"**{row['verdict']}**",
        row.get("decides", ""),
    ]
    cells = [text.replace("|", "\\|").replace("\n", " ").strip() for text in cells]
    pairs = [cells[0:2], cells[2:4], cells[4:5], cells[5:6], cells[6:8]]
    return "| " + " | ".join("<br>".join(filter(None, pair)) for pair in pairs) + " |"


def read(root: Path = ROOT) -> list[dict]:
    """The rows of data/claims.yaml."""
    return yaml.safe_load((root / "data/claims.yaml").read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    if not set(arguments) <= {"--check"}:
        print(__doc__, file=sys.stderr)
        return 2
    from attnbook_runs import load_experiments

    rows = read()
    found = problems(rows, set(load_experiments()))
    if not found:
        made = {ROOT / "appendix/what_held.md": render(rows), **summaries(rows)}
        for page, text in made.items():
            if page.is_file() and page.read_text(encoding="utf-8") == text:
                continue
            if "--check" in arguments:
                name = page.relative_to(ROOT).as_posix()
                found.append(f"{name} is out of date: run python tools/make_claims.py")
            else:
                write_atomically(page, text.encode())
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
