"""Makes the notebooks of the book from their sources: chapters/**/NAME.md (MyST, with solutions) ->
NAME.ipynb beside it.

    python tools/build_notebooks.py [PATH ...]               run the student's version of these (all
    without PATH), write the .ipynb python tools/build_notebooks.py --check [PATH ...]       only
    compare: is each .ipynb what its source says? are the rules kept? python
    tools/build_notebooks.py --instructor DIR [PATH ...]   the versions with solutions, run, into
    the folder DIR

A PATH is a source, a notebook or a folder. A run also records time and peak memory in
results/notebooks.json."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat

from bookbuild import execute, measure, rules, source

ROOT = Path(__file__).resolve().parents[1]


def sources(paths: list[str]) -> list[Path]:
    """The chapter sources that these arguments name."""
    found = []
    for path in map(Path, paths or [ROOT / "chapters"]):
        if path.is_dir():
            found += [p for p in path.rglob("*.md") if source.is_source(p)]
        elif path.with_suffix(".md").is_file():
            found.append(path.with_suffix(".md"))
        else:
            sys.exit(f"no such source: {path}")
    return sorted({p.resolve() for p in found if ".ipynb_checkpoints" not in p.parts})


def check(path: Path) -> list[str]:
    """What is wrong with the pair of this source; empty when all is well."""
    pair = path.with_suffix(".ipynb")
    if not pair.exists():
        return [
            f"{pair.name} is missing; make it with: python tools/build_notebooks.py "
            f"{os.path.relpath(path)}"
        ]
    stored = nbformat.read(pair, as_version=4)
    made = source.student_version(source.read_source(path))
    out = (
        []
        if source.skeleton(made) == source.skeleton(stored)
        else ["differs from its source: build it again"]
    )
    return out + rules.problems(stored)


def build(path: Path) -> dict:
    """Run one source and write the notebook beside it; returns its row for
    results/notebooks.json.
    """
    nb = source.student_version(source.read_source(path))
    took = execute.execute(nb, path.parent)
    pair = path.with_suffix(".ipynb")
    part = pair.with_suffix(".ipynb.partial")
    nbformat.write(nb, part)
    part.replace(pair)
    return {"notebook": pair.relative_to(ROOT).as_posix(), **took}


def instructor(path: Path, folder: Path) -> None:
    """Run the version with solutions and write it into `folder`, in the same chapter folder as
    in the book.
    """
    nb = source.instructor_version(source.read_source(path))
    execute.execute(nb, path.parent)
    target = folder / path.parent.name / f"{path.stem}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, target)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH")
    parser.add_argument(
        "--check", action="store_true", help="compare only; exit 1 when something is wrong"
    )
    parser.add_argument(
        "--instructor", metavar="DIR", help="write the versions with solutions into DIR"
    )
    options = parser.parse_args(argv)
    wrong = 0
    for path in sources(options.paths):
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if options.check:
            problems = check(path)
        else:
            print(f"{name} ...", end=" ", flush=True)
            try:
                if options.instructor:
                    instructor(path, Path(options.instructor).resolve())
                    print("done")
                else:
                    row = build(path)
                    measure.record(ROOT / "results" / "notebooks.json", [row], ROOT)
                    print(f"{row['seconds']:.0f} s, {row['peak_mb']} MB")
            except Exception as error:  # the other notebooks are still worth making
                print(f"stopped\n{error}")
                wrong += 1
                continue
            problems = (
                []
                if options.instructor
                else rules.problems(nbformat.read(path.with_suffix(".ipynb"), as_version=4))
            )
        for problem in problems:
            print(f"{name}: {problem}")
        wrong += bool(problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
