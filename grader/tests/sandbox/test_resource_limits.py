"""What the grader's own process may use for one notebook, whatever a student's function makes."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from patience import HANGS, PATIENT

from attnbook_grader.sandbox import resource_limits, session
from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import SandboxEnded, Session

from .conftest import until

LIMITS, LITTLE = Limits(**PATIENT), Limits(**PATIENT, memory=100)


class Late(BaseException):
    pass


@pytest.mark.parametrize("thread", ["the first", "another"])
def test_time_ends_work_that_swallows_errors(thread):
    seen = []

    def work():
        try:
            with resource_limits.time_limit(until(0.2), Late):
                while True:
                    try:
                        sum(range(100))
                    except Exception:
                        continue
        except Late:
            seen.append("late")
        with resource_limits.time_limit(until(HANGS), Late):
            seen.append("in time")

    if thread == "the first":
        work()
    else:
        other = threading.Thread(target=work)
        other.start()
        other.join(HANGS)
    assert seen == ["late", "in time"]


def test_memory_has_a_bound_inside_and_none_after():
    for take, size in ((torch.ones, 2**28), (np.ones, 2**27), (bytearray, 2**30)):
        with resource_limits.memory_limit(300):
            torch.ones(2**20)
            with pytest.raises((MemoryError, RuntimeError)) as error:
                take(size)
        assert resource_limits.out_of_memory(error.value)
    assert len(bytearray(2**29)) == 2**29
    assert not resource_limits.out_of_memory(
        RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    )


def test_small_tensors_are_not_broadcast_to_a_large_one():
    row, column = torch.ones(20_000), torch.ones(20_000, 1)
    words = r"a result of 400,000,000 numbers, expected at most 67,108,864"
    for make in (
        lambda: row * column,
        lambda: torch.where(column > 0, row, row),
        lambda: column @ row[None],
        lambda: row.add(column),
    ):
        with resource_limits.SmallResults(), pytest.raises(ValueError, match=words):
            make()
    with resource_limits.SmallResults():
        assert (row[:1000] * column).shape == (20_000, 1000)
        assert (row[None] @ column).shape == (1, 1)
        assert (column.T @ row).shape == (row @ column).shape == (1,)
        assert torch.nn.functional.linear(row[None], row[None]).shape == (1, 1)
        assert torch.cat([row, row]).shape == (40_000,) and (row[:0] * column).numel() == 0


HEAD = "import torch\ndef reads_a_set(attention, states, mask):\n    d = states.shape[-1]\n    "
ASKS = {
    "broadcast": (
        "attention(torch.zeros(14000, 1, 1, d), torch.ones(1, 14000, 1, dtype=torch.bool))",
        "make a result of 196,000,000 numbers",
    ),
    "memory": (
        "try:\n        attention(torch.zeros(4000, 1, 1, d), torch.ones(1, 4000, 1, "
        "dtype=torch.bool))\n    except BaseException:\n        return True",
        "your function asks the grader for more than 100 MB of memory",
    ),
    "kept": (
        "while True: attention(torch.zeros(1, 500_000, d), torch.ones(1, 500_000, "
        "dtype=torch.bool))",
        "your function asks the grader for more than 100 MB of memory",
    ),
}


@pytest.fixture(scope="module")
def inside():
    with Session("none", LIMITS) as made:
        yield made


@pytest.mark.parametrize("name", ASKS)
def test_a_function_of_the_check_works_within_bounds(inside, name, monkeypatch):
    code, words = ASKS[name]
    assert inside.run(HEAD + code) is None
    with monkeypatch.context() as patched:
        patched.setattr(inside, "_limits", LITTLE)  # of the grader alone: the sandbox runs
        try:
            said = inside.judge("02.reads_a_set", "reads_a_set", 1).message
        except SandboxEnded as ended:
            said = str(ended)
    assert words in said
    assert inside.run("x = 1") is None, "the notebook goes on"


def test_a_check_that_takes_too_long_is_ended(inside, monkeypatch):
    def slow(id, answer, seed):
        while True:
            time.sleep(0.01)

    def ask(head, what):
        answer = Session._ask(inside, head, what)
        patched.setattr(inside, "_limits", replace(LIMITS, seconds=1))  # for the check alone
        return answer

    inside.run(HEAD + "return True")
    stopped = "your function ran longer than 1 s and was stopped"
    with monkeypatch.context() as patched:
        patched.setattr(session, "judge", slow)
        patched.setattr(inside, "_ask", ask)
        with pytest.raises(SandboxEnded, match=stopped) as lost:
            inside.judge("02.reads_a_set", "reads_a_set", 1)
    assert lost.value.late


def test_a_machine_that_is_busy_with_others_costs_nobody_his_marks(bubblewrap):
    """Time counts that a processor works for the notebook; of the clock's, a part."""
    with Session("bubblewrap", replace(LIMITS, seconds=1)) as made:
        assert made.run("import time\ntime.sleep(2)") is None
        with pytest.raises(SandboxEnded, match="ran longer than 1 s"):
            made.run("time.sleep(8)")
