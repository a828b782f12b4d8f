import torch
from assertions import assert_refused

from attnbook.decoding import Step
from attnbook.models import PointerNetwork
from attnbook.training import load_model_weights
from attnbook_runs.algorithms.pointer_networks import MODELS, initialise_as_the_paper
from attnbook_runs.algorithms.sorting import make_sorter, sorted_share


class ByValue(PointerNetwork):
    """Points at the smallest number that is left, or at the largest."""

    sign = 1.0

    def encode(self, inputs, lengths):
        return (
            super()
            .encode(inputs, lengths)
            ._replace(inputs=torch.nn.functional.pad(inputs, (0, 31, 0, 1)))
        )

    def step(self, pointed, state, memory):
        out = super().step(pointed, state, memory)
        logits = torch.where(
            out.logits.isfinite(), -self.sign * 100 * memory.inputs[:, None, :, 0], -torch.inf
        )
        return Step(logits, out.state, out.weights)


def test_the_share_sorted_is_one_for_a_model_that_sorts_and_none_for_one_that_sorts_backwards():
    model = ByValue(1, 8, ends=False, d_embed=32)
    assert sorted_share(model, 6, count=50) == 1.0
    model.sign = -1.0
    assert sorted_share(model, 6, count=50) == 0.0


def test_every_number_of_a_model_starts_within_the_range_of_the_paper():
    model = initialise_as_the_paper(make_sorter("pointer", most=10))
    everything = torch.cat([p.flatten() for p in model.parameters()])
    assert everything.abs().max() <= 0.08 and everything.abs().max() > 0.079
    assert abs(float(everything.detach().mean())) < 1e-3


def test_a_recorded_run_of_sorting_holds_what_the_book_shows(tmp_path, figures_of):
    figures = figures_of(
        "pointer-sorting", steps=8, count=40, hidden_size=8, test=(5, 10, 12), checkpoint="sorter"
    )
    assert [row["model"] for row in figures["rows"]] == list(MODELS)
    assert figures["sequences"] == 8 * 128
    assert [size for size, _ in figures["rows"][0]["exact"]] == [5, 10, 12]
    assert [size for size, _ in figures["rows"][2]["exact"]] == [5, 10]  # no word for 12
    assert figures["rows"][1]["repeated_free"] > 0 and len(figures["rows"][0]["course"]) == 8
    model = make_sorter("pointer", most=10, hidden_size=8)
    load_model_weights(model, tmp_path / "sorter.seed0.safetensors")
    assert sorted_share(model, 5, count=40) == figures["rows"][0]["exact"][0][1]
    assert_refused("name", make_sorter, "bubble", most=3)
