"""Pictures with classes: batches, halves, the digits of scikit-learn, IDX files, archives of
pictures.
"""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from refusing import assert_refused, refusals

from attnbook.tasks.archives import fetch_archive, members_digest
from attnbook.tasks.images import color_pictures, digits
from attnbook.tasks.images.labelled import Labelled, LabelledBatches, to_floats, to_pixels


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
    assert everything.pictures.shape[1:] == (1, 32, 32)
    assert everything.pictures.max() == 255
    assert everything.pictures.min() == 0
    exact = digits.enlarge(torch.from_numpy(stored.images), 8)[:, 0].numpy()
    assert np.array_equal(exact, (stored.images * 255 / 16).round())
    assert_refused("part", digits.small_digits, "valid")


def idx(array):
    head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape)
    return gzip.compress(head + array.tobytes())


def test_idx_files(tmp_path):
    array = np.random.default_rng(0).integers(0, 256, (5, 28, 28)).astype(np.uint8)
    path = tmp_path / "a.gz"
    path.write_bytes(idx(array))
    assert torch.equal(digits.read_idx(path), torch.from_numpy(array))
    plain = gzip.decompress(idx(array))
    for content, words in (
        (gzip.compress(plain[:-1]), r"\(5, 28, 28\) bytes by its header, got 3919"),
        (gzip.compress(b"\0\0\x0d\x01\0\0\0\1\0"), "an IDX file of unsigned bytes"),
        (gzip.compress(b""), "an IDX file of unsigned bytes"),
        (gzip.compress(plain[:9]), "a header of 3 dimensions, got .*a.gz, which ends in it"),
        (idx(array)[:-9], "a complete gzip file, got .*a.gz: Compressed file ended"),
        (b"IDX", "a complete gzip file, got .*a.gz: Not a gzipped"),
        (idx(array)[:60] + b"?" + idx(array)[61:], "a complete gzip file, got .*a.gz"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^path must .*{words}"):
            digits.read_idx(path)


def test_mnist_from_a_mirror(mirror):
    rng = np.random.default_rng(1)
    sizes = {"train": 6, "t10k": 4}
    pictures = {p: rng.integers(0, 256, (n, 28, 28)).astype(np.uint8) for p, n in sizes.items()}
    labels = {part: rng.integers(0, 10, len(p)).astype(np.uint8) for part, p in pictures.items()}
    for part in pictures:
        mirror("mnist-t10k", f"{part}-labels-idx1-ubyte.gz", idx(labels[part]))
    mirror("mnist-t10k", "t10k-images-idx3-ubyte.gz", idx(pictures["t10k"]))
    mirror("mnist-train-rebuilt", "train-images-idx3-ubyte.gz", idx(pictures["train"]))
    for part, file in (("train", "train"), ("test", "t10k")):
        data = digits.mnist(part)
        assert torch.equal(data.pictures[:, 0, 2:30, 2:30], torch.from_numpy(pictures[file]))
        assert data.labels.tolist() == labels[file].tolist()
        assert data.pictures[:, 0, :2].sum() == data.pictures[:, 0, :, 30:].sum() == 0
    assert_refused("part", digits.mnist, "all")


def png(colour, alpha=255, side=32):
    stream = io.BytesIO()
    Image.new("RGBA", (side, side), (*colour, alpha)).save(stream, "PNG")
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
    name = f"CIFAR-10-images-{color_pictures.CIFAR_COMMIT}.tar.gz"
    mirror("cifar-10-images", name, archive(files))
    data = color_pictures.cifar10("train")
    # in the order of the names
    assert [data.classes[k] for k in data.labels.tolist()] == ["bird", "cat"]
    assert data.pictures[:, :, 5, 7].tolist() == [[40, 50, 60], [10, 20, 30]]
    assert len(color_pictures.cifar10("test")) == 1
    assert_refused("part", color_pictures.cifar10, "valid")


def test_emoji_on_white(mirror):
    file = f"noto-emoji-{color_pictures.EMOJI_COMMIT}-png32.tar.gz"
    face, sign = "png/32/emoji_u1f600.png", "png/32/emoji_u0023_20e3.png"
    content = archive({face: png((9, 9, 9), 0), sign: png((0, 0, 0), 128)})
    mirror("noto-emoji", file, content)
    data = color_pictures.emoji()
    assert [data.classes[k] for k in data.labels.tolist()] == ["signs", "faces"]
    assert data.pictures[1].unique().tolist() == [255]
    assert abs(int(data.pictures[0, 0, 0, 0]) - 127) <= 1
    mirror("noto-emoji", file, archive({face: png((9, 9, 9), side=16)}))
    with pytest.raises(ValueError, match="must be 32 by 32 pixels, got \\(16, 16\\)"):
        color_pictures.emoji()
    for name in ("face.png", "emoji_uxyz.png", "emoji_u110000.png"):
        assert_refused("name", color_pictures.block_of, name)


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
