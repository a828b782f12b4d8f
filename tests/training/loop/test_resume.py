"""Checkpoints: a run that was killed ends where one that was not stopped does, to the last bit."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from assertions import assert_refused
from patience import HANGS
from training_doubles import CopyBatches, assert_same_state, make_model
from training_doubles import train as short

from attnbook.training import token_loss
from attnbook.training.loop import resume
from attnbook.training.loop.settings import describe


def evaluate(model):
    return model.readout.weight.norm().item() + torch.rand(()).item()


OPTIONS = dict(learning_rate=0.01, schedule="cosine", clip_norm=0.5, seed=3, steps=12)
OPTIONS |= dict(save_every=4, evaluate=evaluate, evaluate_every=5)


def train(directory, model=None, **options):
    model = model or make_model(dropout=0.4)
    return short(model, **{**OPTIONS, "checkpoint_dir": directory, **options})


def assert_equal_runs(first, second):
    assert_same_state(first[0], second[0])
    for name in ("losses", "grad_norms", "evaluations", "steps"):
        assert getattr(first[1], name) == getattr(second[1], name)


KILL = getattr(signal, "SIGKILL", 9)  # on Windows os.kill ends the process with this number


def names(directory):
    return sorted(path.name for path in directory.iterdir())


class Killed(CopyBatches):
    """Batches that kill the process, as `kill -9` does, when those of one step are asked for."""

    def batch(self, step):
        if step == 11:
            os.kill(os.getpid(), KILL)
        return super().batch(step)


def test_resume_after_kill_9_is_exact(tmp_path):
    uninterrupted = train(tmp_path / "whole")
    program = (
        f"import sys; sys.path[:0] = {[str(Path(__file__).parents[k]) for k in (0, 1)]!r}\n"
        # as many threads as here: another number adds the same terms in another order
        f"from pathlib import Path\nimport torch; "
        f"torch.set_num_threads({torch.get_num_threads()})\n"
        "import test_resume\ntest_resume.train(Path(sys.argv[1]), batches=test_resume.Killed())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "killed")],
        env=environment,
        capture_output=True,
        timeout=HANGS,
    )
    assert done.returncode in (-KILL, KILL), done.stderr.decode()
    assert names(tmp_path / "killed") == ["step_000004", "step_000008"]
    resumed = train(tmp_path / "killed")
    assert resumed[1].resumed_from == 8
    assert_equal_runs(resumed, uninterrupted)


@pytest.mark.parametrize(("owner", "name"), [(torch, "save"), (os, "fsync"), (os, "replace")])
def test_stopped_while_a_checkpoint_is_written(tmp_path, monkeypatch, owner, name):
    """A kill inside the writing of step 8 leaves step 4 whole; the run goes on from there."""
    whole, cut, real = train(tmp_path / "whole"), tmp_path / "cut", getattr(owner, name)

    class Kill(BaseException):
        pass

    def stop(*arguments, **options):
        if (cut / "step_000004").exists() and list(cut.glob(".step_000008*")):
            # the dead do not tidy up
            monkeypatch.setattr(resume.shutil, "rmtree", lambda *a, **k: None)
            raise Kill
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, stop)
    with pytest.raises(Kill):
        train(cut)
    monkeypatch.undo()
    assert len(names(cut)) == 2  # the whole one, and what was begun
    resumed = train(cut)
    assert resumed[1].resumed_from == 4
    assert names(cut) == ["step_000008", "step_000012"]
    assert_equal_runs(resumed, whole)


def test_what_a_dead_process_left_is_removed_and_other_files_are_no_checkpoints(tmp_path):
    for name in (".step_000008.999999.tmp", ".step_000002.old.tmp", "notes"):
        (tmp_path / name).mkdir()
    (tmp_path / "step_000007").write_text("a file")
    train(tmp_path, steps=4)
    assert names(tmp_path) == ["notes", "step_000004", "step_000007"]
    assert resume.checkpoints_in(tmp_path) == [tmp_path / "step_000004"]


def test_a_run_in_two_parts_equals_one(tmp_path):
    whole = train(tmp_path / "whole", schedule=None)
    train(tmp_path / "parts", steps=5, schedule=None, evaluate_every=5)
    parts = train(tmp_path / "parts", steps=12, schedule=None)
    assert parts[1].resumed_from == 5
    assert_equal_runs(parts, whole)


def test_known_wrong_resumes_differ(tmp_path, monkeypatch):
    """Restarting the data, forgetting the optimizer, reseeding the dropout: each is another run."""
    losses = train(tmp_path / "whole", schedule=None)[1].losses

    class Restarted(CopyBatches):
        def batch(self, step):
            return super().batch(step % 5)

    def run(name, **options):
        train(tmp_path / name, steps=5, schedule=None)
        return train(tmp_path / name, steps=12, schedule=None, **options)[1]

    assert run("right").losses == losses
    restarted = run("data", batches=Restarted()).losses
    assert restarted[:5] == losses[:5] and restarted[5] != losses[5]
    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.Adam, "load_state_dict", lambda self, state: None)
        forgotten = run("optimizer").losses
    assert forgotten[5] == losses[5] and forgotten[6:] != losses[6:]
    with monkeypatch.context() as patched:
        patched.setattr(
            "attnbook.training.loop.temporary_state.set_random_state", lambda state: None
        )
        assert run("random").losses[5] != losses[5]


def test_a_finished_run_is_returned_as_it_is(tmp_path):
    first = train(tmp_path)
    again = train(tmp_path, make_model(1, dropout=0.4))
    assert_equal_runs(first, again)
    assert again[1].resumed_from == 12


@pytest.mark.parametrize(("every", "kept"), [(2, [6, 8, 9]), (None, [9])])
def test_the_newest_are_kept_and_the_end_is(tmp_path, every, kept):
    train(tmp_path / "deep" / "er", steps=9, save_every=every, keep_checkpoints=3)
    assert names(tmp_path / "deep" / "er") == [f"step_{step:06d}" for step in kept]


def test_a_damaged_newer_one_does_not_push_out_what_is_written_after_it(tmp_path):
    train(tmp_path, steps=8, schedule=None)
    truncate(tmp_path / "step_000008")

    def stop(model):
        if model.training is False:
            raise KeyboardInterrupt

    again = {"schedule": None, "save_every": 1, "keep_checkpoints": 1}
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(KeyboardInterrupt):
        train(tmp_path, evaluate=stop, evaluate_every=7, **again)
    assert names(tmp_path) == ["step_000006", "step_000008"]
    with pytest.warns(UserWarning, match="damaged"):
        assert train(tmp_path, **again)[1].resumed_from == 6
    assert names(tmp_path) == ["step_000012"]


def with_tanh():
    model = make_model()
    model.dropout = torch.nn.Tanh()
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.02}, r"learning_rate: \[0.01\] .*, \[0.02\] in this call"),
        ({"schedule": "linear"}, "schedule: factor 0.98.* at step 1 .*, 0.91.* in this call"),
        ({"clip_norm": None}, "clip_norm: 0.5 in the checkpoint, None in this call"),
        ({"seed": 4}, "seed: 3 in the checkpoint, 4 in this call"),
        ({"optimizer": "adamw"}, "optimizer: 'Adam' in the checkpoint, 'AdamW' in this call"),
        (
            {"optimizer": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.5, 0.9))},
            "optimizer groups: .*0.999.*0.5",
        ),
        ({"precision": "bf16"}, "precision: 'no' in the checkpoint, 'bf16' in this call"),
        (
            {"loss": partial(token_loss, label_smoothing=0.1)},
            r"loss: 'token_loss' .* 'token_loss\(label_smoothing=0.1\)'",
        ),
        ({"batches": CopyBatches(seed=9)}, "first batch: "),
        (
            {"model": make_model(target_size=9)},
            r"target.weight is \(7, 8\) in the file and \(9, 8\) in the model",
        ),
        (
            {"model": torch.nn.Linear(2, 2)},
            "model: 'TinyAttention' in the checkpoint, 'Linear'.*the model lacks source.weight",
        ),
        ({"model": make_model(dtype=torch.float64)}, "dtypes: .*float32.*float64"),
        ({"steps": 20}, "schedule: factor"),
        ({"model": make_model(dropout=0.1)}, "dropout.p: 0.4 in the checkpoint, 0.1 in this call"),
        ({"model": make_model(dropout=0.4, sharpness=2.0)}, "sharpness: 1.0 .*, 2.0 in this call"),
        ({"model": with_tanh()}, "dropout: Dropout in the checkpoint, Tanh in this call"),
        (
            {"optimizer": lambda p: torch.optim.Adam(p[1:], lr=0.01)},
            "source.weight: trained in the checkpoint, frozen in this call",
        ),
        ({"micro_batch": 2}, "micro_batch: None in the checkpoint, 2 in this call"),
        ({"average": 0.5}, "average: None in the checkpoint, 0.5 in this call"),
        ({"reduction": "sequence"}, "reduction: 'mean' .*, 'sequence' in this call"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change, message):
    train(tmp_path, steps=12)
    before = names(tmp_path)
    with pytest.raises(ValueError, match="got step_000012 of another run.*" + message):
        train(tmp_path, **change)
    assert names(tmp_path) == before


def change(path, edit):
    """Another manifest."""
    content = json.loads((path / "manifest.json").read_text())
    edit(content)
    (path / "manifest.json").write_text(json.dumps(content))


def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(tmp_path):
    """What it does not hold is not compared."""
    train(tmp_path, steps=4, schedule=None)
    change(tmp_path / "step_000004", lambda content: content["settings"].pop("modules"))
    assert train(tmp_path, schedule=None)[1].resumed_from == 4


def test_another_device_or_torch_is_a_warning(tmp_path):
    train(tmp_path, steps=4, schedule=None)
    change(tmp_path / "step_000004", lambda content: content["settings"].update(device="cuda"))
    with pytest.warns(UserWarning, match="written with device cuda, this run has cpu"):
        assert train(tmp_path, schedule=None)[1].resumed_from == 4


def test_fewer_steps_than_were_made_and_a_directory_that_is_a_file(tmp_path):
    train(tmp_path / "run", steps=6, schedule=None)
    assert_refused("steps", train, tmp_path / "run", steps=5, schedule=None)
    (tmp_path / "file").write_text("")
    assert_refused("checkpoint_dir", train, tmp_path / "file")


def truncate(path):
    data = (path / "state.pt").read_bytes()
    (path / "state.pt").write_bytes(data[: len(data) // 2])


def flip(path):
    data = bytearray((path / "state.pt").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "state.pt").write_bytes(bytes(data))


def unreadable(path):
    state = b"not a state"
    (path / "state.pt").write_bytes(state)
    digest = {"bytes": len(state), "sha256": hashlib.sha256(state).hexdigest()}
    change(path, lambda content: content["files"].update({"state.pt": digest}))


DAMAGES = {
    "bytes of": truncate,
    "SHA-256": flip,
    "": unreadable,
    "FileNotFoundError": lambda path: (path / "manifest.json").unlink(),
    "JSONDecodeError": lambda path: (path / "manifest.json").write_text("{"),
    "KeyError": lambda path: (path / "manifest.json").write_text(json.dumps({"files": {}})),
    "KeyError..settings": lambda path: change(path, lambda content: content.pop("settings")),
    "TypeError": lambda path: change(path, lambda content: content.update(files={"state.pt": 5})),
    "KeyError..bytes": lambda path: change(path, lambda c: c.update(files={"state.pt": {}})),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, message):
    whole = train(tmp_path / "whole")
    train(tmp_path / "run")
    DAMAGES[message](tmp_path / "run" / "step_000012")
    with pytest.warns(
        UserWarning, match=f"step_000012 is damaged: .*{message}.*an earlier checkpoint is tried"
    ):
        resumed = train(tmp_path / "run")
    assert resumed[1].resumed_from == 8
    assert_equal_runs(resumed, whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert train(tmp_path / "run")[1].resumed_from == 12  # written anew, whole


def test_numbers_of_numpy_are_the_same_settings(tmp_path):
    """A size from a table, or a rate from a grid, is in a checkpoint as if it had been typed."""
    numbers = dict(steps=8, seed=3, micro_batch=4, save_every=4, keep_checkpoints=1)
    numbers |= dict(evaluate_every=2, learning_rate=0.25, clip_norm=0.5, weight_decay=0.125)
    numbers |= dict(warmup_steps=2, average=0.5)
    of_numpy = {
        name: (np.int64 if isinstance(value, int) else np.float32)(value)
        for name, value in numbers.items()
    }
    whole = train(tmp_path / "a", **numbers)
    assert_equal_runs(train(tmp_path / "b", **of_numpy), whole)
    assert train(tmp_path / "b", **numbers)[1].resumed_from == 8
    assert train(tmp_path / "a", **of_numpy)[1].resumed_from == 8
    model = make_model(dropout=0.4)
    model.dropout.p, model.sharpness = np.float64(0.4), np.float32(1)
    assert train(tmp_path / "a", model=model, **of_numpy)[1].resumed_from == 8


def test_numbers_of_numpy_do_not_spoil_a_checkpoint(tmp_path):
    options = dict(
        evaluate=lambda model: {"mean": np.mean([1.0, 2.0]), "all": [np.float32(0.5), np.int64(3)]},
        schedule=lambda k: np.sqrt(1 / (k + 1)),
    )
    whole = train(tmp_path / "whole", **options)
    train(tmp_path / "run", steps=8, **options)
    resumed = train(tmp_path / "run", **options)
    assert resumed[1].resumed_from == 8
    assert_same_state(resumed[0], whole[0])
    value = resumed[1].evaluations[-1][1]
    assert value == {"mean": 1.5, "all": [0.5, 3]}
    assert [type(number) for number in (value["mean"], *value["all"])] == [float, float, int]


class Silent:
    """A loss whose `repr` holds an address."""

    def __call__(self, model, batch):
        return token_loss(model, batch)


class Told(Silent):
    def __init__(self, weight):
        self.weight = weight

    def __repr__(self):
        return f"Told({self.weight})"


def test_a_loss_has_the_same_name_in_every_process(tmp_path):
    assert describe(partial(Silent(), penalty=names)) == "Silent(penalty=names)"
    given = partial(token_loss, Silent(), label_smoothing=0.1)
    assert describe(given) == "token_loss(Silent, label_smoothing=0.1)"
    train(tmp_path, loss=Told(1), steps=4, schedule=None)
    assert train(tmp_path, loss=Told(1), steps=8, schedule=None)[1].resumed_from == 4
    assert_refused("checkpoint_dir", lambda: train(tmp_path, loss=Told(2), steps=12, schedule=None))


def test_when_all_are_damaged(tmp_path):
    train(tmp_path)
    for path in tmp_path.iterdir():
        truncate(path)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="where all are damaged"):
        train(tmp_path)


def test_full_disk_leaves_the_earlier_checkpoint_and_a_clear_error(tmp_path, monkeypatch):
    train(tmp_path, steps=4, schedule=None)
    before = (tmp_path / "step_000004" / "state.pt").read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(
            OSError, match="checkpoint of step 8 was not written, earlier ones stay: No space left"
        ) as caught:
            train(tmp_path, steps=12, schedule=None)
    assert caught.value.errno == errno.ENOSPC and "step_000008" in caught.value.filename
    assert names(tmp_path) == ["step_000004"]
    assert (tmp_path / "step_000004" / "state.pt").read_bytes() == before
    assert train(tmp_path, steps=12, schedule=None)[1].resumed_from == 4


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of directories")
def test_one_process_at_a_time_trains_in_a_folder(tmp_path):
    with resume.sole_writer(tmp_path):
        (tmp_path / ".step_000004.1.tmp").mkdir()  # being written
        assert_refused("checkpoint_dir", train, tmp_path)
        assert names(tmp_path) == [".step_000004.1.tmp"]
    with pytest.raises(ZeroDivisionError):  # an error lets it go
        train(tmp_path, evaluate=lambda model: 1 / 0)
    train(tmp_path)
    with resume.sole_writer(tmp_path):
        assert train(tmp_path)[1].resumed_from == 12  # a finished run is only read


def test_a_folder_that_cannot_be_written_is_noticed_before_the_training(tmp_path):
    (tmp_path / "file").write_text("")

    def loss(model, batch):
        raise AssertionError("trained")

    with pytest.raises(OSError, match="checkpoint_dir cannot be written"):
        train(tmp_path / "file" / "run", loss=loss)


def test_checkpoints_hold_no_code():
    """They are read with weights_only: a checkpoint from a stranger cannot run anything."""
    assert "weights_only=True" in Path(resume.__file__).read_text()


def test_a_batch_of_any_strides_can_be_written_down(tmp_path):
    """A column of a transposed tensor counts as contiguous and cannot be viewed as bytes."""

    class Columns:
        def batch(self, step):
            x = torch.arange(8.0).view(1, 8).t()
            return x.expand(8, 3), x

    def loss(model, batch):
        return (model(batch[0]) - batch[1]).square().sum(), 8

    _, history = short(torch.nn.Linear(3, 1), Columns(), loss, checkpoint_dir=tmp_path)
    assert history.steps == 2 and names(tmp_path)
