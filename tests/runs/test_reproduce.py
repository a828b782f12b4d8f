"""The registry, the record of a run and the command line."""

import ast
import dataclasses
import dis
import inspect
import json
import re
import shlex
import subprocess
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
from assertions import assert_refused
from click.testing import CliRunner
from small_models import TINY_RUN as TINY

import attnbook_runs
from attnbook import resources
from attnbook.cli import main
from attnbook_runs import Experiment, load_experiments, registry, reproduce
from attnbook_runs.translation.length import EDGES

EXPERIMENTS = load_experiments()
RECORDED = sorted(resources.path("results").glob("*.seed[0-9].json"))
DRIFTED = {
    **dict.fromkeys(("captions-none", "captions-soft", "captions-soft-overlap"), "entropy_weight"),
    "snail-omniglot": "checkpoint",
}
"""Settings that were changed after the record, and that its figures do not depend on: the entropy
is a term of hard attention alone."""


def test_a_record_says_what_made_it(tmp_path):
    path = reproduce("length-seq2seq", seed=1, out=tmp_path, device="cpu", commit="abc", **TINY)
    record = json.loads(path.read_text())
    assert path.name == "length-seq2seq.seed1.json" and list(tmp_path.iterdir()) == [path]
    assert record["seed"] == 1 and record["settings"]["steps"] == 3 and record["commit"] == "abc"
    assert record["versions"]["torch"] and record["device"] and record["seconds"] > 0
    curve = record["figures"]["curve"]
    assert [row["words"] for row in curve] == [list(edge) for edge in EDGES][: len(curve)]
    assert len(curve) >= 7
    assert 190 <= sum(row["sentences"] for row in curve) <= 200


