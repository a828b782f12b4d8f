"""The instruments of the cost of scores: they time the formula and see the memory that is there."""

import pytest
import torch

from attnbook import AdditiveScore, ScaledDotScore, attend
from attnbook_runs.cost import score_cost


def test_what_is_measured_is_attention():
    query, key = torch.randn(3, 8).double(), torch.randn(5, 8).double()
    additive = AdditiveScore(8, 8, 8).double()
    parts = (
        additive.query_projection.weight.T,
        additive.key_projection.weight.T,
        additive.vector.weight[0],
    )
    for kind, score in (("additive", additive), ("dot", ScaledDotScore())):
        torch.testing.assert_close(
            score_cost.plain_attention(kind, query, key, *parts), attend(score, query, key).context
        )


def test_the_peak_of_the_additive_score_holds_its_hidden_layer():
    found = score_cost.peak_mb([(64, 16), (256, 64)])
    hidden = 4 * 256 * 256 * 64 / 1e6
    assert found["additive"][1] > 0.9 * hidden > 5 * found["dot"][1]
    assert found["additive"][0] < found["additive"][1]


def test_a_child_that_fails_is_reported():
    with pytest.raises(RuntimeError, match="'additive' ended with status"):
        score_cost.peak_mb([(0, -1)])


def test_the_record_has_one_number_for_each_size():
    found = score_cost.cost(score_cost.Settings(lengths=(8, 16), widths=(4,), width=4, length=8))
    assert found["over_length"]["sizes"] == [[8, 4], [16, 4]]
    assert found["over_width"]["sizes"] == [[8, 4]]
    for part in found.values():
        for what in ("milliseconds", "peak_mb"):
            assert [len(part[what][kind]) for kind in score_cost.KINDS] == [len(part["sizes"])] * 2
        assert min(part["milliseconds"]["dot"]) > 0
