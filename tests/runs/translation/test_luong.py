import pytest
from assertions import assert_refused
from scipy.stats import spearmanr

from attnbook_runs.translation.luong import (
    PAPER_PERPLEXITY,
    SYSTEMS,
    Multi30kSettings,
    multi30k,
    spearman,
)

TINY = dict(train_pairs=60, test_pairs=20, steps=2, d_embed=6, hidden_size=6)


def test_the_rank_correlation_is_scipys():
    for a, b in (
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]),
        ([6.4, 6.1, 6.1, 7.0], [1.2, 1.1, 1.4, 1.3]),
        ([1, 1, 2, 2], [1, 2, 2, 2]),
    ):
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    for a, b in (([1.0], [1.0]), ([1, 2], [1, 2, 3]), ([1, 1], [1, 2])):
        with pytest.raises(ValueError, match="a and b must"):
            spearman(a, b)


@pytest.mark.parametrize("name", ["luong-ranking", "luong-ranking-phrases"])
def test_the_ranking_trains_all_eight_systems_alike(figures_of, name):
    figures = figures_of(name, **TINY, batch_size=8)
    rows = figures["systems"]
    assert [row["system"] for row in rows] == list(SYSTEMS) == list(PAPER_PERPLEXITY)
    assert all(
        row["perplexity"] > 1 and 0 <= row["exact"] <= 1 and 0 <= row["alignment_accuracy"] <= 1
        for row in rows
    )
    parameters = {row["system"]: row["parameters"] for row in rows}
    d = TINY["hidden_size"]
    assert parameters["global (general)"] - parameters["global (dot)"] == d * d
    assert parameters["local-m (dot)"] == parameters["global (dot)"]
    # W and v of the position
    assert parameters["local-p (dot)"] - parameters["global (dot)"] == d * d + d
    assert -1 <= figures["rank_correlation"] <= 1


def test_an_unknown_system_is_refused():
    assert_refused("system", lambda: multi30k(Multi30kSettings(system="local-q (dot)")))


def test_the_windows_of_each_start_are_watched(figures_of):
    tiny = {**TINY, "steps": 5, "looks": (0, 3), "warmups": (1, 4)}
    one, again, other = (
        figures_of("luong-local-p-starts", seed=seed, **tiny)["rows"] for seed in (0, 0, 1)
    )
    assert [row["warmup"] for row in one] == [1, 4] and one == again != other
    for row in one:
        assert [look["step"] for look in row["track"]] == [0, 3, 5]
        assert all(
            -1 <= look["correlation"] <= 1 and 0 <= look["inside"] <= 1 for look in row["track"]
        )
    assert one[0]["track"][0] == one[1]["track"][0], "one start"
    # Untrained windows stand in the middle: half of a source of 12 words or more is out of the
    # reach of seven.
    assert 0.3 < one[0]["track"][0]["inside"] < 0.8
