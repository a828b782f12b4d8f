"""`fit` on a `DataLoader`: the batches of a plain loop over it, also after a run was stopped."""

from collections import UserDict

import numpy as np
import pytest
import torch
from assertions import assert_refused
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from attnbook.training import fit
from attnbook.training.loop.loader_batches import LoaderBatches

ROWS, STEPS = 10, 11  # three batches of four, four and two an epoch: it ends in the fourth


class Noisy(TensorDataset):
    """Numbers with noise from the global generators of PyTorch and NumPy."""

    def __getitem__(self, index):
        (x,) = super().__getitem__(index)
        return x + 0.01 * torch.rand(()) + 0.01 * np.random.rand()


class Endless(IterableDataset):
    def __iter__(self):
        yield from torch.arange(float(ROWS))


class Once(IterableDataset):
    """What can be read once, such as a socket."""

    def __init__(self):
        self.rest = iter(torch.arange(4.0))

    def __iter__(self):
        return self.rest


class Backwards(Sampler):
    def __init__(self):
        pass

    def __iter__(self):
        return iter(range(ROWS)[::-1])

    def __len__(self):
        return ROWS


def data(kind=TensorDataset):
    return kind(torch.arange(float(ROWS)))


def seeded(seed=5):
    return torch.Generator().manual_seed(seed)


def load(kind=TensorDataset, **options):
    return DataLoader(data(kind), 4, **options)


def shuffled(kind=TensorDataset, **options):
    return load(kind, shuffle=True, generator=seeded(), **options)


def in_batches(sampler):
    return DataLoader(data(), batch_sampler=BatchSampler(sampler, 4, False))


WEIGHTS = [1.0] * 5 + [3.0] * 5
LOADERS = {
    "in order": load,
    "shuffled by its generator": shuffled,
    "without the last": lambda: shuffled(drop_last=True),
    "drawn with a generator of the sampler": lambda: load(
        sampler=RandomSampler(data(), replacement=True, generator=seeded())
    ),
    "weighted, in batches of the caller": lambda: in_batches(
        WeightedRandomSampler(WEIGHTS, 9, generator=seeded())
    ),
    "some of them": lambda: load(sampler=SubsetRandomSampler(range(2, 9), generator=seeded())),
    "a list of indices": lambda: load(sampler=[3, 1, 4, 1, 5]),
    "one example after the other": lambda: DataLoader(
        TensorDataset(torch.arange(12.0).view(4, 3)),
        batch_size=None,
        sampler=RandomSampler(range(4), generator=seeded()),
    ),
    "two workers": lambda: shuffled(num_workers=2),
}
"""Loaders whose order the seed of `fit` does not change."""
OF_THE_SEED = {
    "shuffled": lambda: load(shuffle=True),
    "noisy": lambda: load(Noisy, shuffle=True),
    "noisy, in order": lambda: load(Noisy),
    "noisy, with a generator": lambda: shuffled(Noisy),
    "noisy workers": lambda: load(Noisy, shuffle=True, num_workers=2),
}


def make_model():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(1, 3), torch.nn.Dropout(0.5), torch.nn.Linear(3, 1)
        )


def train(loader, steps=STEPS, model=None, **options):
    """The batches on which a model was trained, the model, and the history."""
    seen, model = [], model or make_model()

    def loss(model, batch):
        x = batch[0] if isinstance(batch, list | tuple) else batch
        seen.append(x.tolist())
        return model(x.view(-1, 1)).square().sum(), len(x)

    history = fit(model, loader, loss, steps=steps, progress=False, device="cpu", **options)
    return seen, model, history


def plain_loop(loader, steps):
    seen = []
    while len(seen) < steps:
        for batch in loader:
            seen.append((batch[0] if isinstance(batch, list | tuple) else batch).tolist())
    return seen[:steps]


@pytest.mark.parametrize("name", LOADERS)
def test_the_batches_are_those_of_a_plain_loop_in_every_call(name):
    loader = LOADERS[name]()
    for seed in (0, 1):
        assert train(loader, seed=seed)[0] == plain_loop(LOADERS[name](), STEPS)


@pytest.mark.parametrize("name", OF_THE_SEED)
def test_what_comes_from_the_global_generators_depends_on_the_seed_of_fit_alone(name):
    def run(seed, caller):
        torch.manual_seed(caller), np.random.seed(caller)
        return train(OF_THE_SEED[name](), seed=seed)[0], torch.rand(()).item()

    (first, after), (again, after_too), (other, _) = run(3, 1), run(3, 1), run(4, 1)
    assert first == again == run(3, 2)[0] != other and after == after_too
    assert first[:3] != first[3:6]  # another epoch
    for epoch in (first[:3], first[3:6]):
        assert sorted(round(x - 0.01) for batch in epoch for x in batch) == list(range(ROWS))
    torch.manual_seed(1)
    assert after == torch.rand(()).item()


