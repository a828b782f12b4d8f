"""Breaks the library in small ways and counts how many of the breakages the tests see.

    python tools/mutants.py --count 300 --out results/mutants.json     a seeded sample of mutants
    python tools/mutants.py --again FILE --out OTHER                   the same ones in this version

A run that was stopped goes on where it was, with the same --out.

A mutant is one changed operator, constant, comparison, condition or keyword. It is judged by the
quick tests that touch its module: those that import it, and those named after it. Mutants of a
report are found again by function, kind and place in the function, so that two versions of the code
can be compared; those whose place is gone are listed.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FORKS = multiprocessing.get_context("forkserver")  # each run of tests is a fork that knows torch
FORKS.set_forkserver_preload(
    ["torch", "numpy", "scipy.stats", "pytest", "hypothesis", "nbval.plugin"]
)
PARTS = ("mechanisms", "models", "training", "tasks", "checks")
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "build", "_build", "__pycache__", "*.ipynb", "_vendor", "*.png"
)
COMPARE = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
BINARY = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.MatMult: "*",
    ast.Pow: "*",
    ast.FloorDiv: "*",
    ast.Mod: "+",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}


class Mutant(NamedTuple):
    """What is replaced in which function: the ``index``-th candidate of its kind there."""

    path: str
    function: str
    kind: str
    index: int
    line: int
    start: int
    end: int
    text: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        return Path(self.path).stem, self.function, self.kind, self.index


def mutants_of(source: str, name: str) -> list[Mutant]:
    """Every mutant of the source of a file of this name, in its order; messages and annotations
    stay.
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    encoded, found, counts = source.encode(), [], Counter()

    def offset(line, column):
        return starts[line - 1] + column

    def add(function, kind, node, start, end, text):
        counts[function, kind] += 1
        index = counts[function, kind] - 1
        found.append(Mutant(name, function, kind, index, node.lineno, start, end, text))

    def span(node):
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    def operator(function, kind, node, left, right, table, given):
        """The operator stands somewhere between its two sides."""
        if type(given) not in table:
            return
        start, end = span(left)[1], span(right)[0]
        between = encoded[start:end].decode()
        token = re.search(r"(not\s+in|is\s+not|\*\*|//|[<>=!]=|in\b|is\b|[-+*/@%<>&|])", between)
        if token:
            at = start + len(between[: token.start()].encode())
            add(function, kind, node, at, at + len(token[0].encode()), table[type(given)])

    def walk(node, function):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            function = f"{function}.{node.name}".strip(".")
            children = [*node.body] if isinstance(node, ast.ClassDef) else [node.args, *node.body]
        elif isinstance(node, ast.arguments):
            children = [d for d in (*node.defaults, *node.kw_defaults) if d is not None]
        elif isinstance(node, (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)):
            return
        elif isinstance(node, ast.AnnAssign):
            children = [node.value] if node.value else []
        else:
            children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            right = node.comparators[0]
            operator(function, "compare", node, node.left, right, COMPARE, node.ops[0])
        elif isinstance(node, ast.BinOp):
            operator(function, "operator", node, node.left, node.right, BINARY, node.op)
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            start, end = span(node.values[0])[1], span(node.values[1])[0]
            between = encoded[start:end].decode()
            if token := re.search(r"\b(and|or)\b", between):
                at = start + len(between[: token.start()].encode())
                text = "or" if token[0] == "and" else "and"
                add(function, "condition", node, at, at + len(token[0]), text)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            start, _ = span(node)
            add(function, "negation", node, start, span(node.operand)[0], "")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            value = node.operand.value
            if isinstance(node.op, ast.USub) and isinstance(value, int):  # an axis, mostly
                add(function, "constant", node, *span(node), str(-value - 1 if value < 2 else -1))
            return
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                add(function, "constant", node, *span(node), str(not node.value))
            elif isinstance(node.value, (int, float)):
                text = str(node.value + 1) if node.value != 1 else "0"
                add(function, "constant", node, *span(node), text)
        elif isinstance(node, ast.IfExp):
            start, end = span(node.test)
            add(function, "condition", node, start, end, f"not ({encoded[start:end].decode()})")
        for child in children:
            walk(child, function)

    walk(ast.parse(source), "")
    return found


def tests_of(path: str) -> list[str]:
    """The tests that touch a module, as pytest's arguments: the files that name it and those of the
    folder that mirrors its own, else those of its part of the library.
    """
    module = path.removesuffix(".py").replace("/", ".")
    part, stem, only = path.split("/")[1], Path(path).stem, []
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    hits = [
        f
        for f in files
        if f.stem.startswith(f"test_{stem}") or module in f.read_text(encoding="utf-8")
    ]
    part_files = [f for f in files if f.relative_to(ROOT).parts[1] == part]
    if part == "checks":  # answers to the exercises of this module, or everything that is judged
        hits = part_files
        text = (ROOT / path).read_text(encoding="utf-8")
        if exercises := re.findall(r'"\d\d\.(\w+)"', text):
            only = ["-k", " or ".join(dict.fromkeys(exercises))]
    folder = ROOT / "tests" / part / Path(path).parent.name
    chosen = [f for f in files if f in hits or f.parent == folder] or part_files
    return [f.relative_to(ROOT).as_posix() for f in chosen] + only


