"""Pictures with classes: batches, the digits of scikit-learn, archives of pictures."""

import io
import tarfile

import pytest
import torch
from assertions import assert_refused, refusals
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from attnbook.tasks.images import digits
from attnbook.tasks.images.labelled import Labelled, LabelledBatches, to_floats, to_pixels
from attnbook_runs.images.cifar10 import COMMIT, cifar10, fetch_archive, members_digest


def some(count, classes=3):
    """Pictures whose every pixel is their number."""
    numbers = torch.arange(count, dtype=torch.uint8)[:, None, None, None]
    return Labelled(
        numbers.expand(-1, 1, 8, 8).clone(),
        torch.arange(count) % classes,
        tuple("abcdefg"[:classes]),
    )


def test_pixels_and_floats_are_inverses():
    pixels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    floats = to_floats(pixels)
    assert floats.min() == -1 and floats.max() == 1 and torch.equal(to_pixels(floats), pixels)
    assert to_pixels(torch.tensor([-3.0, 3.0])).tolist() == [0, 255]
    for wrong, function in ((floats, to_floats), (pixels, to_pixels)):
        assert_refused("pictures", function, wrong)


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 5))
def test_every_picture_comes_once_an_epoch_and_a_step_says_all(count, size, seed):
    size = min(size, count)
    batches = LabelledBatches(some(count), size, seed)
    seen = torch.cat([batches.indices(step) for step in range(3 * count)])
    for epoch in range(len(seen) // count):
        assert sorted(seen[epoch * count : (epoch + 1) * count].tolist()) == list(range(count))
    again = LabelledBatches(some(count), size, seed)
    for step in (7, 0, 3):  # in any order
        batch = again.batch(step)
        assert torch.equal(again.indices(step), batches.indices(step))
        assert batch.labels.dtype == torch.long
        assert torch.equal(to_pixels(batch.pictures)[:, 0, 0, 0].long(), again.indices(step))
        assert torch.equal(batch.labels, again.indices(step) % 3)


def test_epochs_have_orders_of_their_own():
    batches = LabelledBatches(some(40), 40, 0)
    assert not torch.equal(batches.indices(0), batches.indices(1))
    assert_refused("batch_size", LabelledBatches, some(40), 41)
    assert_refused("step", batches.indices, -1)


GREY = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)

test_sets_that_do_not_fit_are_refused = refusals(
    ("pictures must be a uint8", lambda: Labelled(GREY.float(), torch.tensor([0, 0]), ("a",))),
    (
        "pictures must have 1 or 3",
        lambda: Labelled(GREY.expand(2, 2, 8, 8), torch.tensor([0, 0]), ("a",)),
    ),
    ("labels must be long (2,)", lambda: Labelled(GREY, torch.tensor([0, 0, 0]), ("a",))),
    ("labels must be between 0 and 2", lambda: Labelled(GREY, torch.tensor([0, 3]), tuple("abc"))),
)


def test_the_digits_of_scikit_learn():
    from sklearn.datasets import load_digits

    train, test, everything = (digits.small_digits(part) for part in ("train", "test", "all"))
    assert (len(train), len(test), len(everything)) == (1347, 450, 1797)
    stored = load_digits()
    assert everything.labels.tolist() == stored.target.tolist()
    assert everything.classes == tuple("0123456789")
    keys = [{p.numpy().tobytes() for p in part.pictures} for part in (train, test)]
    assert keys[0] | keys[1] == {p.numpy().tobytes() for p in everything.pictures}
    assert not keys[0] & keys[1]
    # the middle two pixels of a block of four lie within an eighth of a pixel of the old one: their
    # mean is near the old value
    blocks = everything.pictures.double().view(-1, 8, 4, 8, 4)
    small = blocks[:, :, 1:3, :, 1:3].mean((2, 4)) * 16 / 255
    assert (small - torch.from_numpy(stored.images)).abs().mean() < 0.6
    assert everything.pictures.shape[1:] == (1, 32, 32) and everything.pictures.max() == 255
    assert everything.pictures.min() == 0
    grey = torch.arange(17.0)[:, None, None]
    exact = (grey[..., None] * 255 / 16).round().expand(-1, 1, 32, 32)
    assert torch.equal(digits.enlarge(grey.expand(-1, 8, 8)), exact.to(torch.uint8))
    assert_refused("part", digits.small_digits, "valid")


def png(colour, side=32):
    stream = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(stream, "PNG")
    return stream.getvalue()


def archive(files, top="repo-1"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive_file:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            archive_file.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_pictures_of_an_archive(mirror):
    files = {
        "train/cat/1.jpg": png((10, 20, 30)),
        "test/ship/0.jpg": png((1, 2, 3)),
        "train/bird/9.jpg": png((40, 50, 60)),
        "train/cat/a.txt": b"no",
    }
    name = f"CIFAR-10-images-{COMMIT}.tar.gz"
    mirror("cifar-10-images", name, archive(files))
    data = cifar10("train")
    # in the order of the names
    assert [data.classes[k] for k in data.labels.tolist()] == ["bird", "cat"]
    assert data.pictures[:, :, 5, 7].tolist() == [[40, 50, 60], [10, 20, 30]]
    assert len(cifar10("test")) == 1
    assert_refused("part", cifar10, "valid")
    mirror("cifar-10-images", name, archive({"train/cat/1.jpg": png((1, 2, 3), side=16)}))
    with pytest.raises(ValueError, match="must be 32 by 32 pixels, got \\(16, 16\\)"):
        cifar10()


def test_an_archive_is_known_by_its_files_whatever_its_bytes(registry, server, tmp_path):
    files = {"a/1.jpg": b"one", "b/2.jpg": b"two", "notes.md": b"changes"}
    plain = archive(files)
    again = archive({"b/2.jpg": b"two", "notes.md": b"changed", "a/1.jpg": b"one"}, top="repo-2")
    wanted = lambda name: name.endswith(".jpg")  # noqa: E731
    path, digests = tmp_path / "archive", []
    others = {**files, "a/1.jpg": b"One"}, {"a/1.jpg": b"one"}, {**files, "c/1.jpg": b""}
    for content in (plain, again, *map(archive, others)):
        path.write_bytes(content)
        digests.append(members_digest(path, wanted))
    assert digests[0] == digests[1] and len(set(digests)) == 4
    # what the registry knows is another archive of the same files
    registry("set", "file.tar.gz", b"other bytes")
    url = server.serve("/f", again, plain[:120])
    path = fetch_archive("set", "file.tar.gz", url, digests[0], wanted)
    assert path.read_bytes() == again
    assert fetch_archive("set", "file.tar.gz", url, digests[0], wanted) == path
    assert server.requests == ["/f"]
    path.write_bytes(plain[:120])
    with pytest.raises(ValueError, match="not the file expected"):
        fetch_archive("set", "file.tar.gz", url, digests[0], wanted)
    assert not list(path.parent.iterdir())
    with pytest.raises(OSError, match="could not be downloaded"):
        fetch_archive("set", "file.tar.gz", server.serve("/g", 404), digests[0], wanted)
    assert_refused("name", fetch_archive, "sets", "file.tar.gz", url, digests[0], wanted)
