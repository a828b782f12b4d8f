"""The list of runs for a GPU: tried here with short runs on the CPU."""

import json

import pytest
from click.testing import CliRunner

from attnbook.cli import main
from attnbook_runs import gpu, load_experiments
from attnbook_runs.gpu import RUNS, GpuRun, run_list

TINY = tuple("train_pairs=200 test_pairs=200 steps=40 d_embed=8 hidden_size=8 batch_size=8".split())
SHORT = GpuRun("length-seq2seq", 0.1, 0, TINY)


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setattr(gpu, "_tests", lambda end: "gpu tests: 8 passed")
    return []


def test_every_run_of_the_list_is_registered_for_a_gpu_and_no_name_stands_twice():
    experiments = load_experiments()
    assert all("GPU" in experiments[run.name].minutes for run in RUNS)
    assert len({(run.name, run.seed) for run in RUNS}) == len(RUNS)
    assert all(0 < run.minutes <= 60 for run in RUNS)


def test_runs_are_done_in_their_order_and_what_has_a_result_is_passed_over(tmp_path, lines):
    other = SHORT._replace(seed=1)
    left = run_list(5, device="cpu", out=tmp_path, runs=[SHORT, other], say=lines.append)
    assert left == [] and lines[0] == "gpu tests: 8 passed"
    assert [line.split(" in ")[0] for line in lines[1:]] == ["length-seq2seq: done"] * 2
    records = sorted(tmp_path.iterdir())
    assert [path.name for path in records] == [f"length-seq2seq.seed{n}.json" for n in (0, 1)]
    # as if a GPU had made it
    record = json.loads(records[0].read_text())
    records[0].write_text(json.dumps({**record, "device": "NVIDIA H200"}))
    lines.clear()
    long = SHORT._replace(name="length-bahdanau", minutes=90)
    left = run_list(5, device="cpu", out=tmp_path, runs=[SHORT, long], say=lines.append)
    assert left == [long]
    assert lines[1:] == ["length-seq2seq: has a result", "next: length-bahdanau (about 90 min)"]


def test_a_run_that_does_not_end_in_time_goes_on_in_the_next_call(tmp_path, lines, monkeypatch):
    monkeypatch.setattr(gpu, "_was_begun", lambda out, run: True)  # else it would not be started
    endless = SHORT._replace(changes=(*TINY[:2], "steps=10000000"))
    left = run_list(0.02, device="cpu", out=tmp_path, runs=[endless], say=lines.append)
    assert left == [endless] and not list(tmp_path.glob("*.json"))
    assert lines[1] == "length-seq2seq: stopped after 0 min; the next call goes on with it"


def test_a_run_that_fails_says_why_and_the_next_one_is_done(tmp_path, lines):
    wrong = SHORT._replace(changes=("steps=many",))
    left = run_list(5, device="cpu", out=tmp_path, runs=[wrong, SHORT], say=lines.append)
    assert left == [wrong] and lines[1].startswith("length-seq2seq: failed, ")
    assert "steps must be int" in lines[1] and lines[2].startswith("length-seq2seq: done")


def test_the_command_asks_for_a_gpu_and_minutes(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for words, message in (
        (["gpu", "--minutes", "5"], "cuda"),
        (["gpu", "--minutes", "0", "--device", "cpu"], "minutes must be a finite number > 0"),
        (["gpu"], "--minutes"),
    ):
        result = CliRunner().invoke(main, words)
        assert result.exit_code and message in result.output
