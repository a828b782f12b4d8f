import ast
import importlib
import inspect
import json
import re
import shlex

import pytest
import torch
from click.testing import CliRunner

from attnbook import resources
from attnbook.cli import main
from attnbook.experiments import EXPERIMENTS, Experiment, reproduce
from attnbook.experiments.cost import attention_cost, score_cost
from attnbook.experiments.registry import _check_types, took
from attnbook.experiments.translation.length import EDGES, curve_of, make_model
from attnbook.models.rnn.common import Step
from attnbook.tasks import EOS, make_task

TINY = {
    "train_pairs": 200,
    "test_pairs": 200,
    "steps": 3,
    "d_embed": 8,
    "hidden_size": 8,
    "batch_size": 8,
}


def function_of(experiment):
    module, function = experiment.run.split(":")
    return getattr(importlib.import_module(f"attnbook.experiments.{module}"), function)


def test_a_recorded_run_says_what_made_it(tmp_path):
    path = reproduce("length-seq2seq", seed=1, out=tmp_path, device="cpu", commit="abc", **TINY)
    record = json.loads(path.read_text())
    assert path.name == "length-seq2seq.seed1.json" and list(tmp_path.iterdir()) == [path]
    assert record["seed"] == 1 and record["settings"]["steps"] == 3 and record["commit"] == "abc"
    assert record["versions"]["torch"] and record["device"] and record["seconds"] > 0
    curve = record["figures"]["curve"]
    assert [row["words"] for row in curve] == [list(edge) for edge in EDGES][: len(curve)] and len(
        curve
    ) >= 7
    assert 190 <= sum(row["sentences"] for row in curve) <= 200


def test_the_same_seed_gives_the_same_figures_and_another_seed_others(tmp_path):
    def losses(seed, folder):
        path = reproduce("length-seq2seq", seed=seed, out=tmp_path / folder, device="cpu", **TINY)
        return json.loads(path.read_text())["figures"]["last_losses"]

    assert losses(0, "a") == losses(0, "b") != losses(1, "c")


def test_every_experiment_names_a_function_and_settings_that_exist():
    for name, experiment in EXPERIMENTS.items():
        run = function_of(experiment)
        assert set(experiment.settings) <= set(run.__kwdefaults__), name
        _check_types(run, {**run.__kwdefaults__, **experiment.settings})
        if "device" in run.__kwdefaults__:
            used = {
                node.id
                for node in ast.walk(ast.parse(inspect.getsource(run)))
                if isinstance(node, ast.Name)
            }
            assert "device" in used, f"{name} has a device and does not use it"


def everything(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: object = None,
    steps: int = 1,
    rate: float = 0.1,
    text: str = "",
    fast: bool = False,
    limit: int | None = 3,
    sizes: tuple[int, ...] = (1,),
    parts: dict | None = None,
    plain=(1, 2),
):
    """An experiment with a setting of every type."""
    return {
        "seed": seed,
        "steps": steps,
        "rate": rate,
        "text": text,
        "fast": fast,
        "limit": limit,
        "sizes": sizes,
        "parts": parts,
        "plain": plain,
    }


@pytest.fixture
def experiment(monkeypatch):
    monkeypatch.setattr(attention_cost, "everything", everything, raising=False)
    monkeypatch.setitem(
        EXPERIMENTS,
        "everything",
        Experiment("attention_cost:everything", "All types", "", {}, "no time"),
    )
    return "everything"


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"device": "cpu"},
        {"seed": 3, "steps": 5, "rate": 1e-5, "fast": True, "limit": None},
        {"rate": 2, "text": 'two words, "quoted" $x'},
        {"text": "12", "sizes": (4, 5), "plain": [7]},
        {"text": "true", "parts": {"a": [1, None], "b": "é"}},
        {"text": "[1"},
        {"text": "null"},
    ],
)
def test_the_recorded_command_gives_the_run_again(experiment, tmp_path, overrides):
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


@pytest.mark.parametrize(
    "setting, words",
    [
        ("steps=ten", "steps: got 'ten', expected int"),
        ("steps=1e3", "steps: got 1000.0, expected int"),
        ("steps=true", "steps: got True, expected int"),
        ("rate=fast", "rate: got 'fast', expected float"),
        ("text=5", "text: got 5, expected str"),
        ("fast=1", "fast: got 1, expected bool"),
        ("limit=none", "limit: got 'none', expected int | None"),
        ("sizes=5", "sizes: got 5, expected tuple[int, ...]"),
        ("sizes=ab", "sizes: got 'ab', expected tuple[int, ...]"),
        ('sizes=[1, "b"]', "sizes: got [1, 'b'], expected tuple[int, ...]"),
        ("parts=[1]", "parts: got [1], expected dict | None"),
        ("plain=x", "plain: got 'x', expected tuple"),
    ],
)
def test_a_setting_of_another_type_is_named_before_the_run(experiment, tmp_path, setting, words):
    result = CliRunner().invoke(
        main, ["reproduce", experiment, "--set", setting, "--out", str(tmp_path / "x")]
    )
    assert (
        result.exit_code == 1
        and result.output == f"Error: {words}\n"
        and not (tmp_path / "x").exists()
    )


class Reader(torch.nn.Module):
    """Knows the target of every source: what a perfect model would say."""

    def __init__(self, task, pairs):
        super().__init__()
        self.none, self.size = torch.nn.Parameter(torch.zeros(1)), len(task.target_vocab)
        self.answers = {
            tuple(task.source_vocab.encode(pair.source)): [
                *task.target_vocab.encode(pair.target),
                EOS,
            ]
            for pair in pairs
        }

    def encode(self, source, lengths):
        answers = [
            self.answers[tuple(row[:n])]
            for row, n in zip(source.tolist(), lengths.tolist(), strict=True)
        ]
        return torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(answer) for answer in answers], batch_first=True, padding_value=EOS
        )

    def start(self, memory):
        return torch.zeros(len(memory), dtype=torch.long)

    def step(self, token, state, memory):
        said = memory.gather(1, state[:, None])[:, 0]
        return Step(torch.nn.functional.one_hot(said, self.size) * 9.0 + self.none, state + 1, None)


