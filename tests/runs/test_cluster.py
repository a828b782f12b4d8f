"""Recorded runs on the workers of a Dask scheduler."""

import json
import sys

import pytest
from click.testing import CliRunner
from small_models import TINY_RUN as TINY

from attnbook.cli import main
from attnbook_runs import cluster, registry, reproduce
from attnbook_runs.cluster import RunsFailed, reproduce_on


@pytest.fixture(scope="module")
def scheduler():
    """Two workers of a Dask cluster on this machine."""
    distributed = pytest.importorskip("distributed", reason="the extra for clusters")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address=None, silence_logs=50
    ) as workers:
        yield workers.scheduler_address


@pytest.mark.slow
def test_workers_give_the_figures_and_the_weights_of_this_computer(scheduler, tmp_path):
    changes = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    names, seeds = ["length-seq2seq", "length-bahdanau"], [0, 1]
    command = ["reproduce", *names, "--seed", "0", "--seed", "1", "--device", "cpu", *changes]
    there = ["--commit", "abc", "--out", str(tmp_path), "--scheduler", scheduler]
    done = CliRunner().invoke(main, [*command, *there])
    assert done.exit_code == 0, done.output
    expected = {f"{name}.seed{seed}.json" for name in names for seed in seeds}
    assert {path.name for path in tmp_path.iterdir()} == expected
    here = reproduce("length-seq2seq", seed=1, out=tmp_path / "here", device="cpu", **TINY)
    first, again = (json.loads((p / here.name).read_text()) for p in (here.parent, tmp_path))
    for key in ("name", "seed", "settings", "command"):
        assert first[key] == again[key]
    assert again["figures"]["last_losses"] == first["figures"]["last_losses"]
    assert again["commit"] == "abc"


@pytest.mark.slow
def test_a_run_that_fails_takes_no_other_along(scheduler, tmp_path):
    runs = [("length-seq2seq", 0), ("length-seq2seq", 1)]
    bad = {**TINY, "device": "cpu", "batch_size": 0}
    with pytest.raises(RunsFailed, match="^2 of 2 runs failed: .* with seed 0: batch_size"):
        list(reproduce_on(scheduler, runs, out=tmp_path, **bad))


def test_mistakes_are_named_before_a_scheduler_is_asked(tmp_path):
    for arguments, words in (
        (["length-seq2sec"], "lists, such as 'length-seq2seq'"),
        (["length-seq2seq", "length-seq3seq"], "got 'length-seq3seq'"),
        (["length-seq2seq", "--set", "steps=x"], "steps must be int, got 'x'"),
    ):
        options = ["--out", str(tmp_path / "x"), "--scheduler", "tcp://127.0.0.1:1"]
        done = CliRunner().invoke(main, ["reproduce", *arguments, *options])
        assert done.exit_code == 1 and words in done.output and not (tmp_path / "x").exists()


def test_an_address_without_a_scheduler(monkeypatch, tmp_path):
    pytest.importorskip("distributed", reason="the extra for clusters")
    monkeypatch.setattr("attnbook.scheduler._TIMEOUT", 1)
    with pytest.raises(ValueError, match="^scheduler: no Dask scheduler answers at 'tcp://127"):
        list(reproduce_on("tcp://127.0.0.1:1", [("length-seq2seq", 0)], out=tmp_path))


def test_without_dask_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    command = ["reproduce", "length-seq2seq", "--scheduler", "tcp://127.0.0.1:1"]
    done = CliRunner().invoke(main, [*command, "--out", str(tmp_path)])
    assert done.exit_code == 1 and 'pip install "attnbook[cluster]"' in done.output


def test_a_worker_with_other_code_does_not_run(monkeypatch):
    monkeypatch.setattr(registry, "reproduce", lambda *a, **k: pytest.fail("it ran"))
    with pytest.raises(ValueError, match="another version of the library than this computer"):
        cluster._run("other", "length-seq2seq", 0, "cpu", "abc", {})


def test_what_a_run_stores_comes_back(monkeypatch):
    def stores(name, *, seed, out, **options):
        for file in ("weights.safetensors", registry.record_name(name, seed)):
            (tmp := cluster.Path(out) / file).write_bytes(file.encode())
        return tmp

    monkeypatch.setattr(registry, "reproduce", stores)
    files = cluster._run(registry._source(), "one", 3, "cpu", "abc", {})
    assert files == {f: f.encode() for f in ("one.seed3.json", "weights.safetensors")}
