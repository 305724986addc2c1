"""``edgedec serve``: keys, ports, signals, and a tiny model behind the whole of it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from edgedec.backends.gpu.adapter import CHOICE
from edgedec.disk.installing import pip_install
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.nightly import every
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_lora import random_pairs, write_gguf_adapter
from tests.fixtures.tiny_models import tiny_bundle
from tests.gpu.adapters import adapter
from tests.patience import PATIENCE_S

ASKED = {"prompt": "a b c", "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one tiny model."""
    home = tmp_path_factory.mktemp("home")
    tiny_bundle(tmp_path_factory.mktemp("bundles")).rename(_made(home / "models") / "tiny")
    return home


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@contextmanager
def serving(home: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, "-m", "edgedec", "serve", "tiny", "--port", "0", "--context", "128", *options]
    environment = {**os.environ, "EDGEDEC_HOME": str(home)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    guard = threading.Timer(PATIENCE_S, process.kill)
    guard.start()
    try:
        said = [process.stdout.readline(), process.stdout.readline()]
        assert said[0].startswith("tiny: "), (said, process.poll())
        yield process, said[1].split()[2].rstrip(",")
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


def test_a_model_with_an_adapter_is_a_model_beside_it(store: Path, tmp_path: Path) -> None:
    gguf = write_tiny(tmp_path / "m.gguf", shape=TinyShape(context=512))
    adapter = write_gguf_adapter(tmp_path / "a.gguf", random_pairs(gguf))
    options = "--lora", f"half={adapter}:0.5", "--lora", f"none={adapter}:0"
    with serving(store, *options) as (_, url), httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
        names = [one["id"] for one in client.get(f"{url}/v1/models").json()["data"]]
        assert names == ["tiny", "half", "none"]
        texts = {}
        for name in (*names, "tiny"):
            asked = {**ASKED, "max_tokens": 24, "model": name}
            answer = client.post(f"{url}/v1/completions", json=asked).json()
            assert answer["model"] == name
            texts[name] = answer["choices"][0]["text"]
        assert texts["half"] != texts["tiny"] == texts["none"]


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ("a.gguf", 2, "is no name and file"),
        ("=a.gguf", 2, "is no name and file"),
        ("x=none.gguf", 3, "there is no adapter none.gguf"),
    ],
)
def test_adapters_that_are_none_are_one_line(store: Path, given: str, status: int, words: str) -> None:
    result = run(None, "serve", "tiny", "--lora", given, env={"EDGEDEC_HOME": str(store)})
    assert_one_line(result, status, words)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_answers_and_ends_with_status_0(store: Path, number: signal.Signals) -> None:
    with serving(store, "--parallel", "2", "--finish", "5") as (process, url):
        answer = httpx.post(f"{url}/v1/completions", json=ASKED, trust_env=False, timeout=PATIENCE_S)
        assert answer.json()["usage"]["completion_tokens"] == 4
        again = httpx.post(f"{url}/v1/completions", json=ASKED, trust_env=False, timeout=PATIENCE_S)
        assert again.json()["choices"] == answer.json()["choices"]
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    lines = [json.loads(line) for line in errors.splitlines()]
    assert [line["status"] for line in lines if line["event"] == "request"] == [200, 200]


def test_a_reply_in_progress_is_cut_at_the_end(store: Path) -> None:
    with serving(store, "--finish", "0", "--context", "512") as (process, url):
        asked = {**ASKED, "max_tokens": 400, "stream": True}
        with httpx.stream(
            "POST", f"{url}/v1/completions", json=asked, trust_env=False, timeout=PATIENCE_S
        ) as answer:
            lines = (line for line in answer.iter_lines() if line)
            next(lines)
            process.send_signal(signal.SIGTERM)
            rest = list(lines)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] in ("length", "stop")


@pytest.mark.parametrize("draft", every(2, ["auto", "off"]))
def test_a_server_on_a_gpu_answers_two_conversations_with_the_tokens_of_the_cpu(
    store: Path, monkeypatch: pytest.MonkeyPatch, draft: str
) -> None:
    monkeypatch.setenv(CHOICE, adapter().name)
    asked = [{**ASKED, "prompt": prompt, "max_tokens": 12} for prompt in ("a b c a b c a b", "Once upon a")]

    def answers(device: str) -> tuple[list[str], str]:
        with (
            serving(store, "--parallel", "2", "--draft", draft, "--device", device) as (process, url),
            ThreadPoolExecutor(2) as pool,
        ):
            ask = partial(httpx.post, f"{url}/v1/completions", trust_env=False, timeout=PATIENCE_S)
            told = list(pool.map(lambda one: ask(json=one), asked))
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, errors
        return [one.json()["choices"][0]["text"] for one in told], errors

    there, errors = answers("gpu")
    assert f"tiny runs on {adapter().name}" in errors
    assert there == answers("cpu")[0]
    assert all(there)


