"""Episodes of a few classes, the letters that the book draws, and Omniglot: on a small archive
made here and, at hand, on the real one.
"""

import io
import zipfile
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage
from task_data import real, seeded
from torch.nn import functional as F

from attnbook.tasks.images import omniglot, strokes
from attnbook.tasks.images.few_shot_episodes import (
    Classes,
    EpisodeBatches,
    bent,
    draw_episodes,
    with_mirrors,
    with_rotations,
)


def coded(classes, examples, size=3):
    """Pictures that say which they are: pixel (0, 0) holds the class, (0, 1) the example."""
    pictures = torch.zeros(classes, examples, size, size, dtype=torch.uint8)
    pictures[:, :, 0, 0] = torch.arange(classes, dtype=torch.uint8)[:, None]
    pictures[:, :, 0, 1] = torch.arange(examples, dtype=torch.uint8)
    return pictures


SEVEN = Classes(coded(7, 8), tuple(("a", str(k)) for k in range(7)))


def who(pictures):
    return pictures[..., 0, 0].long(), pictures[..., 0, 1].long()


def faults(batch, ways, shots):
    """What is wrong with episodes of coded pictures."""
    found = set()
    for support, labels, query, answers in zip(*batch):
        shown, queried = (list(zip(*(part.tolist() for part in who(p)))) for p in (support, query))
        named = {(label, kind) for label, (kind, _) in zip(labels.tolist(), shown)}
        said = {(answer, kind) for answer, (kind, _) in zip(answers.tolist(), queried)}
        wrong = {
            "not every label K times": sorted(labels.tolist()) != sorted([*range(ways)] * shots),
            "label and class do not go together": not len(named)
            == ways
            == len({kind for _, kind in named}),
            "a wrong answer": not said <= named,
            "an example twice": len(set(shown)) < len(shown),
            "a query that was shown": bool(set(queried) & set(shown)),
            "a query twice": len(set(queried)) < len(queried),
        }
        found |= {fault for fault, seen in wrong.items() if seen}
    return found


def by_hand(picture, J, t):
    """A picture through one affine map by SciPy: linear between pixels, 0 beyond the edge."""
    size = len(picture)
    y, x = (2 * np.mgrid[:size, :size] + 1) / size - 1
    column, row = (np.tensordot(np.eye(2) + J, [x, y], 1) + t[:, None, None] + 1) * size / 2 - 0.5
    return ndimage.map_coordinates(picture, [row, column], order=1, mode="grid-constant")


def test_a_picture_is_bent_by_an_affine_map_of_its_own():
    pictures = (torch.rand(2, 3, 9, 9, generator=seeded()) * 255).to(torch.uint8)
    got = bent(pictures, 0.3, seeded(1))
    maps = ((2 * torch.rand(6, 2, 3, generator=seeded(1)) - 1) * 0.3).double().numpy()
    assert got.dtype == torch.uint8 and got.shape == pictures.shape
    for k, (before, after) in enumerate(zip(pictures.flatten(0, 1), got.flatten(0, 1))):
        expected = by_hand(before.double().numpy(), maps[k, :, :2], maps[k, :, 2])
        assert np.abs(expected - after.double().numpy()).max() <= 0.51
    assert torch.equal(bent(pictures, 0.0), pictures)


def test_bent_batches_are_those_of_the_same_episodes():
    classes = Classes(coded(9, 8, 12), (("a", "b"),) * 9)
    straight, curved = (EpisodeBatches(classes, 3, 1, 2, 4, bend=bend) for bend in (0.0, 0.1))
    one, other = straight.batch(5), curved.batch(5)
    assert torch.equal(one.labels, other.labels) and torch.equal(one.answers, other.answers)
    assert not torch.equal(one.support, other.support) and not torch.equal(one.query, other.query)


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(0, 50))
def test_an_episode_is_what_it_says(ways, shots, queries, seed):
    batch = draw_episodes(coded(7, 8), ways, shots, queries, 6, seeded(seed))
    assert batch.support.shape == (6, ways * shots, 3, 3)
    assert batch.query.shape == (6, queries, 3, 3)
    assert batch.labels.dtype == batch.answers.dtype == torch.int64
    assert batch.support.dtype == torch.uint8
    assert not faults(batch, ways, shots)


def by_chance(batch, ways):
    """The largest distance from 1/N of: a label at a place, a class with a label, an answer, an
    answer given where its example stands.
    """
    shown, _ = who(batch.support)
    labels, answers = (F.one_hot(t, ways).double() for t in (batch.labels, batch.answers))
    tables = [labels.mean(0), answers.mean((0, 1)), *(labels[shown == c].mean(0) for c in range(7))]
    place = (batch.labels[:, None] == batch.answers[..., None]).double()  # (B, Q, S)
    tables.append(place.mean((0, 1)) * place.shape[-1] / place.sum(-1).mean() / ways)
    return max(float((t - 1 / ways).abs().max()) for t in tables)


