"""A registry of a few small files, an empty cache, and a local HTTP server that can misbehave."""

import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pooch
import pytest
from patience import HANGS, patient_hypothesis

from attnbook.tasks import datasets

patient_hypothesis(derandomize=True, max_examples=60)  # the same examples in every run


def entry_of(name, file, content, url="", blob_only=False):
    """A registry entry for some bytes."""
    sha256 = "" if blob_only else hashlib.sha256(content).hexdigest()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    size = 0 if blob_only else len(content)
    return datasets.Entry(name, file, url, sha256, blob, "CC0", size, f"by the makers of {name}")


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """An empty registry to fill, an empty cache, and no mirror."""
    entries = {}
    monkeypatch.setattr(datasets, "read_registry", lambda path=None: entries)
    monkeypatch.setattr(datasets, "cache", lambda: tmp_path / "cache")
    # pooch waits for some seconds between attempts
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def add(name, file, content, url="", blob_only=False):
        entries[name, file] = entry_of(name, file, content, url, blob_only)
        return entries[name, file]

    return add


@pytest.fixture
def mirror(registry, monkeypatch, tmp_path):
    """A function that puts a file in a mirror and in the registry."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv(datasets.VARIABLE, str(folder))

    def put(name, file, content):
        registry(name, file, content)
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    put.folder = folder
    return put


class Server:
    """Answers each path with a list of behaviours, one a request; the last one stays.

    A behaviour is bytes (sent as they are), an int (a status), or a pair (word, bytes): "cut"
    closes the connection half-way, "slow" stops half-way without closing, "drip" sends in pieces.
    """

    def __init__(self):
        self.answers, self.requests = {}, []
        outer, self.release = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                plans = outer.answers[self.path]
                outer.answer(self, plans.pop(0) if len(plans) > 1 else plans[0])

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        serve = self.server.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, handler, plan):
        if isinstance(plan, int):
            return handler.send_error(plan)
        manner, content = ("", plan) if isinstance(plan, bytes) else plan
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if manner == "drip":
            for i in range(0, len(content), len(content) // 4):
                handler.wfile.write(content[i : i + len(content) // 4])
                time.sleep(0.02)
            return None
        handler.wfile.write(content[: len(content) // 2 if manner in ("cut", "slow") else None])
        if manner == "slow":
            self.release.wait(HANGS)
        return None

    def serve(self, path, *plans):
        """The address that answers with these behaviours, one after the other."""
        self.answers[path] = list(plans)
        return f"http://127.0.0.1:{self.server.server_port}{path}"


@pytest.fixture
def server():
    server = Server()
    yield server
    server.release.set()
    server.server.shutdown()
    server.server.server_close()
