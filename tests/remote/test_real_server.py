"""The remote side against llama-cpp-python's own server on loopback, with a model of random weights.

Needs EDGEDEC_TEST_LLAMA_SERVER: a Python that has ``llama-cpp-python[server]``.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from edgedec.core.errors import SideLost
from edgedec.remote import RemoteLimits, RemoteSide, ServerAddress
from edgedec.sampling import DrawParams
from edgedec.text.passage import Passage
from tests.fixtures.tiny_gguf import write_tiny

pytestmark = pytest.mark.slow

_START_S = 120.0
LIMITS = RemoteLimits(connect_s=10, read_s=30, total_s=120)
TEXT = "The quick brown fox"
GREEDY = DrawParams()


@dataclass(frozen=True, slots=True)
class Running:
    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def served(model: Path) -> Iterator[Running]:
    python = os.environ.get("EDGEDEC_TEST_LLAMA_SERVER")
    if not python:
        pytest.skip("EDGEDEC_TEST_LLAMA_SERVER names no Python with llama-cpp-python[server]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--model", str(model), "--model_alias", "tiny", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [python, "-m", "llama_cpp.server", *words, "--n_ctx", "256"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        deadline = time.monotonic() + _START_S
        while True:
            try:
                httpx.get(f"{url}/models", trust_env=False)
                break
            except httpx.HTTPError:
                assert process.poll() is None, "the server did not start"
                assert time.monotonic() < deadline, "the server takes too long to start"
                time.sleep(0.2)
        yield Running(url, process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    model = write_tiny(tmp_path_factory.mktemp("served") / "tiny.gguf")
    with served(model) as running:
        yield running


def side_of(server: Running, limits: RemoteLimits = LIMITS, model: str | None = "tiny") -> RemoteSide:
    return RemoteSide(ServerAddress.of(server.url, {}), model, limits)


def test_a_text_is_continued_the_same_way_twice(server: Running) -> None:
    with side_of(server) as side:
        replies = ["".join(side.continued(Passage(TEXT), 12, GREEDY)) for _ in range(2)]
        assert side.use.requests == 2
        assert side.use.received_bytes > 100
    assert replies[0]
    assert replies[0] == replies[1]


def test_the_only_model_is_found(server: Running) -> None:
    with side_of(server, model=None) as side:
        assert "".join(side.continued(Passage(TEXT), 4, GREEDY))
        assert side.name == "tiny at 127.0.0.1"


def test_a_reply_begins_with_messages_and_is_continued_as_text(server: Running) -> None:
    turns = (("user", "Tell me about foxes."),)
    with side_of(server) as side:
        begun = "".join(side.continued(Passage("", turns), 8, GREEDY))
        assert begun
        assert "".join(side.continued(Passage(f"user: foxes? {begun}", turns, begun), 8, GREEDY))


def test_messages_are_answered_where_the_user_says_so(server: Running) -> None:
    with side_of(server) as side:
        side.chat = True
        assert "".join(side.continued(Passage(TEXT), 8, GREEDY))


def test_a_text_that_does_not_fit_its_context_loses_the_side(server: Running) -> None:
    with side_of(server) as side, pytest.raises(SideLost, match="sent an empty reply"):
        list(side.continued(Passage(TEXT * 100), 8, GREEDY))


def test_a_server_that_stands_still_is_left_in_time_and_a_killed_one_is_not_there(server: Running) -> None:
    with side_of(server, RemoteLimits(connect_s=1, read_s=1, total_s=5)) as side:
        pieces = side.continued(Passage(TEXT), 100, GREEDY)
        next(filter(None, pieces))
        server.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(SideLost, match="was silent for 1 s"):
            list(pieces)
        assert time.monotonic() - began < 4.0
        server.process.kill()
        server.process.wait()
        with pytest.raises(SideLost, match=r"127\.0\.0\.1 cannot be reached"):
            list(side.continued(Passage(TEXT), 4, GREEDY))
