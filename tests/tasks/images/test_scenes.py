"""Scenes: picture, caption and boxes agree; test scenes name pairs that training never names."""

import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks import BOS, EOS, PAD
from attnbook.tasks.images import scenes
from attnbook.tasks.images.captioned_pictures import Box, Captioned, PictureBatches, regions_of

GROUND = torch.tensor(scenes.BACKGROUND, dtype=torch.uint8)


def painted(picture):
    """Where a picture is not background: (H, W)."""
    return (picture != GROUND[:, None, None]).any(0)


@given(st.integers(0, 2**31), st.sampled_from(["train", "test"]))
def test_the_caption_names_the_two_large_objects_the_upper_one_first(seed, part):
    data = scenes.scenes(5, seed=seed, part=part)
    for picture, caption, boxes in zip(data.pictures, data.captions, data.boxes):
        assert len(caption) == len(boxes) == 7
        assert (caption[0], caption[3], caption[4]) == ("a", "above", "a")
        (upper,), (lower,) = boxes[1], boxes[5]
        assert boxes == ((), (upper,), (upper,), (), (), (lower,), (lower,))
        assert upper.bottom <= lower.top
        for box, colour, shape in ((upper, *caption[1:3]), (lower, *caption[5:7])):
            assert (box.right - box.left, box.bottom - box.top) == (scenes.LARGE, scenes.LARGE)
            inside = picture[:, box.top : box.bottom, box.left : box.right]
            # the middle of every form near the lower edge is filled with the colour
            assert tuple(inside[:, -2, 3].tolist()) == scenes.COLOURS[colour]
            corners = [bool(painted(inside)[y, x]) for y, x in ((0, 0), (0, -1), (-1, 0), (-1, -1))]
            share = painted(inside).float().mean()
            assert {
                "square": corners == [True] * 4,
                "cross": corners == [False] * 4,
                "circle": corners == [False] * 4 and share > 0.8,
                "triangle": corners[:2] == [False] * 2,
            }[shape]
            assert (share == 1) == (shape == "square")


def test_shapes_cover_what_their_formulas_say():
    sprites = scenes._sprites(scenes.LARGE)[:, 1, 0]
    y, x = torch.meshgrid(*[(torch.arange(800) + 0.5) / 100] * 2, indexing="ij")
    dy, dx = y - 1, x  # one pixel down
    half = scenes.LARGE / 2
    forms = {
        "square": (dy >= 0) & (dx < scenes.LARGE),
        "circle": (dx - half) ** 2 + (dy - half) ** 2 <= half**2,
        "triangle": (dy >= 0) & ((dx - half).abs() <= dy / 2),
    }
    for shape, form in forms.items():
        exact = form.double().view(8, 100, 8, 100).mean((1, 3))
        drawn = sprites[scenes.SHAPES.index(shape)].double()
        torch.testing.assert_close(drawn, exact, atol=0.06, rtol=0)
    assert len({tuple(s.flatten().tolist()) for s in sprites}) == 4


def test_objects_stand_alone_in_their_cells_and_the_small_ones_are_as_many_as_asked():
    for small in (0, 3):
        data = scenes.scenes(40, seed=1, small=small)
        cells = data.pictures.unfold(2, 8, 8).unfold(3, 8, 8)  # (N, 3, 6, 6, 8, 8)
        filled = (cells != GROUND[:, None, None, None, None]).any(1).sum((-1, -2))  # pixels a cell
        assert ((filled > 0).sum((1, 2)) == 2 + small).all()
        named = torch.zeros_like(filled, dtype=torch.bool).flatten(1)
        for k, regions in enumerate(data.alignment(scenes.GRID)):
            assert all(len(r) == 1 for r in (regions[1], regions[5])) and regions[1] != regions[5]
            named[k, [*regions[1], *regions[5]]] = True
        others = filled.flatten(1)[~named]
        assert others.max() <= (scenes.SMALL + 1) ** 2
        assert filled.flatten(1)[named].min() > others.max() * bool(small)


def test_train_and_test_name_different_pairs_and_seeds_differ():
    held = scenes.held_out()
    assert len(held) == round(0.2 * 24 * 23) and all(a != b for a, b in held)

    def pairs(data):
        return {(scenes.KINDS.index(c[1:3]), scenes.KINDS.index(c[5:7])) for c in data.captions}

    train, test = scenes.scenes(3000, seed=0), scenes.scenes(600, seed=0, part="test")
    assert pairs(train).isdisjoint(held) and pairs(test) <= held and len(pairs(test)) > 90
    # every kind was seen
    assert {k for pair in pairs(test) for k in pair} <= {k for pair in pairs(train) for k in pair}
    again = scenes.scenes(3000, seed=0)
    assert torch.equal(train.pictures, again.pictures)
    assert train.captions == again.captions and train.boxes == again.boxes
    assert not torch.equal(train.pictures, scenes.scenes(3000, seed=1).pictures)
    assert all(word in scenes.vocabulary() for caption in train.captions for word in caption)


test_bad_arguments_are_named = refusals(
    ("count", lambda: scenes.scenes(0, seed=0)),
    ("part", lambda: scenes.scenes(2, seed=0, part="valid")),
    ("small", lambda: scenes.scenes(2, seed=0, small=30)),
    ("grid", lambda: regions_of([Box(0, 0, 1, 1)], (48, 48), (5, 6))),
    ("pictures, captions and", lambda: Captioned(torch.zeros(1, 3, 8, 8), [], [])),
)


@given(st.integers(0, 15), st.integers(0, 7), st.integers(1, 9), st.integers(1, 9))
def test_regions_are_those_that_share_a_pixel(left, top, width, height):
    box = Box(left, top, left + width, top + height)
    pixels = torch.zeros(16, 24)
    pixels[box.top : box.bottom, box.left : box.right] = 1
    shared = pixels.view(4, 4, 3, 8).sum((1, 3)).flatten().nonzero()[:, 0].tolist()
    assert regions_of([box], (16, 24), (4, 3)) == set(shared)
    assert regions_of([], (16, 24), (4, 3)) == frozenset()


def test_batches_keep_pictures_and_captions_together():
    data, vocab = scenes.scenes(10, seed=5), scenes.vocabulary()
    batches = PictureBatches(data, vocab, 4, seed=1)
    assert len(batches) == 3
    seen = 0
    for step in range(3):
        batch = batches.batch(step)
        assert batch.pictures.dtype == torch.uint8 and (batch.target_in[:, 0] == BOS).all()
        assert (batch.target_in[:, 1:] == batch.target_out[:, :-1]).all()
        assert (batch.target_out[:, -1] == EOS).all() and (batch.target_out != PAD).all()
        for picture, ids in zip(batch.pictures, batch.target_out.tolist()):
            (k,) = [i for i in range(10) if torch.equal(data.pictures[i], picture)]
            assert tuple(vocab.decode(ids)) == data.captions[k]
            seen += 1
    assert seen == 10
    some = data.take([3, 1])
    assert some.captions == [data.captions[3], data.captions[1]]
    assert torch.equal(some.pictures[1], data.pictures[1])
    assert data.take(slice(2)).boxes == data.boxes[:2]