def test_labels_places_and_answers_are_drawn_evenly():
    batch = draw_episodes(coded(7, 8), 4, 2, 3, 4000, seeded())
    assert by_chance(batch, 4) < 0.05  # seven standard errors
    in_order = batch._replace(labels=batch.labels.sort(1).values)
    assert by_chance(in_order, 4) > 0.5
    fixed = batch._replace(labels=who(batch.support)[0] % 4)
    assert by_chance(fixed, 4) > 0.5


def test_every_number_of_shots_comes_up():
    batches = EpisodeBatches(SEVEN, 3, (1, 3), 2, 5, seed=1)
    assert {batches.batch(k).support.shape[1] for k in range(30)} == {3, 6, 9}


@pytest.mark.parametrize(
    "mistake, fault",
    [
        ("a shown one asked again", "a query that was shown"),
        ("answers of another numbering", "a wrong answer"),
        ("classes drawn with repetition", "label and class do not go together"),
    ],
)
def test_known_wrong_versions_are_told_apart(mistake, fault, monkeypatch):
    g = seeded()
    if mistake.startswith("classes"):
        topk = torch.Tensor.topk

        def repeated(self, k, dim):
            if self.dim() == 3:
                return topk(self, k, dim=dim)
            return SimpleNamespace(indices=torch.randint(7, (len(self), k), generator=g))

        monkeypatch.setattr(torch.Tensor, "topk", repeated)
    batch = draw_episodes(coded(7, 8), 4, 2, 3, 200, g)
    if mistake.startswith("a shown"):
        batch = batch._replace(query=batch.support[:, :3], answers=batch.labels[:, :3])
    elif mistake.startswith("answers"):
        batch = batch._replace(answers=who(batch.query)[0] % 4)
    assert fault in faults(batch, 4, 2)


test_wrong_arguments_are_named = refusals(
    ("ways", lambda: draw_episodes(coded(7, 8), 8, 1, 1, 1)),
    ("shots + queries", lambda: draw_episodes(coded(7, 8), 3, 5, 4, 1)),
    ("ways", lambda: draw_episodes(coded(7, 8), 0, 1, 1, 1)),
    ("queries", lambda: draw_episodes(coded(7, 8), 3, 1, 0, 1)),
    ("pictures", lambda: draw_episodes(coded(7, 8)[0], 1, 1, 1, 1)),
    ("shots", lambda: EpisodeBatches(SEVEN, 3, (3, 1))),
    ("bend", lambda: EpisodeBatches(SEVEN, 3, bend=2.0)),
    ("amount", lambda: bent(coded(7, 8), -0.1)),
    ("amount", lambda: bent(coded(7, 8), 1.5)),
)


def test_turned_classes_are_classes_of_their_own():
    pictures = torch.arange(2 * 1 * 9, dtype=torch.uint8).view(2, 1, 3, 3)
    result = with_rotations(Classes(pictures, (("a", "x"), ("b", "y"))))
    assert len(result) == 8 and result.alphabets == ("a", "b")
    assert result.names[2] == ("a", "x turned by 90")
    turned = np.concatenate([np.rot90(pictures.numpy(), k, (-2, -1)) for k in range(4)])
    assert np.array_equal(result.pictures.numpy(), turned)


def test_mirrored_classes_are_classes_of_their_own():
    pictures = torch.arange(2 * 3 * 9, dtype=torch.uint8).view(2, 3, 3, 3)
    result = with_mirrors(Classes(pictures, (("a", "x"), ("b", "y"))))
    assert result.names == (("a", "x"), ("b", "y"), ("a", "x mirrored"), ("b", "y mirrored"))
    both = np.concatenate([pictures.numpy(), pictures.numpy()[..., ::-1]])
    assert np.array_equal(result.pictures.numpy(), both)


def nearest(pictures, count=500, seed=0):
    """How often the nearest of five pictures, pixel by pixel, is of the query's class."""
    batch = draw_episodes(pictures, 5, 1, 1, count, seeded(seed))
    near = torch.cdist(batch.query.flatten(2).float(), batch.support.flatten(2).float()).argmin(-1)
    return float((batch.labels.gather(1, near) == batch.answers).double().mean())


