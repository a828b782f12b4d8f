"""A vision transformer beside convolutions: what is counted, and the form of a tiny run."""

import torch
from torch import nn

from attnbook_runs.images import patches_or_convolutions as patches


def test_both_networks_have_about_the_same_number_of_parameters():
    counts = [
        sum(p.numel() for p in patches.make_classifier(k).parameters()) for k in patches.KINDS
    ]
    assert 0.8 < counts[0] / counts[1] < 1.25


def test_the_share_of_right_classes_is_that_of_an_oracle():
    data = patches.scenes_of_one(600, seed=0)

    class Knows(nn.Module):
        def __init__(self, wrong):
            super().__init__()
            self.start, self.wrong, self.unused = 0, wrong, nn.Parameter(torch.zeros(1))

        def forward(self, pictures):
            labels = data.labels[self.start : self.start + len(pictures)].clone()
            self.start += len(pictures)
            labels[: self.wrong] = (labels[: self.wrong] + 1) % 24
            return nn.functional.one_hot(labels, 24).float()

    assert patches.share_right(Knows(0), data) == 1
    assert patches.share_right(Knows(30), data) == 1 - 60 / 600  # thirty in each part of 500


def test_a_tiny_run_leaves_figures_of_every_set_and_weights(figures_of, tmp_path):
    sizes = dict(d_model=8, num_layers=1, channels=2)
    figures = figures_of(
        "patches-or-convolutions", pictures=(8, 40), steps=2, tested=20, batch_size=16, **sizes
    )
    for kind in patches.KINDS:
        assert set(figures[kind]) == {"test", "training", "parameters"}
        assert set(figures[kind]["test"]) == set(figures[kind]["training"]) == {"8", "40"}
    assert (tmp_path / "patches-or-convolutions.seed0.safetensors").is_file()
