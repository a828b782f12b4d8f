"""The loss around a point of weight space: directions, the plane walked, weights that come back."""

import pytest
import torch
from assertions import assert_refused
from torch import nn

from attnbook_runs.cost.loss_surface import curvatures, loss_surface, random_directions


def net(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 6), nn.LayerNorm(6), nn.Conv1d(3, 2, 3)
    ).to(dtype)


def test_every_filter_of_a_direction_is_as_long_as_the_model_s():
    model = net()
    for direction in random_directions(model, seed=0):
        assert list(direction) == [name for name, _ in model.named_parameters()]
        for name, weight in model.named_parameters():
            if weight.dim() < 2:
                assert not direction[name].any(), "biases and norms stay"
                continue
            assert direction[name].shape == weight.shape and direction[name].dtype == weight.dtype
            for mine, filter in zip(direction[name], weight.detach()):  # a row, whatever its shape
                torch.testing.assert_close(mine.norm(), filter.norm(), rtol=1e-10, atol=1e-12)
            assert not direction[name].requires_grad
    assert direction["0.weight"][0].norm() == 0, (
        "the vector of the padding is 0, and so is its direction"
    )


def test_directions_come_from_the_seed_and_differ():
    model = net()
    (a, b), again, (c, _) = (
        random_directions(model, 0),
        random_directions(model, 0),
        random_directions(model, 1),
    )
    assert all(torch.equal(a[k], again[0][k]) and torch.equal(b[k], again[1][k]) for k in a)
    for other in (b, c):
        cosine = torch.cosine_similarity(
            a["1.weight"].flatten(), other["1.weight"].flatten(), dim=0
        )
        assert abs(cosine) < 0.9


def test_scaling_a_filter_scales_its_direction():
    model = net()
    (a, _) = random_directions(model, 0)
    with torch.no_grad():
        model[1].weight[2] *= 10
    (b, _) = random_directions(model, 0)
    torch.testing.assert_close(b["1.weight"][2], 10 * a["1.weight"][2])
    torch.testing.assert_close(b["1.weight"][[0, 1, 3, 4, 5]], a["1.weight"][[0, 1, 3, 4, 5]])


def test_a_quadratic_is_found_exactly_and_the_first_index_is_the_first_direction():
    model = net()
    d = random_directions(model, 3)
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
    one, two = (torch.cat([v.flatten() for v in direction.values()]) for direction in d)

    def bowl(m):
        moved = torch.cat([p.flatten() for p in m.parameters()]) - start
        return moved.square().sum() + moved @ one

    grid = [-1.0, -0.5, 0.0, 0.5, 1.0]
    z = loss_surface(model, d, bowl, grid)
    a = torch.tensor(grid, dtype=torch.float64)[:, None]
    b = torch.tensor(grid, dtype=torch.float64)[None]
    expected = (
        a**2 * (one @ one)
        + b**2 * (two @ two)
        + 2 * a * b * (one @ two)
        + a * (one @ one)
        + b * (one @ two)
    )
    torch.testing.assert_close(z, expected, rtol=1e-10, atol=1e-10)
    matrix = 2 * torch.stack(
        [torch.stack([one @ one, one @ two]), torch.stack([one @ two, two @ two])]
    )
    result = curvatures(z, 0.5)
    assert result.shape == (3, 3, 2)
    torch.testing.assert_close(
        result, torch.linalg.eigvalsh(matrix).expand(3, 3, 2), rtol=1e-9, atol=1e-9
    )


def test_a_saddle_bends_down_everywhere():
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    torch.testing.assert_close(
        curvatures(x[:, None] * x[None], 0.5),
        torch.tensor([-1.0, 1.0], dtype=torch.float64).expand(3, 3, 2),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_comes_back_to_the_last_bit_also_after_an_error(fails):
    # in training mode its buffers move
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).train()
    x, calls = torch.randn(6, 3), []
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def loss(m):
        calls.append(1)
        if fails and len(calls) == 3:
            raise RuntimeError("stopped")
        return m(x).square().mean()

    directions = random_directions(model, 0)
    if fails:
        with pytest.raises(RuntimeError, match="stopped"):
            loss_surface(model, directions, loss, [-1, 0, 1])
    else:
        z = loss_surface(model, directions, loss, [-1, 0, 1])
        with torch.no_grad():
            assert z[1, 1] == float(model(x).square().mean()) and z.dtype == torch.float64
        model.load_state_dict(before)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training and all(p.requires_grad and p.grad is None for p in model.parameters())


def test_a_shared_weight_moves_once():
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    directions = random_directions(model, 0)
    z = loss_surface(model, directions, lambda m: m[1].weight[0, 0], [0, 1])
    torch.testing.assert_close(
        z[1, 0], (model[0].weight + directions[0]["0.weight"])[0, 0].double(), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, d: loss_surface(m, d[:1], float, [0]), "directions"),
        (lambda m, d: loss_surface(m, d, float, []), "directions"),
        (lambda m, d: loss_surface(nn.Linear(2, 2), d, float, [0]), "directions[0]"),
        (lambda m, d: curvatures(torch.zeros(2, 2), 1.0), "surface"),
        (lambda m, d: curvatures(torch.zeros(3, 5), 1.0), "surface"),
        (lambda m, d: curvatures(torch.zeros(3, 3), 0.0), "surface"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    model = net()
    assert_refused(words, call, model, random_directions(model, 0))