def test_a_port_in_use_is_one_line(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run(home.services(), "serve", "--port", port)
        assert_one_line(result, 2, f"port {port} is in use", "choose another")


def test_other_machines_need_a_key(home: Home) -> None:
    result = run(home.services(), "serve", "--host", "0.0.0.0", "--port", "0")
    assert_one_line(result, 2, "0.0.0.0 can be reached by other machines", "--key-file FILE or EDGEDEC_KEY")


def test_tools_are_for_a_page_on_this_machine_alone(home: Home) -> None:
    given = ["serve", "--mcp", "servers.json", "--host", "0.0.0.0", "--port", "0"]
    result = run(home.services(), *given, env={"EDGEDEC_KEY": "long-enough"})
    assert_one_line(result, 2, "0.0.0.0 can be reached by other machines, and tools are for this one alone")


def test_the_page_of_another_site_asks_where_its_origin_is_allowed(store: Path) -> None:
    origin = "https://example.org"
    with serving(store, "--allow-origin", f"{origin}/") as (_, url):
        headers = {"origin": origin}
        answer = httpx.post(
            f"{url}/v1/completions", json=ASKED, headers=headers, trust_env=False, timeout=PATIENCE_S
        )
        assert answer.json()["usage"]["completion_tokens"] == 4
        assert answer.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize("origin", ["example.org", "https://example.org/page", "", "http://a b"])
def test_an_origin_that_is_none_is_one_line(home: Home, origin: str) -> None:
    result = run(home.services(), "serve", "--allow-origin", origin, "--port", "0")
    assert_one_line(result, 2, "is no origin", "https://example.org")


def test_a_terminal_gets_words_and_the_address_last(store: Path) -> None:
    """All that is said before the first request ends with the address; polls say nothing."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "edgedec", "serve", "tiny", "--port", "0", "--context", "128"]
    environment = {**os.environ, "EDGEDEC_HOME": str(store), "TERM": "dumb", "COLUMNS": "200"}
    process = subprocess.Popen(command, env=environment, stdout=slave, stderr=slave)
    os.close(slave)
    guard = threading.Timer(PATIENCE_S, process.kill)
    guard.start()
    said = ""
    try:
        while "Ctrl-C ends the server." not in said:
            said += os.read(master, 65536).decode()
        before = said.splitlines()
        url = before[-1].split()[2].rstrip(",")
        for path in ("/health", "/metrics", "/v1/models", "/"):
            assert httpx.get(f"{url}{path}", trust_env=False, timeout=PATIENCE_S).status_code == 200
        httpx.post(f"{url}/v1/completions", json=ASKED, trust_env=False, timeout=PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        with suppress(OSError):  # a terminal whose process has ended
            while part := os.read(master, 65536):
                said += part.decode()
        assert process.wait(PATIENCE_S) == 0
    finally:
        guard.cancel()
        process.kill()
        process.wait()
        os.close(master)
    (line,) = said.splitlines()[len(before) :]
    assert re.fullmatch(r"\d\d:\d\d:\d\d tiny: \d+ \+ 4 tokens in \d+\.\d s, length", line)


@pytest.mark.parametrize("host", ["no such host", "256.1.1.1", ""])
def test_an_address_that_is_none_is_one_line(home: Home, host: str) -> None:
    result = run(home.services(), "serve", "--host", host, "--port", "0", env={"EDGEDEC_KEY": "long-enough"})
    assert_one_line(result, 2, "is no address")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no key"),
        (b"short", "holds no key"),
        (b"two words", "holds no key"),
        (b"\xff" * 9, "no key"),
    ],
)
def test_a_key_file_holds_one_word(home: Home, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    result = run(home.services(), "serve", "--key-file", str(file))
    assert result.exit_code in (2, 4)
    assert words in result.stderr
    missing = run(home.services(), "serve", "--key-file", str(tmp_path / "none"))
    assert_one_line(missing, 3, "cannot be read")


@pytest.mark.parametrize(("mode", "told"), [(0o644, True), (0o600, False)])
def test_a_key_that_others_can_read_is_told(home: Home, tmp_path: Path, mode: int, told: bool) -> None:
    file = tmp_path / "key"
    file.write_text("long-enough\n")
    file.chmod(mode)
    result = run(home.services(), "serve", "--key-file", str(file), "--host", "no such host")
    assert ("can be read by other users" in result.stderr) == told
    assert "long-enough" not in result.output


def test_a_key_in_the_environment_is_checked(home: Home) -> None:
    result = run(home.services(), "serve", env={"EDGEDEC_KEY": "x"})
    assert_one_line(result, 2, "EDGEDEC_KEY holds no key", "8 to 4096")


def test_without_the_extra_one_line_says_what_to_install(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run(home.services(), "serve")
    assert_one_line(result, 2, "serving needs starlette", pip_install("server"))


def test_the_help_shows_every_option_in_groups() -> None:
    shown = run(None, "serve", "--help").stdout
    places = [shown.index(f"\n{heading}:\n") for heading in ("Server", "Memory and speed", "Limits")]
    assert places == sorted(places)
    assert "--key " not in shown
