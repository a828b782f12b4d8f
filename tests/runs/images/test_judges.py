"""The judges of generated pictures: what is stored, and the scale of their features."""

import pytest
import torch
from assertions import assert_refused

from attnbook.tasks.images.labelled import to_floats
from attnbook.training.evaluation.sample_scores import statistics
from attnbook_runs.images import judges


@pytest.mark.parametrize("load", [judges.picture_set, judges.load_judge])
def test_an_unknown_set_is_refused(load):
    assert_refused("name", load, "cats")


def test_a_judge_is_saved_with_features_of_variance_100(tmp_path, figures_of):
    figures = figures_of("judge-far-parts", steps=20, channels=4, d_feature=8)
    assert figures["classes"] == 32 and set(figures["right"]) == {"train", "test"}
    judge = judges.load_judge("far-parts", folder=tmp_path)
    train = judges.JUDGES["far-parts"]("train")
    features = judge.features(train.pictures)
    assert float(statistics(features).covariance.trace()) == pytest.approx(100, rel=0.01)
    scaled = judge.logits(train.pictures[:50])
    net = judge.model
    with torch.no_grad():
        judges._set_spread(net, features, 400.0)
        # the logits stay
        torch.testing.assert_close(
            net.eval()(to_floats(train.pictures[:50])), scaled, atol=1e-3, rtol=1e-3
        )
        torch.testing.assert_close(
            net.features(to_floats(train.pictures[:50])), 2 * features[:50], atol=1e-3, rtol=1e-2
        )