def test_an_alphabet_depends_on_its_seed_alone_and_its_letters_are_written_by_hand():
    one, same, other = (strokes.alphabet(6, 5, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(one.pictures, same.pictures)
    assert not torch.equal(one.pictures, other.pictures)
    assert one.pictures.shape == (6, 5, 28, 28) and one.pictures.dtype == torch.uint8
    assert one.alphabets == ("alphabet 3",)
    flat = one.pictures.flatten(2).float()
    assert (flat[:, 0] - flat[:, 1]).abs().amax(1).min() > 100  # no example is a copy
    # there is ink, and not everywhere
    assert flat.amax(2).min() > 200 and 0.02 < float(flat.mean()) / 255 < 0.3


def test_letters_are_hard_for_their_pixels_but_no_guess():
    assert 0.35 < nearest(strokes.alphabets(2, 20, 8, seed=5).pictures) < 0.65


def test_several_alphabets_are_those_of_their_seeds():
    result = strokes.alphabets(2, 4, 3, seed=2)
    assert torch.equal(result.pictures[4:], strokes.alphabet(4, 3, seed=2001).pictures)
    assert result.alphabets == ("alphabet 2000", "alphabet 2001") and len(result) == 8
    assert_refused("letters", strokes.alphabet, 0, seed=1)
    assert_refused("count", strokes.alphabets, 0)


def test_ink_lies_where_the_points_are():
    picture = strokes.render(torch.tensor([[[0.25, 0.75]]]), torch.tensor([0.06]))[0]
    row, column = divmod(int(picture.flatten().argmax()), 28)
    assert (row, column) in {(20, 6), (20, 7), (21, 6), (21, 7)} and int(picture.max()) == 255
    y, x = np.mgrid[:28, :28] / 28 + 0.5 / 28
    ink = np.clip((0.06 - np.hypot(x - 0.25, y - 0.75)) * 28 + 0.5, 0, 1)
    assert np.abs(picture.numpy() / 255 - ink).max() < 0.01


def archive(folder, characters, examples=2, size=105, seed=0):
    from PIL import Image

    random, stream, pictures_by_name = np.random.default_rng(seed), io.BytesIO(), {}
    with zipfile.ZipFile(stream, "w") as file:
        for alphabet, character in characters:
            for k in range(examples):
                ground = random.random((size, size)) < 0.8
                png = io.BytesIO()
                Image.fromarray(ground).convert("1").save(png, "PNG")
                file.writestr(f"{folder}/{alphabet}/{character}/{k:04d}_01.png", png.getvalue())
                pictures_by_name[alphabet, character, k] = ground
        file.writestr(f"__MACOSX/{folder}/x/._y.png", b"no picture")
        file.writestr(f"{folder}/.DS_Store.png", b"no picture")
    return stream.getvalue(), pictures_by_name


GREEK, LATIN, TAGALOG = ((name, "character01") for name in ("Greek", "Latin", "Tagalog"))
LATIN_2, TAGALOG_2 = ("Latin", "character02"), ("Tagalog", "character02")


@pytest.fixture
def small(mirror):
    omniglot.read.cache_clear()
    pictures_by_name = {}
    for seed, (name, characters) in enumerate(
        [("small1", [LATIN_2, GREEK, LATIN]), ("small2", [GREEK, TAGALOG, LATIN, TAGALOG_2])]
    ):
        content, pictures_by_name[name] = archive(omniglot.SETS[name][:-4], characters, seed=seed)
        mirror("omniglot", omniglot.SETS[name], content)
    yield pictures_by_name
    omniglot.read.cache_clear()


def test_characters_are_read_in_order_and_made_small(small):
    result = omniglot.read("small1")
    assert result.names == (GREEK, LATIN, LATIN_2)
    assert result.pictures.shape == (3, 2, 28, 28) and result.pictures.dtype == torch.uint8
    for c, names in enumerate(result.names):
        for k in range(2):
            ink = 1.0 - small["small1"][(*names, k)]
            # as much ink, and it is ink that is white
            assert abs(ink.mean() - result.pictures[c, k].double().mean() / 255) < 0.01
    assert_refused("name", omniglot.read, "small3")


def test_the_split_shares_no_alphabet(small):
    train, test = omniglot.split()
    assert train.alphabets == ("Greek", "Latin")
    assert test.names == (TAGALOG, TAGALOG_2)
    assert torch.equal(test.pictures, omniglot.read("small2").pictures[2:])
    assert_refused("size", omniglot.split, "large")


def test_pictures_of_another_size_are_named(mirror):
    omniglot.read.cache_clear()
    content, _ = archive("images_background_small1", [GREEK], size=28)
    mirror("omniglot", omniglot.SETS["small1"], content)
    with pytest.raises(ValueError, match="must be 105 by 105 pixels, got \\(28, 28\\)"):
        omniglot.read("small1")


@real
def test_the_small_sets_as_published():
    omniglot.read.cache_clear()
    train, test = omniglot.split()
    assert (len(train), len(test)) == (136, 106)
    assert train.pictures.shape[1:] == test.pictures.shape[1:] == (20, 28, 28)
    assert train.alphabets == ("Balinese", "Early_Aramaic", "Greek", "Korean", "Latin")
    assert test.alphabets == ("Japanese_(katakana)", "Sanskrit", "Tagalog")
    assert 0.3 < nearest(test.pictures) < 0.5
    omniglot.read.cache_clear()


def test_no_loop_runs_over_the_batch():
    """As many calls of gather for one episode as for a hundred."""
    gather = mock.Mock(side_effect=torch.Tensor.gather)
    with mock.patch.object(torch.Tensor, "gather", lambda *given: gather(*given)):
        draw_episodes(coded(7, 8), 3, 2, 2, 1, seeded())
        of_one = gather.call_count
        draw_episodes(coded(7, 8), 3, 2, 2, 100, seeded())
    assert gather.call_count == 2 * of_one > 0
