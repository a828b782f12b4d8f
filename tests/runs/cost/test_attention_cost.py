import time

import pytest
import torch

from attnbook_runs.cost.attention_cost import (
    KINDS,
    Settings,
    best_milliseconds,
    cost,
    kept_numbers,
    layers,
    operations,
)


def test_the_best_of_some_rounds_in_turn(monkeypatch):
    order, now = [], 100.0

    def takes(name, *milliseconds):
        def call():
            nonlocal now
            now += milliseconds[order.count(name)] / 1e3
            order.append(name)

        return call

    monkeypatch.setattr(time, "process_time", lambda: now)
    found = best_milliseconds(
        {"short": takes("short", 1, 4, 3, 2), "long": takes("long", 5, 20, 30, 40)}, rounds=3
    )
    assert order == ["short", "long"] * 4
    assert found == {"short": pytest.approx(2), "long": pytest.approx(20)}, "warm-up does not count"


def test_operations_are_those_of_the_formulas():
    for n, d in ((32, 16), (64, 16), (32, 64)):
        made, x = layers(n, d, rank=8), torch.randn(1, n, d)
        assert operations(lambda: made[KINDS[0]](x)) == 2 * (4 * n * d * d + 2 * n * n * d)
        # where a fused kernel runs there is nothing to count
        assert operations(lambda: made["RNN"](x)) in (0, 2 * 2 * n * d * d)


def test_numbers_kept_are_counted_once_and_without_parameters():
    x, w = torch.randn(5, 7, requires_grad=True), torch.randn(7, 3, requires_grad=True)
    assert kept_numbers(lambda: x @ w, [w]) == 35 and kept_numbers(lambda: x @ w) == 35 + 21
    assert kept_numbers(lambda: (x * x).sum()) == 35


def test_attention_without_weights_and_linformer_keep_numbers_in_proportion_to_the_length():
    kept = {}
    for n in (512, 1024):
        made, x = layers(n), torch.randn(1, n, 64)
        for kind in KINDS:
            kept.setdefault(kind, []).append(kept_numbers(lambda: made[kind](x)))
    growth = {kind: long / short for kind, (short, long) in kept.items()}
    assert growth["attention, weights kept"] > 3 and all(growth[kind] < 2.1 for kind in KINDS[1:])


def test_a_recorded_measurement_has_a_row_a_kind():
    found = cost(Settings(lengths=(16, 32), width=16, rounds=1))
    assert found["lengths"] == [16, 32] and "MALLOC_MMAP_MAX_" in found["allocator"]
    for what in ("milliseconds", "kept"):
        assert set(found[what]) == set(KINDS)
        assert all(len(row) == 2 and min(row) > 0 for row in found[what].values())
    with pytest.raises(RuntimeError, match="ended with status"):
        cost(Settings(lengths=(0,), rounds=1))
