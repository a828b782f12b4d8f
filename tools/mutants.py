"""Breaks the library in small ways and counts how many of the breakages the tests see.

    python tools/mutants.py --count 300 --out results/mutants.json     a seeded sample of mutants
    python tools/mutants.py --again FILE --out OTHER                   the same ones in this version

A run that was stopped goes on where it was, with the same --out.

A mutant is one changed operator, constant, comparison, condition or keyword. It is judged by the
quick tests that touch its module: those that import it, and those named after it. Mutants of a
report are found again by function, kind and place in the function, whatever file it stands in now;
those whose place is gone are listed.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
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
PARTS = ("kernels", "mechanisms", "decoding", "models", "training", "tasks", "checks")
ENGINE = ["tests/kernels/", "tests/mechanisms/"]  # the one is tested through the other
NEAR = {"checks": ["tests/exercises/"], "kernels": ENGINE, "mechanisms": ENGINE[:1]}
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
    ast.And: "or",
    ast.Or: "and",
}
TOKEN = r"not\s+in|is\s+not|\b(in|is|and|or)\b|\*\*|//|[<>=!]=|[-+*/@%<>&|]"


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
    def key(self) -> tuple[str, str, str, int, str]:
        return Path(self.path).stem, self.function, self.kind, self.index, self.text


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
        if token := re.search(TOKEN, between):
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
            operator(function, "condition", node, node.values[0], node.values[1], BINARY, node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            add(function, "negation", node, span(node)[0], span(node.operand)[0], "")
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
    """The tests that touch a module, as pytest's arguments: the files that name it and those near
    it, in the folder that mirrors its own, else those of its part of the library.
    """
    module = path.removesuffix(".py").replace("/", ".")
    part, package, stem, only = path.split("/")[1], Path(path).parent.name, Path(path).stem, []
    files = sorted(f.relative_to(ROOT).as_posix() for f in ROOT.glob("tests/**/test_*.py"))
    near = (f"tests/{part}/{package}/", f"tests/{part}/test_{package}", *NEAR.get(part, ()))
    if part == "checks":  # answers to the exercises of this module, or everything that is judged
        hits = [f for f in files if f.startswith(near)]
        if exercises := re.findall(r'"\d\d\.(\w+)"', (ROOT / path).read_text("utf-8")):
            only = ["-k", " or ".join(dict.fromkeys(exercises))]
    else:
        named = [f for f in files if module in (ROOT / f).read_text(encoding="utf-8")]
        hits = [f for f in files if f in named or f.startswith(near) or f"/test_{stem}" in f]
    return (hits or [f for f in files if f.startswith(f"tests/{part}/")]) + only


def _pytest(copy: str, tests: list[str], seconds: int) -> None:
    """Run tests in this process, which knows torch and pytest already but nothing of attnbook."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, 2 * seconds))
    os.chdir(copy)
    sys.path[:0] = paths = [copy, f"{copy}/grader"]
    os.environ.update(OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(paths))
    sys.dont_write_bytecode = True
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    import pytest

    options = ["-x", "-q", "-m", "not slow and not gpu", "--no-header", "--tb=no"]
    os._exit(pytest.main([*options, "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))


def outcome_of(copy: Path, tests: list[str], seconds: int) -> str:
    """What the tests say of a copy: killed, survived, or timed out (which counts as killed)."""
    process = FORKS.Process(target=_pytest, args=(str(copy), tests, seconds))
    process.start()
    process.join(10 * seconds)  # of a busy machine
    code = process.exitcode
    process.kill()
    process.join()
    names = {0: "survived", 5: "no test", None: "timed out", -signal.SIGXCPU: "timed out"}
    return names.get(code, "killed")


def judge(mutant: Mutant, copy: Path, seconds: int) -> dict:
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


def killed(rows: list[dict]) -> int:
    return sum(row["outcome"] in ("killed", "timed out") for row in rows)


def rows_of(report: dict) -> dict[Mutant, dict]:
    return {Mutant(*(row[field] for field in Mutant._fields)): row for row in report["mutants"]}


def chosen(options) -> tuple[list[Mutant], dict]:
    """The mutants to judge; and of a report whose mutants they are, its commit, how many of them it
    found killed, and the keys of those that are gone.
    """
    every = [
        mutant
        for part in options.parts
        for path in sorted(ROOT.glob(f"attnbook*/{part}/**/[!_]*.py"))
        for mutant in mutants_of(path.read_text("utf-8"), path.relative_to(ROOT).as_posix())
    ]
    if not options.again:
        return random.Random(options.seed).sample(every, min(options.count, len(every))), {}
    report = json.loads(Path(options.again).read_text(encoding="utf-8"))
    rows, known = rows_of(report), {m.key[1:]: m for m in every} | {m.key: m for m in every}
    now = {mutant: known.get(mutant.key) or known.get(mutant.key[1:]) for mutant in rows}
    count = killed([row for mutant, row in rows.items() if now[mutant]])
    return [mutant for mutant in now.values() if mutant], {
        "before": {"commit": report["commit"], "killed": count},
        "gone": [mutant.key for mutant in rows if not now[mutant]],
    }


def commit() -> str:
    """The commit of this working tree."""
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()


def judged_before(out: Path | None) -> dict[Mutant, dict]:
    """The rows of a report of this commit: a run that was stopped goes on."""
    report = json.loads(out.read_text(encoding="utf-8")) if out and out.exists() else {}
    return rows_of(report) if report.get("commit") == commit() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", default=list(PARTS))
    parser.add_argument("--again", help="a report whose mutants are judged in this version")
    parser.add_argument("--out", type=Path, help="where the report is kept, as JSON")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=240, help="of CPU for a mutant")
    options = parser.parse_args()
    mutants, more = chosen(options)
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
                report = {"commit": commit(), **more, "mutants": rows}
                text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
                options.out.write_text(text, encoding="utf-8")
    share = 100 * killed([known[mutant] for mutant in mutants]) / len(mutants)
    print(f"{share:.1f} % of {len(mutants)} mutants killed", more.get("before", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
