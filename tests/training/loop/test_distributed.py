"""Two processes under `accelerate launch` reach the weights of one on the same global batches."""

import pytest
import torch
from assertions import assert_refused
from processes import free_port, launch
from scripts import distributed
from training_doubles import CopyBatches

from attnbook.training import token_loss
from attnbook.training.loop.nested import rows_of
from attnbook.training.loop.processes import join_processes


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranks")
    # With --cpu the launcher starts one process only, unless there is MPI; --multi_gpu starts as
    # many as asked for, and `fit` joins them by gloo where there is no GPU.
    launcher = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher += ["--main_process_port", str(free_port())]
    launch(launcher, distributed.__file__, str(place))
    return [torch.load(place / f"rank_{rank}.pt") for rank in range(2)], place


def largest_difference(first, second):
    return max((first[name] - second[name]).abs().max().item() for name in first)


@pytest.mark.parametrize(
    "name",
    ["float64", "float32", "uneven rows", "one row", "parts", "averaged", "loader", "checkpoints"],
)
def test_two_processes_equal_one(ranks, name, tmp_path):
    tolerance = 1e-5 if name == "float32" else 1e-10
    alone = distributed.run(name, tmp_path / "checkpoints")
    (first, second), _ = ranks
    assert first["world"] == 2
    for rank in (first[name], second[name]):
        assert largest_difference(rank["weights"], alone["weights"]) < tolerance
        assert rank["history"]["losses"] == pytest.approx(alone["history"]["losses"], abs=tolerance)
        assert rank["history"]["grad_norms"] == pytest.approx(
            alone["history"]["grad_norms"], abs=tolerance
        )
    assert largest_difference(first[name]["weights"], second[name]["weights"]) == 0
    started = distributed.make_model(seed=0, dtype=torch.float64).state_dict()
    moved = {key: alone["weights"][key].double() for key in started}
    assert largest_difference(started, moved) > 1e-2


def test_the_mean_of_the_means_of_processes_would_be_another_run(monkeypatch, tmp_path):
    """The rows have so different numbers of tokens that the tests above can tell the two apart."""
    batch = CopyBatches(6).batch(2)
    counts = [int((rows_of(batch, rank, 2).target_out != 0).sum()) for rank in range(2)]
    assert abs(counts[0] - counts[1]) >= 3
    right = distributed.run("float64", tmp_path)["weights"]

    def mean_of_means(model, batch):
        parts = [token_loss(model, rows_of(batch, rank, 2)) for rank in range(2)]
        return sum(total / count for total, count in parts) / 2, 1

    monkeypatch.setattr(distributed, "token_loss", mean_of_means)
    wrong = distributed.run("float64", tmp_path)["weights"]
    assert largest_difference(right, wrong) > 1e-4


def test_rows_are_shared_out_once_each():
    batch = CopyBatches(7).batch(0)
    parts = [rows_of(batch, rank, 3) for rank in range(3)]
    assert [len(part.source) for part in parts] == [3, 2, 2]
    assert torch.equal(
        torch.cat([part.source for part in parts]), batch.source[[0, 3, 6, 1, 4, 2, 5]]
    )
    assert torch.equal(parts[1].lengths, batch.lengths[1::3])


def test_checkpoints_of_two_processes_resume(ranks):
    (first, second), place = ranks
    for rank in (first, second):
        assert rank["checkpoints"]["history"]["resumed_from"] == 3
        assert [step for step, _ in rank["checkpoints"]["history"]["evaluations"]] == [4, 8]
    kept = sorted(path.name for path in (place / "checkpoints").iterdir())
    assert kept == ["step_000006", "step_000008"]


def test_checkpoints_of_two_processes_are_refused_in_one(ranks):
    assert_refused("checkpoint_dir", distributed.run, "checkpoints", ranks[1] / "checkpoints")


def test_buffers_are_those_of_the_main_process(ranks):
    for rank in ranks[0]:
        assert rank["running statistics"]["weights"]["seen"] == 8 * 3


def test_an_error_in_one_process_is_raised_in_both(ranks):
    for rank in ranks[0]:
        assert "was not written" in rank["errors"]["full disk"]
        assert "No space left" in rank["errors"]["full disk"]
        assert "loss must be finite, got nan at step 0" in rank["errors"]["nan"]
        assert "batches must be the same in all 2 processes" in rank["errors"]["other batches"]
    assert list((ranks[1] / "full").iterdir()) == []


@pytest.mark.parametrize("sharded", ["false", "true"])
def test_a_launch_that_shards_the_weights_or_trains_each_process_alone_is_refused(
    sharded, monkeypatch
):
    """Accelerate, told of a GPU type, leaves processes on the CPU unconnected; `fit` must not go
    on then. (Older versions of Accelerate refuse it themselves.)
    """
    from accelerate import PartialState

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", sharded)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    try:
        assert_refused("launch", join_processes, None)
    finally:
        PartialState._reset_state()
