"""Small scenes: what the labels and captions say stands in the pictures, and nowhere else."""

import pytest
import torch
from assertions import refusals
from task_data import seeded

from attnbook.tasks.images import scenes, small_scenes
from attnbook.tasks.images.labelled import to_floats

GROUND = torch.tensor(scenes.BACKGROUND)[:, None, None]


def test_the_class_is_the_kind_of_the_large_object():
    data = small_scenes.one_large(200, seed=3)
    assert data.pictures.shape == (200, 3, 48, 48) and len(data.classes) == 24
    for picture, label in zip(data.pictures, data.labels):
        colour = torch.tensor(scenes.COLOURS[data.classes[label].split()[0]])[:, None, None]
        own = (picture == colour).all(0).float()
        # over the edges too, no other object fills a column of seven pixels with one colour
        wrapped = torch.cat([own, own[:6]])
        longest = wrapped.unfold(0, 7, 1).sum(-1).max()
        filled = torch.cat([own, own[:, :6]], 1).unfold(1, 7, 1).sum(-1).max()
        assert max(longest, filled) >= 5 > 4  # of a small object at most four
    assert len(data.labels.unique()) == 24
    assert torch.equal(small_scenes.one_large(200, seed=3).pictures, data.pictures)
    assert not torch.equal(small_scenes.one_large(200, seed=4).pictures, data.pictures)


def test_fewer_cells_are_a_smaller_picture_with_all_its_objects():
    data = small_scenes.one_large(100, seed=3, small=3, cells=2)  # no cell is free
    assert data.pictures.shape == (100, 3, 16, 16)
    assert (data.pictures != GROUND).any(1).flatten(1).sum(1).min() >= 20 + 3 * 8


def test_objects_stand_in_no_grid():
    """Where a picture is not background, over many: as often at every place of a cell."""
    share = (small_scenes.one_large(600, seed=0).pictures != GROUND).any(1).float().mean(0)
    for line in (share.mean(0), share.mean(1)):
        within = line.view(-1, scenes.CELL).mean(0)
        assert within.min() > 0.9 * within.max()


@pytest.mark.parametrize("part", ["train", "test"])
def test_captions_are_those_of_what_is_drawn(part):
    data = small_scenes.two_objects(300, seed=1, part=part)
    assert torch.equal(small_scenes.read_two(to_floats(data.pictures)), data.kinds)
    vocab = scenes.vocabulary()
    for words, (upper, lower) in zip(data.words.tolist(), data.kinds.tolist()):
        assert tuple(vocab.decode(words)) == scenes.caption(upper, lower)
        assert ((upper, lower) in scenes.held_out()) == (part == "test")
    # nothing of an object is cut off: each half holds one whole object
    upper = (data.pictures != GROUND).any(1)[:, :8].flatten(1).sum(1)
    assert upper.min() >= 20


def test_reading_survives_noise_and_tells_swapped_objects():
    data = small_scenes.two_objects(200, seed=2)
    pictures = to_floats(data.pictures)
    noise = torch.randn(pictures.shape, generator=seeded())
    right = (small_scenes.read_two(pictures + 0.3 * noise) == data.kinds).float().mean()
    assert right > 0.97
    swapped = small_scenes.read_two(pictures.roll(8, dims=2))
    assert torch.equal(swapped, data.kinds.flip(1))


test_errors_name_the_argument = refusals(
    ("count", lambda: small_scenes.one_large(0, seed=0)),
    ("small", lambda: small_scenes.one_large(1, seed=0, small=36)),
    ("small", lambda: small_scenes.one_large(1, seed=0, small=9, cells=3)),
    ("cells", lambda: small_scenes.one_large(1, seed=0, cells=7)),
    ("part", lambda: small_scenes.two_objects(1, seed=0, part="all")),
    ("pictures", lambda: small_scenes.read_two(torch.zeros(1, 3, 8, 8))),
)