def test_a_loader_does_not_change_the_random_numbers_of_the_training():
    """Dropout is that of a run on the same batches without a loader."""

    class Given:
        def __init__(self, batches):
            self.batches = [torch.tensor(batch) for batch in batches]

        def batch(self, step):
            return self.batches[step]

    seen, model, history = train(OF_THE_SEED["noisy"](), seed=3)
    _, other, same = train(Given(seen), seed=3)
    assert history.losses == same.losses
    assert torch.equal(model[0].weight, other[0].weight)


def stopped_and_resumed(make, folder, at, **options):
    seen, _, _ = train(make(), steps=at, checkpoint_dir=folder, **options)
    rest, model, history = train(make(), checkpoint_dir=folder, **options)
    assert history.resumed_from == at
    return seen + rest, model, history


@pytest.mark.parametrize(
    ("name", "at"),
    [
        (name, at)
        for name in [*LOADERS, *OF_THE_SEED]
        # in an epoch, at the end of one, within the next, and before the last batch of one
        for at in ([4] if "workers" in name else [1, 3, 4, 8])
    ],
)
def test_a_run_that_was_stopped_goes_on_with_the_same_batches(name, at, tmp_path):
    make = {**LOADERS, **OF_THE_SEED}[name]
    seen, model, history = train(make(), checkpoint_dir=tmp_path / "whole")
    again, resumed, same = stopped_and_resumed(make, tmp_path / "parts", at)
    assert again == seen == train(make())[0]
    assert history.losses == same.losses and torch.equal(model[0].weight, resumed[0].weight)


def test_the_same_loader_may_go_on(tmp_path):
    """In a notebook the generator is not made anew between two calls."""
    loader = shuffled()
    again, _, _ = stopped_and_resumed(lambda: loader, tmp_path, 5)
    assert again == plain_loop(shuffled(), STEPS)


def test_an_epoch_that_was_read_is_not_read_again_when_a_run_goes_on(tmp_path):
    class Counted(TensorDataset):
        asked = 0

        def __getitem__(self, index):
            Counted.asked += 1
            return super().__getitem__(index)

    train(shuffled(Counted), steps=STEPS - 1, checkpoint_dir=tmp_path)
    Counted.asked = 0
    train(shuffled(Counted), checkpoint_dir=tmp_path)
    # the first batch, for comparison, and the last epoch up to the last step
    assert Counted.asked == 4 + 8


def test_another_order_is_another_run(tmp_path):
    train(shuffled(), checkpoint_dir=tmp_path)
    other = load(shuffle=True, generator=seeded(6))
    assert_refused("checkpoint_dir", train, other, checkpoint_dir=tmp_path)


@pytest.mark.parametrize(
    ("loader", "order"),
    [
        (lambda: DataLoader(Endless(), 4), "the IterableDataset Endless"),
        (lambda: load(sampler=Backwards()), "the sampler Backwards"),
        (lambda: in_batches(Backwards()), "the sampler Backwards"),
        (lambda: load(sampler=DistributedSampler(data(), 1, 0)), "the sampler DistributedSampler"),
    ],
)
def test_an_order_that_no_seed_gives_is_trained_on_and_not_saved(loader, order, tmp_path):
    assert train(loader())[0] == plain_loop(loader(), STEPS)
    message = f"checkpoint_dir must be None for a DataLoader whose order no seed gives, .* {order}"
    with pytest.raises(ValueError, match=message):
        train(loader(), checkpoint_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_loader_without_a_batch_is_named():
    assert_refused("batches", lambda: train(DataLoader(data(), 20, drop_last=True)))
    assert_refused("batches", lambda: train(DataLoader(Once(), 4)))


def test_batches_of_any_mapping_are_dicts():
    """Such as those of a tokenizer of transformers."""

    class Tokens(UserDict):
        pass

    loader = load(collate_fn=lambda rows: Tokens(x=torch.stack([r[0] for r in rows])))
    seen = []

    def loss(model, batch):
        seen.append(batch)
        return model(batch["x"].view(-1, 1)).sum(), len(batch["x"])

    fit(make_model(), loader, loss, steps=1, micro_batch=3, progress=False)
    assert seen == [{"x": seen[0]["x"]}, {"x": seen[1]["x"]}]
    assert [len(batch["x"]) for batch in seen] == [3, 1]


def test_an_error_leaves_the_generator_as_it_was():
    loader = shuffled()
    before = loader.generator.get_state()
    with pytest.raises(ZeroDivisionError):
        fit(make_model(), loader, lambda model, batch: 1 / 0, steps=2, progress=False)
    assert torch.equal(loader.generator.get_state(), before)


def test_an_earlier_step_is_found_again():
    batches = LoaderBatches(shuffled(), 0)
    first = [batches.batch(step)[0].tolist() for step in range(7)]
    for step in (6, 2, 3, 0):
        assert batches.batch(step)[0].tolist() == first[step]