def test_the_same_seed_gives_the_same_figures_and_another_seed_others(tmp_path):
    def losses(seed, folder):
        path = reproduce("length-seq2seq", seed=seed, out=tmp_path / folder, device="cpu", **TINY)
        return json.loads(path.read_text())["figures"]["last_losses"]

    assert losses(0, "a") == losses(0, "b") != losses(1, "c")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_run_is_registered_with_its_settings(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    name, seed = path.stem.rsplit(".seed", 1)
    assert (record["name"], record["seed"]) == (name, int(seed)) and record["commit"]
    assert name in EXPERIMENTS, f"no module registers {name}, of which {path.name} is a record"
    settings = EXPERIMENTS[name].settings
    fields = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    recorded = {k: v for k, v in record["settings"].items() if k != DRIFTED.get(name)}
    assert recorded.items() <= json.loads(json.dumps(fields)).items()


RUNS = {f"{e.run.__module__}.{e.run.__qualname__}": e.run for e in EXPERIMENTS.values()}


@pytest.mark.parametrize("run", [RUNS[name] for name in sorted(RUNS)], ids=sorted(RUNS))
def test_an_experiment_has_settings_a_test_and_a_device_that_it_uses(run):
    module = inspect.getmodule(run)
    (cls,) = {type(e.settings) for e in EXPERIMENTS.values() if e.run is run}
    assert cls.__dataclass_params__.frozen
    assert set(get_type_hints(cls)) == {field.name for field in dataclasses.fields(cls)}
    if "device" in inspect.signature(run).parameters:
        assert "device" in {step.argval for step in dis.get_instructions(run)}, "device is not used"
    stem = module.__name__.removeprefix("attnbook_runs.").replace(".", "/")
    path = Path(__file__).parent / stem
    test = path.with_name(f"test_{path.name}.py")
    assert test.is_file(), f"{module.__name__} needs a test: {test}"


def test_every_module_is_found_by_walking_the_package():
    folder = Path(attnbook_runs.__file__).parent
    called = re.compile(r"^ *register(_family)?\(", re.M)
    registering = {path for path in folder.rglob("*.py") if called.search(path.read_text())}
    registering.remove(folder / "registry.py")
    assert registering == {Path(inspect.getfile(e.run)) for e in EXPERIMENTS.values()}


def test_what_reads_recorded_weights_is_named_load():
    """Notebooks' figures are compared across machines unless they come from such a call, which is
    recognised by its name."""
    runs = {(inspect.getmodule(e.run).__file__, e.run.__name__) for e in EXPERIMENTS.values()}
    readers = set()
    for path in Path(attnbook_runs.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            source = ast.unparse(node)
            public = isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
            reads = "load_model_weights(" in source and "resources.path(" in source
            if public and reads and (str(path), node.name) not in runs:
                readers.add(node.name)
    assert readers and all(name.startswith("load_") for name in readers)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A setting of every type."""

    steps: int = 1
    rate: float = 0.1
    text: str = ""
    fast: bool = False
    limit: int | None = 3
    sizes: tuple[int, ...] = (1,)
    parts: dict[str, Any] | None = None


def everything(settings, *, seed=0, device="cpu", folder=None):
    return {"seed": seed, **vars(settings)}


def on_the_cpu(settings, *, seed=0, folder=None):
    return {}


@pytest.fixture
def experiment(monkeypatch):
    for name, run in (("everything", everything), ("on-the-cpu", on_the_cpu)):
        monkeypatch.setitem(
            registry._EXPERIMENTS, name, Experiment(run, Settings(), "All types", "no time")
        )
    return "everything"


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"device": "cpu"},
        {"seed": 3, "steps": 5, "rate": 1e-5, "fast": True, "limit": None},
        {"rate": 2, "text": 'two words, "quoted" $x'},
        {"text": "12", "sizes": (4, 5)},
        {"text": "true", "parts": {"a": [1, None], "b": "é"}},
        {"text": "[1"},
        {"text": "null"},
    ],
)
def test_the_recorded_command_repeats_the_run(experiment, tmp_path, overrides):
    first = json.loads(reproduce(experiment, out=tmp_path / "a", **overrides).read_text())
    program, *words = shlex.split(first["command"])
    result = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "b")])
    (path,) = (tmp_path / "b").iterdir()
    again = json.loads(path.read_text())
    assert program == "attnbook" and result.exit_code == 0
    assert all(
        first[key] == again[key] for key in ("name", "seed", "settings", "figures", "command")
    )
    assert ("--device cpu" in first["command"]) == ("device" in overrides)


WRONG = "steps=1e3 steps=true rate=x text=5 fast=1 limit=none parts=[1]".split()


@pytest.mark.parametrize("setting", [*WRONG, 'sizes=[1, "b"]'])
def test_a_setting_of_another_type_is_refused_before_the_run(experiment, tmp_path, setting):
    out, given = tmp_path / "x", ["reproduce", experiment, "--set", setting]
    result = CliRunner().invoke(main, [*given, "--out", str(out)])
    assert result.exit_code == 1 and not out.exists()
    assert result.output.startswith(f"Error: {setting.partition('=')[0]} must be ")


def test_a_name_is_registered_once():
    assert_refused(
        "name", registry.register, "ntm-copy", everything, Settings(), title="", minutes=""
    )


def test_the_command_line_names_mistakes(experiment, tmp_path):
    run = CliRunner().invoke
    for arguments, words in (
        (["ntm-copi"], "`attnbook experiments` lists, such as 'ntm-copy', "),
        (["nothing-of-the-kind"], "`attnbook experiments` lists, got 'nothing-of-the-kind'"),
        ([experiment, "--set", "depth=3"], "setting of everything must be one of 'steps'"),
        ([experiment, "--set", "steps"], "KEY=VALUE"),
        ([experiment, "--set", "folder=x"], "got 'folder'"),
        ([experiment, "--set", "seed=3"], "seed is no setting of an experiment"),
        ([experiment, "--set", "name=x"], "name is no setting of an experiment"),
        ([experiment, "--device", "toaster"], "toaster"),
        (["on-the-cpu", "--device", "mps"], "mps"),
    ):
        result = run(main, ["reproduce", *arguments, "--out", str(tmp_path / "x")])
        assert result.exit_code != 0 and words in result.output
    (tmp_path / "file").touch()
    result = run(main, ["reproduce", experiment, "--out", str(tmp_path / "file" / "x")])
    assert result.exit_code != 0 and result.output.startswith("Error: ")


def test_the_list_has_the_times_of_recorded_runs():
    listed = CliRunner().invoke(main, ["experiments"]).output
    files = [f"results/far-parts-none.seed{seed}.json" for seed in range(3)]
    minutes = sorted(json.loads(resources.text(file))["seconds"] / 60 for file in files)
    assert registry.recorded_minutes("far-parts-none") == minutes
    took = rf"took {minutes[0]:.0f} to {minutes[-1]:.0f} min"
    line = rf"^far-parts-none .* about 3 minutes on one CPU core · {took}$"
    assert re.search(line, listed, re.MULTILINE)


@pytest.mark.parametrize("gpu", [False, True])
def test_the_recorded_device_is_the_one_that_it_ran_on(experiment, tmp_path, monkeypatch, gpu):
    for name, answer in (
        ("is_available", lambda: gpu),
        ("device_count", lambda: int(gpu)),
        ("get_device_name", lambda device: f"a GPU, {device}"),
        ("get_device_properties", lambda device: SimpleNamespace(total_memory=80 * 2**30)),
        ("max_memory_allocated", lambda device: 3 * 2**29),
    ):
        monkeypatch.setattr(f"torch.cuda.{name}", answer)
    for name, device in ((experiment, "a GPU, cuda" if gpu else "CPU"), ("on-the-cpu", "CPU")):
        record = json.loads(reproduce(name, out=tmp_path).read_text())
        assert device in record["device"] and ("gpu" in record) == ("GPU" in device)
        if "gpu" in record:
            assert (record["gpu"]["memory_gb"], record["gpu"]["peak_gb"]) == (80, 1.5)
            assert record["gpu"]["tf32"] is False and record["gpu"]["driver"]
    assert_refused("device", reproduce, experiment, out=tmp_path, device="cuda:1")


def test_a_run_that_was_stopped_goes_on_to_the_same_figures(tmp_path, monkeypatch):
    from attnbook.training.loop.model_run import ModelRun

    given = {**TINY, "steps": 40, "device": "cpu", "commit": "abc", "resume": True}
    whole = json.loads(reproduce("length-seq2seq", out=tmp_path / "a", **given).read_text())
    update, steps = ModelRun.update, []

    def stopped(self, step, *rest):
        steps.append(step)
        if step == 25:
            raise KeyboardInterrupt
        return update(self, step, *rest)

    monkeypatch.setattr(ModelRun, "update", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduce("length-seq2seq", out=tmp_path / "b", **given)
    (folder,) = (tmp_path / "b").iterdir()
    assert folder.name.startswith(".length-seq2seq.seed0.") and steps[-1] == 25
    monkeypatch.setattr(ModelRun, "update", lambda *args: steps.append(args[1]) or update(*args))
    path = reproduce("length-seq2seq", out=tmp_path / "b", **given)
    assert steps[26:] == [*range(24, 40)] and list((tmp_path / "b").iterdir()) == [path]
    figures = json.loads(path.read_text())["figures"]
    for key in ("last_losses", "curve"):
        assert figures[key] == whole["figures"][key]


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True)


def test_a_commit_is_dirty_where_the_library_is(tmp_path):
    package = tmp_path / "attnbook"
    package.mkdir()
    (package / "one.py").write_text("x = 1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    (tmp_path / "text.md").write_text("no run reads this")
    clean = registry._commit(tmp_path)
    assert clean != "unknown" and not clean.endswith("-dirty")
    (package / "two.py").write_text("never added")
    assert registry._commit(tmp_path) == f"{clean}-dirty"


@pytest.fixture
def folders(monkeypatch):
    """The folders of checkpoints that runs were given."""
    seen = []
    monkeypatch.setattr(
        "attnbook_runs.common.resumable", lambda folder: seen.append(folder.name) or nullcontext()
    )
    return seen


def test_uncommitted_code_is_never_resumed(experiment, tmp_path, folders):
    reproduce(experiment, out=tmp_path, commit="abc-dirty", resume=True)
    assert folders == []


def test_without_a_commit_a_run_goes_on_with_the_same_code(
    experiment, tmp_path, folders, monkeypatch
):
    for source in ("a", "a", "b"):
        monkeypatch.setattr(registry, "_source", lambda source=source: source)
        reproduce(experiment, out=tmp_path, commit="unknown", resume=True)
    assert folders[0] == folders[1] != folders[2]


@pytest.mark.parametrize("package", ["attnbook/models", "attnbook_runs"])
def test_the_source_is_every_module(tmp_path, package):
    seen = set()
    (tmp_path / package).mkdir(parents=True)
    for text in ("x = 1", "x = 2"):
        (tmp_path / package / "model.py").write_text(text)
        seen |= {registry._source(tmp_path), registry._source(tmp_path)}
    assert len(seen) == 2


def test_the_commit_is_that_of_the_book_alone(tmp_path):
    """Not that of a project in whose environment the package is installed."""
    assert registry._commit() != "unknown" or not Path(".git").exists()
    packages = tmp_path / ".venv" / "site-packages"
    (packages / "attnbook_runs").mkdir(parents=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-qm", "a", "--allow-empty")
    assert registry._commit(packages) == "unknown"


def test_a_record_of_other_settings_is_not_overwritten_without_a_word(experiment, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reproduce(experiment, out=tmp_path, sizes=(2, 3))
        reproduce(experiment, out=tmp_path, sizes=(2, 3))
    with pytest.warns(UserWarning, match="everything.seed0.json holds a run of other settings"):
        reproduce(experiment, out=tmp_path)


def replace_run(monkeypatch, name, run):
    changed = dataclasses.replace(registry._EXPERIMENTS[name], run=run)
    monkeypatch.setitem(registry._EXPERIMENTS, name, changed)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that nobody can write")
def test_a_folder_that_cannot_be_written_is_noticed_before_the_run(experiment, monkeypatch):
    replace_run(monkeypatch, experiment, lambda settings, *, seed=0: pytest.fail("it ran"))
    with pytest.raises(OSError, match="out cannot be written"):
        reproduce(experiment, out="/proc/self")


def test_a_package_that_is_missing_is_named_without_a_traceback(experiment, monkeypatch, tmp_path):
    def missing(settings, *, seed=0):
        raise ImportError("BLEU needs sacrebleu: pip install 'attnbook[translate]'")

    replace_run(monkeypatch, experiment, missing)
    result = CliRunner().invoke(main, ["reproduce", experiment, "--out", str(tmp_path)])
    assert result.exit_code == 1 and result.output.startswith("Error: BLEU needs sacrebleu: ")
