"""Fetching files: from a mirror, from the cache, from a server that misbehaves.

Nothing here leaves the machine.
"""

import errno
import hashlib
import os
import re
from pathlib import Path

import pooch
import pytest
from assertions import assert_refused
from patience import HANGS, eventually
from task_data import real

from attnbook.tasks import datasets

GOOD = bytes(range(256)) * 8
BAD = GOOD[:-1] + b"!"


def tree(folder):
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if not p.is_dir())


def sha(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def test_a_good_download_is_kept_and_not_asked_for_again(registry, server, cache):
    registry("set", "deep/file.bin", GOOD, server.serve("/f", ("drip", GOOD)))
    path = datasets.fetch("set", "deep/file.bin")
    assert path == cache / "set/deep/file.bin" and path.read_bytes() == GOOD
    assert datasets.fetch("set", "deep/file.bin") == path
    assert server.requests == ["/f"] and tree(cache) == ["set/deep/file.bin"]


def test_a_file_known_by_its_git_blob_alone(registry, server, cache):
    registry("set", "good", GOOD, server.serve("/g", GOOD), blob_only=True)
    registry("set", "bad", GOOD, server.serve("/b", BAD), blob_only=True)
    assert datasets.fetch("set", "good").read_bytes() == GOOD
    blob = hashlib.sha1(b"blob %d\0" % len(GOOD) + GOOD).hexdigest()
    with pytest.raises(ValueError, match=f"git blob SHA-1 expected {blob}, got [0-9a-f]{{40}}"):
        datasets.fetch("set", "bad")
    assert tree(cache) == ["set/good"]
    (cache / "set/good").write_bytes(BAD)
    assert datasets.fetch("set", "good").read_bytes() == GOOD and len(server.requests) == 5


@pytest.mark.parametrize("trouble", [BAD, ("cut", GOOD), 503], ids=["corrupt", "cut", "status"])
def test_a_download_that_failed_is_tried_again(registry, server, cache, trouble):
    registry("set", "file", GOOD, server.serve("/f", trouble, trouble, GOOD))
    assert datasets.fetch("set", "file").read_bytes() == GOOD
    assert server.requests == ["/f"] * 3 and tree(cache) == ["set/file"]


@pytest.mark.parametrize(
    "wrong", [BAD, GOOD[:1000], GOOD + b"more", b""], ids=["flipped", "short", "long", "empty"]
)
def test_giving_up_after_three_corrupt_downloads(registry, server, cache, wrong):
    url = server.serve("/f", wrong)
    registry("set", "file", GOOD, url)
    with pytest.raises(ValueError) as caught:
        datasets.fetch("set", "file")
    text = str(caught.value)
    for part in ("set/file", url, sha(GOOD), sha(wrong)):
        assert part in text, text
    assert server.requests == ["/f"] * 3 and tree(cache) == []


def test_a_download_that_is_always_cut_off_leaves_nothing(registry, server, cache):
    url = server.serve("/f", ("cut", GOOD))
    registry("set", "file", GOOD, url)
    expected = f"set/file could not be downloaded from {url}.*ATTNBOOK_DATA"
    with pytest.raises(OSError, match=expected):
        datasets.fetch("set", "file")
    assert server.requests == ["/f"] * 3 and tree(cache) == []


def test_a_server_that_falls_silent_is_given_up(registry, server, cache, monkeypatch):
    downloader, seconds = pooch.HTTPDownloader, [0.2] * 4 + [HANGS]
    monkeypatch.setattr(pooch, "HTTPDownloader", lambda timeout: downloader(timeout=seconds.pop(0)))
    registry("set", "file", GOOD, server.serve("/f", ("slow", GOOD)))
    with pytest.raises(OSError, match="timed out"):
        datasets.fetch("set", "file")
    assert eventually(lambda: server.requests == ["/f"] * 3) and tree(cache) == []
    registry("set", "file", GOOD, server.serve("/g", ("slow", GOOD), GOOD))
    assert datasets.fetch("set", "file").read_bytes() == GOOD


def test_no_server_at_all(registry, server):
    url = server.serve("/f", GOOD)
    server.server.shutdown()
    server.server.server_close()
    registry("set", "file", GOOD, url)
    with pytest.raises(OSError, match="could not be downloaded"):
        datasets.fetch("set", "file")


def test_a_cached_file_that_was_damaged_is_replaced(registry, server):
    registry("set", "file", GOOD, server.serve("/f", GOOD))
    path = datasets.fetch("set", "file")
    path.write_bytes(BAD[:500])
    assert datasets.fetch("set", "file").read_bytes() == GOOD
    # even when size and time are the same
    stamp = path.stat()
    path.write_bytes(BAD)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert datasets.fetch("set", "file").read_bytes() == GOOD and len(server.requests) == 3


def test_two_downloads_at_once_do_not_disturb_each_other(registry, server, cache):
    from concurrent.futures import ThreadPoolExecutor

    for n in range(4):
        content = GOOD + bytes([n])
        registry("set", f"file{n}", content, server.serve(f"/{n}", ("drip", content)))
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda n: datasets.fetch("set", f"file{n % 4}"), range(8)))
    assert [path.read_bytes()[-1] for path in paths] == [0, 1, 2, 3] * 2
    assert tree(cache) == [f"set/file{n}" for n in range(4)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_refuses_leaves_nothing(registry, server, cache, monkeypatch, number):
    def refuse(self, url, output, shelf):
        Path(output).write_bytes(GOOD[:9])
        raise OSError(number, os.strerror(number))

    registry("set", "file", GOOD, server.serve("/f", GOOD))
    with monkeypatch.context() as patch:
        patch.setattr("pooch.HTTPDownloader.__call__", refuse)
        with pytest.raises(OSError, match="set/file could not be downloaded") as caught:
            datasets.fetch("set", "file")
    assert caught.value.errno == number and tree(cache) == []
    assert datasets.fetch("set", "file").read_bytes() == GOOD


def test_a_mirror_is_used_and_nothing_is_downloaded(mirror, registry, server, cache):
    path = mirror("set", "deep/file", GOOD)
    registry("set", "absent", GOOD, server.serve("/f", GOOD))
    assert datasets.fetch("set", "deep/file") == path
    with pytest.raises(FileNotFoundError) as caught:
        datasets.fetch("set", "absent")
    for part in ("set/absent", str(mirror.folder), "ATTNBOOK_DATA", "/f"):
        assert part in str(caught.value)
    assert server.requests == [] and tree(cache) == []


def test_a_corrupt_file_in_the_mirror_is_named_and_left_alone(mirror):
    path = mirror("set", "file", GOOD)
    path.write_bytes(GOOD[:100])
    with pytest.raises(ValueError) as caught:
        datasets.fetch("set", "file")
    expected = sha(GOOD), sha(GOOD[:100]), "100 bytes, expected 2048", "ATTNBOOK_DATA"
    assert all(part in str(caught.value) for part in (str(path), *expected))
    assert tree(mirror.folder) == ["set/file"]


def test_a_mirror_that_is_no_folder(registry, monkeypatch, tmp_path):
    registry("set", "file", GOOD)
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="ATTNBOOK_DATA names .*nowhere"):
        datasets.fetch("set", "file")
    monkeypatch.setenv("ATTNBOOK_DATA", "")
    assert datasets.mirror() is None


