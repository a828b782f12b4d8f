"""Induction heads: two layers find them, one cannot, and what is recorded is what heads do."""

SMALL = dict(symbols=24, shortest=4, longest=8, length=16, batch_size=64)
SMALL |= dict(learning_rate=1e-2, steps=150, every=50)


def test_two_layers_go_on_with_what_stood_there_before(figures_of):
    found = figures_of("induction-heads", **SMALL)
    assert found["repeated_loss"] < 0.5 < 2.4 < found["new_loss"]
    assert [point[0] for point in found["curve"]] == [0, 50, 100, 150]
    first, second = found["prefix_matching"][-1]
    assert min(second) > 0.6 and max(first) < 0.25
    assert max(found["previous_token"][-1][0]) > 0.4 > max(found["previous_token"][0][0])
    assert 0 < found["drop"][0] <= found["drop"][1] <= 150
    # what carries it
    by_first, by_second = found["without_head"]
    assert max(by_first) > 1 and min(by_second) > 2 * found["repeated_loss"]
    assert min(found["without_layer"]) > 2.4 and found["swapped"][1][0] > 2
    shares = found["patching"]["share"]
    assert abs(sum(shares[1]) - 1) < 0.1 and max(map(abs, shares[0])) < 0.05


def test_one_layer_does_not_reach_it(figures_of):
    found = figures_of("induction-heads-one-layer", **SMALL)
    assert found["repeated_loss"] > 1.5
    assert max(found["prefix_matching"][-1][0]) < 0.5
