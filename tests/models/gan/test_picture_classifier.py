"""The classifier of pictures: its layers by hand, its errors."""

import pytest
import torch
from assertions import assert_exact, refusals

from attnbook.models.gan.picture_classifier import PictureClassifier, classifier_loss


def test_the_layers_are_the_formula():
    torch.manual_seed(0)
    net = PictureClassifier(16, 3, 5, channels=4, d_feature=6).double().eval()
    pictures = torch.rand(2, 3, 16, 16, dtype=torch.float64) * 2 - 1
    z = pictures
    for layer in (net.convolutions[0], net.convolutions[2], net.convolutions[4]):
        windows = torch.nn.functional.unfold(z, 4, padding=1, stride=2)  # (B, in · 16, positions)
        side = int(windows.shape[-1] ** 0.5)
        z = (layer.weight.flatten(1) @ windows + layer.bias[:, None]).clamp_min(0)
        z = z.unflatten(-1, (side, side))
    f = (net.feature.weight @ z.flatten(1).T).T.add(net.feature.bias).clamp_min(0)
    assert_exact(net.features(pictures), f)
    assert_exact(net(pictures), f @ net.output.weight.T + net.output.bias)
    total, count = classifier_loss(net, (pictures, torch.tensor([1, 4])))
    expected = -net(pictures).log_softmax(-1)[[0, 1], [1, 4]].sum()
    assert count == 2 and total.item() == pytest.approx(expected.item())
    # no dropout in what the scores see
    assert torch.equal(net.train().features(pictures), net.eval().features(pictures))


test_errors_name_the_argument = refusals(
    ("size", lambda: PictureClassifier(12, 1, 3)),
    ("colors", lambda: PictureClassifier(16, 0, 3)),
    ("pictures", lambda: PictureClassifier(16, 1, 3)(torch.zeros(2, 3, 16, 16))),
    ("pictures", lambda: PictureClassifier(16, 1, 3)(torch.zeros(2, 1, 16, 16, dtype=torch.uint8))),
)