def test_the_curve_counts_exact_answers_of_a_perfect_and_of_a_silent_model():
    task = make_task("phrases", train=20, valid=0, test=40, seed=0, phrases=(1, 3))
    net = make_model("seq2seq", task, d_embed=4, hidden_size=4)
    assert all(row["exact"] == 0 for row in curve_of(net, task.test, task))
    perfect = Reader(task, task.test)
    assert len(perfect.answers) == 40
    rows = curve_of(perfect, task.test, task)
    groups = [
        [pair for pair in task.test if low <= len(pair.source) <= high] for low, high in EDGES
    ]
    assert rows == [
        {"words": list(edge), "sentences": len(group), "exact": 1.0, "token": 1.0}
        for edge, group in zip(EDGES, groups, strict=True)
        if group
    ]
    assert len(rows) >= 3 and sum(row["sentences"] for row in rows) == 40


def test_one_wrong_word_costs_one_answer_and_one_token_of_its_row():
    task = make_task("phrases", train=20, valid=0, test=40, seed=0, phrases=(1, 3))
    model, pair = Reader(task, task.test), task.test[0]
    answer = model.answers[tuple(task.source_vocab.encode(pair.source))]
    answer[-2] = next(
        word for word in task.target_vocab.encode(task.test[1].target) if word != answer[-2]
    )
    for row in curve_of(model, task.test, task):
        low, high = row["words"]
        wrong = low <= len(pair.source) <= high
        tokens = sum(len(other.target) for other in task.test if low <= len(other.source) <= high)
        assert row["exact"] == round(1 - wrong / row["sentences"], 4) and row["token"] == round(
            1 - wrong / tokens, 4
        )


def test_the_command_line_reproduces_and_names_mistakes(tmp_path):
    run = CliRunner().invoke
    options = [f"--set={key}={value}" for key, value in TINY.items()]
    result = run(
        main, ["reproduce", "length-seq2seq", "--out", str(tmp_path), "--device", "cpu", *options]
    )
    assert result.exit_code == 0 and json.loads(
        (tmp_path / "length-seq2seq.seed0.json").read_text()
    )
    for arguments, words in (
        (["nothing"], "name must be one of"),
        (["length-seq2seq", "--set", "depth=3"], "got depth"),
        (["length-seq2seq", "--set", "steps"], "expected KEY=VALUE"),
        (["length-seq2seq", "--set", "folder=x"], "got folder"),
        (
            ["length-seq2seq", "--set", "seed=3"],
            "seed is no setting of an experiment; it is given as --seed",
        ),
        (
            ["length-seq2seq", "--set", "name=x"],
            "name is no setting of an experiment; it is given as NAME",
        ),
        (["length-seq2seq", "--device", "toaster"], "got 'toaster'"),
        (["score-cost", "--device", "toaster"], "got 'toaster'"),
        (["attention-cost", "--device", "toaster"], "got 'toaster'"),
        (["attention-cost", "--device", "mps"], "device: got 'mps', expected 'cpu'"),
    ):
        result = run(main, ["reproduce", *arguments, "--out", str(tmp_path / "x")])
        assert result.exit_code != 0 and words in result.output
    (tmp_path / "file").touch()
    result = run(main, ["reproduce", "length-seq2seq", "--out", str(tmp_path / "file" / "x")])
    assert result.exit_code != 0 and result.output.startswith("Error: ")
    listed = run(main, ["experiments"]).output
    assert "length-bahdanau" in listed
    seconds = [
        json.loads(resources.text(f"results/far-parts-none.seed{seed}.json"))["seconds"]
        for seed in range(3)
    ]
    assert took("far-parts-none") == sorted(s / 60 for s in seconds)
    assert re.search(
        rf"^far-parts-none .* about 3 minutes on one CPU core · took {min(seconds) / 60:.0f} to "
        rf"{max(seconds) / 60:.0f} min$",
        listed,
        re.MULTILINE,
    )


@pytest.mark.parametrize("gpu", [False, True])
def test_the_recorded_device_is_the_one_that_it_ran_on(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("torch.cuda.device_count", lambda: int(gpu))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"a GPU, {device}")
    one = "a GPU, cuda" if gpu else "CPU"
    for module, kind, device in (
        (score_cost, "score-cost", one),
        (attention_cost, "attention-cost", "CPU"),
    ):

        def nothing(**given):
            return {}

        nothing.__kwdefaults__ = module.cost.__kwdefaults__
        monkeypatch.setattr(module, "cost", nothing)
        assert device in json.loads(reproduce(kind, out=tmp_path).read_text())["device"]
    with pytest.raises(
        ValueError, match=f"device must be one of the {int(gpu)} CUDA GPUs .* got 'cuda:1'"
    ):
        reproduce("score-cost", out=tmp_path, device="cuda:1")


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_recorded_results_are_of_their_experiment(name):
    for seed in range(3):
        try:
            path = resources.path(f"results/{name}.seed{seed}.json")
        except (FileNotFoundError, ValueError):
            continue
        record = json.loads(path.read_text())
        assert (
            record["name"] == name
            and record["seed"] == seed
            and record["commit"]
            and record["device"]
        )
        run = function_of(EXPERIMENTS[name])
        _check_types(
            run,
            {key: value for key, value in record["settings"].items() if key in run.__kwdefaults__},
        )
