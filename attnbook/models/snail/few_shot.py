"""Classes from a few examples: pictures as vectors, and two ways to compare with the examples."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...modules import full_precision
from ...validate import check_integer, check_values, check_whole, describe, is_readable, require
from .network import SNAIL

__all__ = ["Answers", "FewShotSNAIL", "PictureEmbedding", "Prototypes", "few_shot_loss"]


class Answers(NamedTuple):
    """``logits (batch, Q, ways)``; a SNAIL's ``weights (batch, Q, S + 1)`` by part, or None."""

    logits: Tensor
    weights: tuple[Tensor | None, ...] = ()


class PictureEmbedding(nn.Module):
    """Grey pictures to vectors: four times conv 3 × 3, batch norm, max pool 2, ReLU; then linear.

    The maximum is taken before the ReLU: the result is the same, as both keep the order of numbers,
    and the ReLU has a quarter of the work. In evaluation mode the batch norms use running
    statistics, so that no picture depends on another one.

    Args:
        size: height and width of a picture in pixels, at least 2^stages.
        filters: channels of each convolution.
        d_output: width of the vectors.
        stages: how many times.

    Shapes: ``(…, size, size)``, uint8 or numbers in [0, 1] → ``(…, d_output)``, as one batch.

    Source: Vinyals et al. 2016, section 4.1; as used by Mishra et al. 2018 for Omniglot.
    """

    def __init__(
        self, size: int = 28, filters: int = 64, d_output: int = 64, stages: int = 4
    ) -> None:
        super().__init__()
        self.size, channels, layers = check_integer("size", size), 1, []
        left = size // 2 ** check_integer("stages", stages)
        require(left >= 1, f"size must be at least 2^stages = {2**stages}, got {size}")
        for _ in range(stages):
            # the norm has the bias
            layers += [
                nn.Conv2d(channels, check_integer("filters", filters), 3, padding=1, bias=False),
                nn.BatchNorm2d(filters),
                nn.MaxPool2d(2),
                nn.ReLU(),
            ]
            channels = filters
        self.stages = nn.Sequential(*layers)
        nn.utils.convert_conv2d_weight_memory_format(self.stages, torch.channels_last)
        self.output = nn.Linear(filters * left * left, check_integer("d_output", d_output))
        self.d_output = d_output

    def forward(self, pictures: Tensor) -> Tensor:
        require(
            isinstance(pictures, Tensor)
            and pictures.dim() >= 2
            and pictures.shape[-2:] == (self.size, self.size),
            f"pictures must be (…, {self.size}, {self.size}), got {describe(pictures)}",
        )
        require(
            pictures.is_floating_point() or pictures.dtype == torch.uint8,
            f"pictures must be uint8 or floating point numbers, got {pictures.dtype}",
        )
        if not pictures.is_floating_point():
            pictures = pictures.to(self.output.weight.dtype) / 255
        flat = pictures.reshape(-1, 1, self.size, self.size)
        features = self.stages(flat.contiguous(memory_format=torch.channels_last))
        return self.output(features.flatten(1)).view(*pictures.shape[:-2], self.d_output)


def _embed_episode(model, support: Tensor, labels: Tensor, query: Tensor) -> tuple[Tensor, ...]:
    """Examples ``(batch, S, d)``, queries ``(batch, Q, d)``, one-hot ``(batch, S, ways)``."""
    check_whole("labels", labels)
    require(
        all(isinstance(part, Tensor) and part.dim() == 4 for part in (support, query))
        and len(support) == len(query)
        and support.shape[1] >= 1,
        f"support must be (batch, S, size, size) with S ≥ 1 and query (batch, Q, size, size), "
        f"got {describe(support)} and {describe(query)}",
    )
    require(
        labels.shape == support.shape[:2],
        f"labels must be {tuple(support.shape[:2])}, one per support picture, got "
        f"{tuple(labels.shape)}",
    )
    check_values("labels", labels, 0, model.ways - 1)
    embedded = model.embedding(torch.cat([support, query], dim=1))  # (batch, S + Q, d)
    one_hot = F.one_hot(labels.long(), model.ways).to(embedded.dtype)
    return embedded[:, : labels.shape[1]], embedded[:, labels.shape[1] :], one_hot


