"""Every kind of registered experiment on a GPU, with its trainings cut short: a tensor
left on the CPU ends a run that somebody pays for.
"""

import dataclasses
import inspect
from pathlib import Path

import pytest
from any_gpu import NIGHTLY_OR_GPU, any_gpu
from notebook_cells import short_training

from attnbook_runs import load_experiments

# Settings that make data and evaluations small; the models stay as they are registered.
FEW = {"train_pairs": 60, "test_pairs": 30, "samples": 40, "batch_size": 4}
FEW |= {"steps": 2, "test_size": 20, "seeds": 1}


def kinds():
    """One registered run for each function and class of settings that can use a GPU."""
    first = {}
    for name, experiment in load_experiments().items():
        if "device" in inspect.signature(experiment.run).parameters:
            first.setdefault((experiment.run, type(experiment.settings)), name)
    return sorted(first.values())


@NIGHTLY_OR_GPU
@pytest.mark.parametrize("name", kinds())
def test_an_experiment_runs_on_a_gpu(name, tmp_path):
    experiment = load_experiments()[name]
    fields = {field.name for field in dataclasses.fields(experiment.settings)}
    changes = {name: value for name, value in FEW.items() if name in fields}
    settings = dataclasses.replace(experiment.settings, **changes)
    wanted = inspect.signature(experiment.run).parameters.keys()
    given = {"device": "cuda", "folder": Path(tmp_path)}
    given = {name: given[name] for name in given.keys() & wanted}
    with any_gpu(), short_training(2):
        assert experiment.run(settings, seed=0, **given)


def test_there_are_many_kinds():
    assert len(kinds()) > 25
