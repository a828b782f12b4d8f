"""Breaks the solutions of the exercises in small ways and lists the wrong answers that pass.

    python tools/solution_mutants.py --out results/solution_mutants.json      every one of them
    python tools/solution_mutants.py --tasks 02.project_once 00.temperature

A wrong answer made here passes when the visible and the hidden check call it right. Those that are
right as well, for every input that the statement allows, are listed with their reason in
tests/exercises/equivalent_mutants/; the others show what a check does not look at.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sized
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
import yaml

from attnbook.checks import exercises, judge
from attnbook_exercises.answers.arguments import PLAIN_TENSORS
from attnbook_exercises.checks.registry import WITHOUT_CODE
from attnbook_grader.course.exercises import find_book, sections
from bookbuild.source import SOLUTION
from mutants import mutants_of

ROOT = Path(__file__).resolve().parents[1]
MARKED = ROOT / "tests/exercises/equivalent_mutants"
SECONDS = 10  # for one answer and one seed
MOST = 1.0  # percent of all that may pass without a reason

INSTEAD = {
    "softmax": ("log_softmax",),
    "log_softmax": ("softmax",),
    "logsumexp": ("amax",),
    "sum": ("mean",),
    "mean": ("sum",),
    "prod": ("sum",),
    "max": ("min",),
    "min": ("max",),
    "amax": ("amin",),
    "argmax": ("argmin",),
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "tanh": ("relu", "sigmoid"),
    "relu": ("tanh", "sigmoid"),
    "sigmoid": ("tanh", "relu"),
    "exp": ("exp2",),
    "log": ("log2",),
    "cos": ("sin",),
    "sin": ("cos",),
    "triu": ("tril",),
    "tril": ("triu",),
    "zeros": ("ones",),
    "ones": ("zeros",),
    "zeros_like": ("ones_like",),
    "cumsum": ("cumprod",),
    "floor": ("ceil",),
    "any": ("all",),
    "all": ("any",),
    "sqrt": ("abs",),
    "norm": ("numel",),
}
"""Names of functions that a reader may take for one another."""

ON_VALUES = (".squeeze()", ".flip(-1)", ".flip(0)", "[..., :1]")
"""What is put behind a returned or an assigned value, and `.detach()` where it may be a float."""


class WrongAnswer(NamedTuple):
    """A broken solution: its exercise, what was changed, and the whole cell."""

    id: str
    change: str
    cell: str


def _splices(source: str, seen: dict) -> list[tuple[int, int, str]]:
    """(start, end, text) of what a reader may get wrong and `mutants_of` does not change.

    seen: the arguments of the first call by name, whose sizes and numbers are written into the
        answer as constants
    """
    data = source.encode()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    found = []

    def span(node):
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(node):
        start, end = span(node)
        return data[start:end].decode()

    def put(node, new):
        found.append((*span(node), new))

    def function(node):
        names = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
        body = node.body[1:] if ast.get_docstring(node) and node.body[1:] else node.body
        at = span(body[0])[0]
        for name in names:
            if type(seen.get(name)) in (int, float):  # the number of the first case for ever
                found.append((at, at, f"{name} = {seen[name]!r}; "))
        return names

    def shapes(node):
        """An expression for a size of an argument, and the size in the first case."""
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                value = seen.get(name)
                return len(value) if isinstance(value, Sized) else None
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=index
            ):
                value, at = seen.get(name), text(index)
                if isinstance(value, PLAIN_TENSORS) and re.fullmatch(r"-?\d+", at):
                    return value.shape[int(at)] if -value.dim() <= int(at) < value.dim() else None
        return None

    def value_of(node):
        whole = isinstance(node, (ast.Compare, ast.BoolOp)) or re.search(
            r"arange|arg(max|min|sort)|bool|~|long|randint|multinomial|len\(|shape|range",
            text(node),
        )
        for behind in (*ON_VALUES, *(() if whole else (".detach()",))):
            single = text(node).endswith(("unsqueeze(-1)", "dim=-1, keepdim=True)"))
            if single and behind in (".flip(-1)", "[..., :1]"):
                continue  # the last dimension has one entry
            if text(node).endswith((".detach()", ".item()")) and behind == ".detach()":
                continue
            put(node, f"({text(node)}){behind}")

    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef():
                names = names or function(node)
            case ast.Return(value=ast.Tuple(elts=parts)):
                put(node, "return " + ", ".join(text(part) for part in reversed(parts)))
                for part in parts:
                    value_of(part)
            case ast.Return(value=ast.expr() as value):
                value_of(value)
            case ast.Assign(targets=[ast.Name()], value=value) if not isinstance(
                value, (ast.Constant, ast.Lambda)
            ):
                value_of(value)
        if isinstance(node, (ast.AugAssign, ast.Expr)) and not isinstance(
            getattr(node, "value", None), ast.Constant
        ):
            put(node, "pass")
        if isinstance(node, ast.BinOp):
            put(node, f"({text(node.left)})")
            put(node, f"({text(node.right)})")
        if (size := shapes(node)) is not None:
            put(node, str(size))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            for other in names:
                if other != node.id and type(seen.get(other)) is type(seen.get(node.id)):
                    put(node, other)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper, node.slice.step):
                if bound is not None:
                    put(bound, "")
        if isinstance(node, ast.Call):
            call, arguments = node.func, node.args
            if isinstance(call, ast.Attribute) and not (
                isinstance(call.value, ast.Name) and call.value.id in ("torch", "math", "np", "F")
            ):
                put(node, f"({text(call.value)})")
            elif arguments:
                put(node, f"({text(arguments[0])})")
            if len(arguments) > 1 and not any(isinstance(a, ast.Starred) for a in arguments):
                last, before = span(arguments[-1]), span(arguments[-2])
                found.append((before[1], last[1], ""))
                first = f"{text(arguments[1])}, {text(arguments[0])}"
                found.append((span(arguments[0])[0], span(arguments[1])[1], first))
            name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
            end = span(call)[1]
            for other in INSTEAD.get(name, ()):
                found.append((end - len(name), end, other))
            inner = text(call.value) if isinstance(call, ast.Attribute) else ""
            rest = [text(a) for a in arguments] + [
                f"{k.arg}={text(k.value)}" for k in node.keywords
            ]
            if inner != "torch":
                rest = [inner, *rest]
            if name == "softmax" and len(rest) == 2:  # right but for large numbers
                z, d = rest[0], rest[1].split("=")[-1]
                put(node, f"(({z}).exp() / ({z}).exp().sum({d}, keepdim=True))")
            if name == "log_softmax" and len(rest) == 2:
                put(node, f"torch.log(({rest[0]}).softmax({rest[1]}) + 1e-8)")
        if text_of_infinity(node):
            for fill in ("-1e4", "-20.0", "0.0"):
                put(node, fill)
        if isinstance(node, ast.If):
            put(node.test, "True")
            put(node.test, "False")
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            put(node.iter, f"list({text(node.iter)})[:-1]")
            put(node.iter, f"list({text(node.iter)})[1:]")
            put(node.iter, f"reversed(list({text(node.iter)}))")
    return found


def text_of_infinity(node) -> bool:
    """Whether an expression is minus infinity, as scores are masked."""
    return ast.unparse(node) in ("float('-inf')", "-float('inf')", "-torch.inf", "-math.inf")


def recorded(task) -> dict:
    """The arguments of the first call that the check of an exercise makes, by name."""
    scope, seen = {}, {}
    exec(compile(task.solution.source, "<solution>", "exec"), scope)
    function = scope[task.function]

    def answer(*given):
        if not seen:
            seen.update(zip(function.__code__.co_varnames, given))
        return function(*given)

    judge(task.id, answer, 0)
    return seen


def wrong_answers(task) -> list[WrongAnswer]:
    """Every broken solution of an exercise, each only once, in the order of the source."""
    before, solution, after = re.split("|".join(SOLUTION), task.solution.source)
    whole = before + "#" + solution + "#" + after
    first, last = len((before + "#").encode()), len((before + "#" + solution).encode())
    plain = [(m.start, m.end, m.text) for m in mutants_of(whole, task.id)]
    data, cells, found = whole.encode(), {ast.dump(ast.parse(whole))}, []
    for start, end, new in sorted(plain + _splices(whole, recorded(task))):
        if not first <= start <= end <= last:
            continue
        cell = (data[:start] + new.encode() + data[end:]).decode()
        try:
            tree = ast.dump(ast.parse(cell))
        except SyntaxError:
            continue
        if tree not in cells:
            cells.add(tree)
            line = data[:start].decode().rsplit("\n", 1)[-1].lstrip()
            rest = data[end:].decode().split("\n", 1)[0]
            change = f"{line}⟦{data[start:end].decode()} → {new}⟧{rest}"
            found.append(WrongAnswer(task.id, " ".join(change.split()), cell))
    return found


class _TooLong(BaseException):
    """An answer took longer than SECONDS."""


def _alarm(signum, frame):
    raise _TooLong


def verdict(answer: WrongAnswer, function: str, seeds=(0, 1)) -> str:
    """What the checks say: "right", the message of the first that refuses, or that it hangs."""
    signal.signal(signal.SIGALRM, _alarm)
    try:
        for seed in seeds:
            scope = {}
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
                exec(compile(answer.cell, "<answer>", "exec"), scope)
            said = judge(answer.id, scope[function], seed)
            if not said:
                return said.message
        return "right"
    except _TooLong:
        return f"no answer within {SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def marked() -> dict[str, dict[str, str]]:
    """{id: {change: why it is right as well}}."""
    files = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in MARKED.glob("*.yaml")]
    return {id: changes for file in files if file for id, changes in file.items()}


def tasks_of(ids=None) -> list:
    """The exercises of the book whose answer is code."""
    every = [task for section in sections(find_book(ROOT)) for task in section.tasks]
    return [
        task
        for task in every
        if (not ids or task.id in ids) and exercises()[task.id].kind not in WITHOUT_CODE
    ]


def _judge(task) -> list[tuple[str, str, float]]:
    torch.set_num_threads(1)
    rows = []
    for answer in wrong_answers(task):
        begin = time.process_time()
        rows.append((answer.change, verdict(answer, task.function), time.process_time() - begin))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", help="ids of exercises; default all")
    parser.add_argument("--out", type=Path, help="where the report is kept, as JSON")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    tasks, known = tasks_of(options.tasks), marked()
    report, counts = {}, Counter()
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("fork")) as pool:
        for task, rows in zip(tasks, pool.map(_judge, tasks)):
            passed = [change for change, said, _ in rows if said == "right"]
            excused = known.get(task.id, {})
            open_ones = [change for change in passed if change not in excused]
            stale = [change for change in excused if change not in passed]
            kinds = Counter(
                "right" if said == "right" else "stopped" if "stopped with" in said else "named"
                for _, said, _ in rows
            )
            counts += Counter(
                wrong=len(rows), passed=len(passed), unmarked=len(open_ones), stale=len(stale)
            )
            report[task.id] = {
                "wrong answers": len(rows),
                "stopped with an error": kinds["stopped"],
                "marked as right too": len(passed) - len(open_ones),
                "passed": open_ones,
                "marked and refused": stale,
                "seconds": round(sum(seconds for *_, seconds in rows), 1),
            }
            print(f"{task.id:32}{len(rows):5}{len(open_ones):5} pass", flush=True)
            for change in open_ones:
                print(f"    {change}", flush=True)
            for change in stale:
                print(f"    marked, but it is refused or not made: {change}", flush=True)
    share = 100 * counts["unmarked"] / max(1, counts["wrong"])
    print(
        f"{counts['wrong']} wrong answers to {len(tasks)} exercises; {counts['passed']} pass, "
        f"{counts['unmarked']} of them without a reason ({share:.2f} %)"
    )
    if options.out:
        text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
        options.out.write_text(text, encoding="utf-8")
    return int(share > MOST or counts["stale"] > 0)


if __name__ == "__main__":
    sys.exit(main())