def _pytest(copy: str, tests: list[str]) -> None:
    """Run tests in this process, which knows torch and pytest already but nothing of attnbook."""
    os.chdir(copy)
    os.environ.update(OMP_NUM_THREADS="1", PYTHONPATH=copy)
    sys.path.insert(0, copy)
    sys.dont_write_bytecode = True
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    import pytest

    options = ["-x", "-q", "-m", "not slow and not gpu", "--no-header", "--tb=no"]
    os._exit(pytest.main([*options, "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))


def outcome_of(copy: Path, tests: list[str], seconds: float) -> str:
    """What the tests say of a copy: killed, survived, or timed out (which counts as killed)."""
    process = FORKS.Process(target=_pytest, args=(str(copy), tests))
    process.start()
    process.join(seconds)
    code = process.exitcode
    process.kill()
    process.join()
    return {0: "survived", 5: "no test", None: "timed out"}.get(code, "killed")


def judge(mutant: Mutant, copy: Path, seconds: float) -> dict:
    """Whether the tests see a mutant."""
    path = copy / mutant.path
    original = path.read_bytes()
    path.write_bytes(original[: mutant.start] + mutant.text.encode() + original[mutant.end :])
    begin = time.monotonic()
    try:
        outcome = outcome_of(copy, tests_of(mutant.path), seconds)
    finally:
        path.write_bytes(original)
    return {
        **mutant._asdict(),
        "source": original[: mutant.start].decode().rsplit("\n", 1)[-1].strip()
        + f"[{original[mutant.start : mutant.end].decode()} → {mutant.text}]",
        "outcome": outcome,
        "seconds": round(time.monotonic() - begin, 1),
    }


def chosen(options) -> tuple[list[Mutant], list]:
    """The mutants to judge, and the keys of a report that are gone."""
    every = [
        mutant
        for part in options.parts
        for path in sorted((ROOT / "attnbook" / part).rglob("*.py"))
        if path.name != "__init__.py"
        for mutant in mutants_of(
            path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        )
    ]
    if not options.again:
        return random.Random(options.seed).sample(every, min(options.count, len(every))), []
    known = {mutant.key[1:]: mutant for mutant in every} | {mutant.key: mutant for mutant in every}
    rows = json.loads(Path(options.again).read_text(encoding="utf-8"))["mutants"]
    keys = [(Path(r["path"]).stem, r["function"], r["kind"], r["index"]) for r in rows]
    found = [known.get(key) or known.get(key[1:]) for key in keys]
    return [m for m in found if m], [key for key, m in zip(keys, found) if not m]


def commit() -> str:
    """The commit of this working tree."""
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def judged_before(out: Path | None) -> dict[Mutant, dict]:
    """The rows of a report of this commit: a run that was stopped goes on."""
    if out is None or not out.exists():
        return {}
    report = json.loads(out.read_text(encoding="utf-8"))
    if report["commit"] != commit():
        return {}
    return {Mutant(*(row[field] for field in Mutant._fields)): row for row in report["mutants"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", default=list(PARTS))
    parser.add_argument("--again", help="a report whose mutants are judged in this version")
    parser.add_argument("--out", type=Path, help="where the report is kept, as JSON")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=240, help="for the tests of one mutant")
    options = parser.parse_args()
    mutants, gone = chosen(options)
    known = judged_before(options.out)
    remaining = [mutant for mutant in mutants if mutant not in known]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        copies: Queue = Queue()
        for number in range(options.workers):
            copies.put(Path(folder) / str(number))
            shutil.copytree(ROOT, Path(folder) / str(number), ignore=LEFT_OUT)

        for path in sorted({mutant.path for mutant in remaining[:3]}):
            if outcome_of(Path(folder) / "0", tests_of(path), options.seconds) != "survived":
                sys.exit(f"{path}: its tests fail without any mutant, so they can judge none")

        def one(mutant):
            copy = copies.get()
            try:
                return judge(mutant, copy, options.seconds)
            finally:
                copies.put(copy)

        for mutant, row in zip(remaining, pool.map(one, remaining)):
            known[mutant] = row
            print(f"{row['outcome']:9} {row['path']}:{row['line']} {row['source']}", flush=True)
            if options.out:
                rows = [known[mutant] for mutant in mutants if mutant in known]
                report = {"commit": commit(), "gone": gone, "mutants": rows}
                text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
                options.out.write_text(text, encoding="utf-8")
    counts = Counter(known[mutant]["outcome"] for mutant in mutants)
    killed = counts["killed"] + counts["timed out"]
    share = 100 * killed / max(1, len(mutants))
    print(f"{killed} of {len(mutants)} mutants killed, {share:.1f} %; {len(gone)} are gone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
