"""What is judged again when code changes, and what may judge: fingerprints, workers with other
checks, cores, a gradebook that fails."""

import os
from dataclasses import dataclass, field

import pytest

from attnbook_grader.course import nbgrader_bridge
from attnbook_grader.grading import check_fingerprint, outputs, workers


def test_a_change_of_what_all_checks_share_changes_every_stamp(monkeypatch):
    before = [
        check_fingerprint.fingerprint(id, 1) for id in ("00.temperature", "06.head_parameters")
    ]
    assert before == [
        check_fingerprint.fingerprint(id, 1) for id in ("00.temperature", "06.head_parameters")
    ]
    parse = check_fingerprint.inspect.getsource
    for module in check_fingerprint._SHARED:
        check_fingerprint._shared.cache_clear()
        monkeypatch.setattr(
            check_fingerprint.inspect,
            "getsource",
            lambda one, changed=module: parse(one) + ("\nmore = 1\n" if one is changed else ""),
        )
        assert not set(before) & {
            check_fingerprint.fingerprint(id, 1) for id in ("00.temperature", "06.head_parameters")
        }
    monkeypatch.setattr(check_fingerprint.inspect, "getsource", parse)
    check_fingerprint._shared.cache_clear()
    assert (
        before[0]
        == check_fingerprint.fingerprint("00.temperature", 1)
        != check_fingerprint.fingerprint("00.temperature", 2)
    )


def test_a_worker_with_other_checks_judges_nothing():
    with pytest.raises(
        ValueError, match="a worker has other checks than this computer: .* restart it"
    ):
        workers._exclusively("those of last week", None, None)


def test_files_that_differ_give_another_word(tmp_path, monkeypatch):
    assert check_fingerprint._of_files() == check_fingerprint.CHECKS
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(check_fingerprint.checks, "__path__", [str(tmp_path)])
    one = check_fingerprint._of_files()
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    assert check_fingerprint._of_files() == one != check_fingerprint.CHECKS


def test_as_many_notebooks_at_a_time_as_there_are_cores_for_us(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    for text, count in (("200000 100000", 2), ("50000 100000", 1), ("max 100000", 64), ("", 64)):
        monkeypatch.setattr(workers.Path, "read_text", lambda path, text=text: text)
        assert workers._cores() == count


@dataclass
class Done:
    remarks: list = field(default_factory=list)


def test_a_gradebook_that_fails_costs_nobody_the_marks(monkeypatch, tmp_path):
    done = Done()

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nbgrader_bridge, "add_assignments", full)
    outputs._gradebook(tmp_path, [], {}, done)
    assert done.remarks == [
        "nbgrader's gradebook.db could not be written, marks and feedback are: OSError: [Errno "
        "28] No space left on device"
    ]