class FewShotSNAIL(nn.Module):
    """A :class:`~attnbook.models.snail.network.SNAIL` that reads S labelled pictures, then a query.

    Position i ≤ S holds ``[embed(picture_i); one-hot(label_i)]``, the last one
    ``[embed(query); 0]``; the output at the last position is the answer. The label of a query is no
    argument, so nothing can depend on it. Q queries are Q sequences that share their first S
    positions: these are read once, and all pictures are embedded in one call.

    Args:
        embedding: pictures to vectors, a :class:`PictureEmbedding`.
        ways: how many classes an episode has.
        shots: most examples a class; with ``ways`` it fixes T = ways · shots + 1 of the network.
        parts: of the :class:`~attnbook.models.snail.network.SNAIL`; the paper's when not given.

    Source: Mishra et al. 2018, section 4.1 (their figure 2, left).
    """

    def __init__(
        self, embedding: PictureEmbedding, ways: int, shots: int = 1, parts: tuple | None = None
    ) -> None:
        super().__init__()
        self.embedding, self.ways = embedding, check_integer("ways", ways)
        length = ways * check_integer("shots", shots) + 1
        width = embedding.d_output + ways
        self.snail = (
            SNAIL(width, ways, length) if parts is None else SNAIL(width, ways, length, parts)
        )

    def forward(
        self, support: Tensor, labels: Tensor, query: Tensor, *, need_weights: bool = False
    ) -> Answers:
        """Answer ``query (batch, Q, …)`` from ``support (batch, S, …)``, ``labels (batch, S)``."""
        examples, queries, one_hot = _embed_episode(self, support, labels, query)
        past = self.snail(torch.cat([examples, one_hot], dim=-1)).past
        # (batch, Q, 1, d + ways)
        queries = F.pad(queries, (0, self.ways)).unsqueeze(-2)
        answered = self.snail(
            queries, SNAIL.branch(past, query.shape[1]), need_weights=need_weights
        )
        weights = tuple(None if w is None else w.squeeze(-2) for w in answered.weights)
        return Answers(answered.output.squeeze(-2), weights)


class Prototypes(nn.Module):
    """A query belongs to the class whose mean embedding lies nearest:
    ``logits_c = −‖embed(query) − mean_{i: y_i = c} embed(x_i)‖²``.

    Nothing is learned but the embedding. Every class needs an example.

    Shapes, arguments and errors as :class:`FewShotSNAIL`; and on a CPU a ``ValueError`` for a class
    without an example.

    Source: Snell, Swersky and Zemel 2017, equations 1 and 2.
    """

    def __init__(self, embedding: nn.Module, ways: int) -> None:
        super().__init__()
        self.embedding, self.ways = embedding, check_integer("ways", ways)

    def forward(
        self, support: Tensor, labels: Tensor, query: Tensor, *, need_weights: bool = False
    ) -> Answers:
        """Answer for ``query`` as :class:`FewShotSNAIL` does; there are no weights."""
        examples, queries, one_hot = _embed_episode(self, support, labels, query)
        if is_readable(labels):
            missing = (one_hot.sum(1) == 0).nonzero().tolist()
            require(
                not missing,
                f"labels must hold every class from 0 to {self.ways - 1}, missing in (episode, "
                f"class) {missing}",
            )
        means = one_hot.mT @ examples / one_hot.sum(1).unsqueeze(-1)  # (batch, ways, d)
        return Answers(-(queries[:, :, None] - means[:, None]).square().sum(-1))


def few_shot_loss(model: nn.Module, batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the queries' classes, its sum and their number, as ``fit`` expects.

    ``batch`` holds support, labels, query and answers ``(batch, Q)``, as
    :class:`attnbook.tasks.images.few_shot_episodes.EpisodeBatch`."""
    device = next(model.parameters()).device
    support, labels, query, answers = (part.to(device) for part in batch)
    logits = model(support, labels, query).logits.flatten(0, 1)
    # autocast would sum in half precision
    loss = F.cross_entropy(full_precision(logits), answers.flatten(), reduction="sum")
    return loss, torch.tensor(answers.numel(), device=device)
