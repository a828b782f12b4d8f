"""Makes the notebooks of the book from their sources: sources/CHAPTER/NAME.md (MyST, with
solutions) -> chapters/CHAPTER/NAME.ipynb.

    python tools/build_notebooks.py [PATH ...]              run these (without PATH all)
    python tools/build_notebooks.py --texts [PATH ...]      only the texts changed: keep the outputs
    python tools/build_notebooks.py --renamed OLD=NEW [PATH ...]    the same, and a name in the code
    python tools/build_notebooks.py --check [PATH ...]      only compare, with sources and rules
    python tools/build_notebooks.py --instructor DIR [PATH ...]    with solutions, run, into DIR
    python tools/build_notebooks.py --measure [PATH ...]    run the .ipynb, record time and memory

A PATH is a source, a notebook or a folder. --measure is for a quiet machine: it alone writes
results/notebooks.json, and it names each notebook whose declared line is untrue.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat

import make_interface
from bookbuild import execute, measure, promise, publish, renaming, rules, source

ROOT = Path(__file__).resolve().parents[1]


def sources(paths: list[str]) -> list[Path]:
    """The chapter sources that these arguments name."""
    found = []
    for path in map(Path, paths or [ROOT / "sources"]):
        if path.is_dir():
            inside = [*path.rglob("*.md"), *map(source.source_of, path.rglob("*.ipynb"))]
            found += [p for p in inside if p.is_file() and source.is_source(p)]
        elif source.source_of(path).is_file():
            found.append(source.source_of(path))
        else:
            sys.exit(f"no such source: {path}")
    return sorted({p.resolve() for p in found if ".ipynb_checkpoints" not in p.parts})


def reader_notebook(path: Path) -> nbformat.NotebookNode:
    """The readers' notebook of a source, without outputs."""
    pair = source.notebook_of(path)
    stored = nbformat.read(pair, as_version=4) if pair.exists() else None
    return publish.readable(source.read_source(path), path, stored)


def check(path: Path) -> list[str]:
    """What is wrong with the pair of this source; empty when all is well."""
    pair = source.notebook_of(path)
    if not pair.exists():
        return [
            f"{pair.name} is missing; make it with: python tools/build_notebooks.py "
            f"{os.path.relpath(path)}"
        ]
    stored = nbformat.read(pair, as_version=4)
    out = (
        []
        if source.skeleton(reader_notebook(path)) == source.skeleton(stored)
        else ["differs from its source: build it again (--texts where no code changed)"]
    )
    return out + rules.problems(stored)


def build(path: Path) -> dict:
    """Run one source and write its notebook; returns {"seconds", "peak_mb"}."""
    nb, pair = reader_notebook(path), source.notebook_of(path)
    took = execute.execute(nb, pair.parent)
    _write(nb, pair)
    return took


def rewrite(path: Path, renamed: dict[str, str] | None = None) -> None:
    """Write the notebook of a source in which only texts have changed, with the outputs that are
    stored. Titles of folds, comments and the set-up cell are texts.

    renamed: names of the library before and after, which may have changed as well.

    Raises:
        ValueError: the code has changed in another way too.
    """
    nb, pair = reader_notebook(path), source.notebook_of(path)
    stored = nbformat.read(pair, as_version=4)
    code, old = ([c for c in one.cells if c.cell_type == "code"] for one in (nb, stored))
    changed = [c.source for c in code] != [c.source for c in old]
    if renamed and changed and (why := renaming.clash(stored, renamed)):
        raise ValueError(why)
    if list(map(renaming.what_runs, code)) != [renaming.what_runs(c, renamed) for c in old]:
        raise ValueError("its code changed too: make it without --texts and --renamed")
    for cell, one in zip(code, old):
        cell.outputs, cell.execution_count = one.outputs, one.execution_count
    _write(nb, pair)


def _write(nb: nbformat.NotebookNode, pair: Path) -> None:
    part = pair.with_suffix(".ipynb.partial")
    nbformat.write(nb, part)
    part.replace(pair)


def measured(path: Path) -> list[str]:
    """Run the stored notebook and record it; returns what its declared line gets wrong."""
    pair = source.notebook_of(path)
    nb = nbformat.read(pair, as_version=4)
    took = execute.execute(nb, pair.parent)
    row = {"notebook": pair.relative_to(ROOT).as_posix(), **took}
    measure.record(ROOT / "results" / "notebooks.json", [row], ROOT)
    print(f"{took['seconds']:.0f} s, {took['peak_mb']} MB")
    return measure.untrue_promise(promise.declared(nb).quick, **took)


def instructor(path: Path, folder: Path) -> None:
    """Run the version with solutions and write it into `folder`, in the same chapter folder as
    in the book.
    """
    nb = source.instructor_version(publish.resolved(source.read_source(path), path))
    execute.execute(nb, source.notebook_of(path).parent)
    target = folder / path.parent.name / f"{path.stem}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, target)


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and new):
        raise argparse.ArgumentTypeError(f"expected OLD=NEW, got {text!r}")
    return old, new


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--texts", action="store_true", help="keep the outputs that are stored")
    way.add_argument(
        "--renamed",
        metavar="OLD=NEW",
        action="append",
        type=_renaming,
        default=[],
        help="keep the outputs where this new name, too, explains a changed cell; repeatable",
    )
    way.add_argument("--check", action="store_true", help="compare only; exit 1 if they differ")
    way.add_argument("--instructor", metavar="DIR", help="write versions with solutions into DIR")
    way.add_argument("--measure", action="store_true", help="record time and memory")
    options = parser.parse_args(argv)
    if options.measure and hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > 0.5:
        print(f"this machine is busy (load {load:.1f}): times will be too long", file=sys.stderr)
    wrong, paths = 0, sources(options.paths)
    writes = not (options.check or options.measure or options.instructor)
    if writes and any(path.is_relative_to(ROOT / "sources") for path in paths):
        make_interface.refresh()
    for path in paths:
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if not options.check:
            print(f"{name} ...", end=" ", flush=True)
        try:
            if options.check:
                problems = check(path)
            elif options.measure:
                problems = measured(path)
            elif options.instructor:
                instructor(path, Path(options.instructor).resolve())
                print("done")
                problems = []
            else:
                if options.texts or options.renamed:
                    rewrite(path, dict(options.renamed))
                    print("done")
                else:
                    took = build(path)
                    print(f"{took['seconds']:.0f} s, {took['peak_mb']} MB")
                problems = rules.problems(nbformat.read(source.notebook_of(path), as_version=4))
        except Exception as error:  # the other notebooks are still worth making
            print(f"{name}: {error}" if options.check else f"stopped\n{error}")
            wrong += 1
            continue
        for problem in problems:
            print(f"{name}: {problem}")
        wrong += bool(problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
