"""A small classifier of pictures: it classifies samples and gives the features of the scores."""

from torch import Tensor, nn

from ...validate import check_integer, require
from ..vision.vision_transformer import check_pictures

__all__ = ["PictureClassifier", "classifier_loss"]


class PictureClassifier(nn.Module):
    """Three convolutions that halve the side, a layer of features, and a linear classifier.

    ``z = three times relu(conv 4×4, stride 2)``,  ``f = relu(W z + b)``,  ``logits = V f + c``

    The features f see where things are: z is no mean over positions. Dropout of half of f.

    Args:
        size: side of the pictures, a multiple of 8.
        colors: channels of the pictures.
        num_classes: ``K``.
        channels: of the first convolution; 2 and 4 times as many in the others.
        d_feature: width of f.

    Shapes: pictures ``(batch, colors, size, size)`` from −1 to 1 → logits ``(batch, K)``;
    :meth:`features` gives f ``(batch, d_feature)``.
    """

    def __init__(
        self, size: int, colors: int, num_classes: int, *, channels: int = 16, d_feature: int = 64
    ) -> None:
        super().__init__()
        self.size, self.colors = check_integer("size", size, 8), check_integer("colors", colors)
        require(size % 8 == 0, f"size must be a multiple of 8, got {size}")
        stages, before = [], colors
        for width in (check_integer("channels", channels), 2 * channels, 4 * channels):
            stages += [nn.Conv2d(before, width, 4, stride=2, padding=1), nn.ReLU()]
            before = width
        self.convolutions = nn.Sequential(*stages, nn.Flatten())
        self.feature = nn.Linear(before * (size // 8) ** 2, check_integer("d_feature", d_feature))
        self.dropout = nn.Dropout(0.5)
        self.output = nn.Linear(d_feature, check_integer("num_classes", num_classes))

    def features(self, pictures: Tensor) -> Tensor:
        """f: ``(batch, colors, size, size)`` → ``(batch, d_feature)``."""
        check_pictures(pictures, self.colors, self.size, self.size)
        return self.feature(self.convolutions(pictures)).relu()

    def forward(self, pictures: Tensor) -> Tensor:
        return self.output(self.dropout(self.features(pictures)))


def classifier_loss(model: nn.Module, batch) -> tuple[Tensor, int]:
    """Summed cross-entropy of a batch (pictures, labels), and how many pictures: for ``fit``."""
    pictures, labels = batch
    return nn.functional.cross_entropy(model(pictures), labels, reduction="sum"), len(labels)