def test_a_file_that_no_one_serves(registry):
    registry("set", "file", GOOD)
    with pytest.raises(FileNotFoundError, match="cannot be downloaded.*ATTNBOOK_DATA"):
        datasets.fetch("set", "file")


def test_unknown_names_are_answered_with_what_there_is(registry):
    registry("set", "file", GOOD)
    assert_refused("name", datasets.fetch, "other", "file")
    with pytest.raises(ValueError, match="^file of set must be one of 'file', got 'else'"):
        datasets.fetch("set", "else")
    assert_refused("name", datasets.attribution, "other")
    assert datasets.attribution("set") == "by the makers of set"


def test_the_registry_of_the_book_is_whole():
    entries = datasets.read_registry()
    assert len(entries) >= 150
    for entry in entries.values():
        assert re.fullmatch(r"[0-9a-f]{64}|", entry.sha256)
        assert re.fullmatch(r"[0-9a-f]{40}|", entry.git_blob_sha1)
        assert entry.sha256 or entry.git_blob_sha1
        assert entry.licence and entry.attribution
        assert entry.bytes > 0 or not entry.sha256
        assert re.fullmatch(r"https://[\w.-]+/\S+", entry.url) or not entry.url
        assert ".." not in entry.file and not entry.file.startswith("/")


def test_the_table_of_the_readme_is_that_of_the_registry():
    readme = (Path(__file__).parents[2] / "data/README.md").read_text(encoding="utf-8")
    table = {}
    for name, licence, credit in re.findall(
        r"^\| `([^`]+)` \|.*\| ([^|]+) \| ([^|]+) \|$", readme, re.MULTILINE
    ):
        table[name] = (licence, credit)
    entries = datasets.read_registry().values()
    assert table == {entry.name: (entry.licence, entry.attribution) for entry in entries}


def test_every_data_set_of_the_registry_is_read_by_a_loader():
    package = Path(datasets.__file__).parents[1]
    files = [
        *package.joinpath("tasks").rglob("*.py"),
        *package.parent.glob("attnbook_runs/**/*.py"),
    ]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    names = {name for name, _ in datasets.read_registry()}
    assert not {name for name in names if f'"{name}"' not in source}


@real
def test_every_file_of_the_mirror_is_what_the_registry_says():
    folder = datasets.mirror()
    here = [key for key in datasets.read_registry() if folder.joinpath(*key).is_file()]
    assert here
    for key in here:
        datasets.fetch(*key)
