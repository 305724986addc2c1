"""The real command on a real (pseudo-)terminal, with a tiny model of random weights."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgedec.export import export_gguf
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.patience import PATIENCE_S

pty = pytest.importorskip("pty", reason="only Unix has pseudo-terminals")
termios = pytest.importorskip("termios", reason="only Unix has pseudo-terminals")

ENDLESS = ("--context", "60000", "--max-tokens", "50000", "--draft", "off")
"""A reply that only Ctrl-C ends; without drafts no cost is measured before it begins."""
CTRL_C, CTRL_D, ALT_ENTER = b"\x03", b"\x04", b"\x1b\r"
READY = "[ready]"
_EDITING = b"\x1b[?2004h"  # an editor asks the terminal for bracketed paste when it begins to listen
_ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[ -/]*[@-~]|[@-_])|\r")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    ends = (0, 1, 2)
    source = write_tiny(directory / "tiny.gguf", shape=TinyShape(context=65536), mute=ends)
    export_gguf(source, directory / "bundle")
    return directory / "bundle"


PARROT = """
import sys
from pathlib import Path

sys.path.insert(0, ROOT)
from edgedec.cli.app import app
from tests.cli.support import Home

home = Home(Path(HOME) / "home")
bundle = home.path / "models" / "smollm2-135m"
if not bundle.exists():
    home.install()
services = home.services(home.parrot("Some **strong words** here."))
app.main(obj=services)
"""
"""A program that answers with markdown."""


class Terminal:
    """``edgedec`` with a terminal of its own; ``seen`` is all it has written, without escape sequences."""

    def __init__(self, home: Path, *args: str, program: Path | None = None, **variables: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 250))
        start = [str(program)] if program else ["-m", "edgedec.cli.main"]
        line = shlex.join([sys.executable, *start, *args])
        tty = os.ttyname(slave)
        environment = {**os.environ, "EDGEDEC_HOME": str(home), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment.update(variables)
        # The first terminal that a session leader opens becomes its controlling one, which Ctrl-C needs.
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line} <{tty} >{tty} 2>{tty}"], start_new_session=True, env=environment
        )
        os.close(slave)
        self._raw = b""
        self._from = 0
        self._over = False
        """Whether the program has ended and all that it wrote is read."""

    def type(self, keys: str | bytes) -> None:
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    @property
    def coloured(self) -> bool:
        return b"\x1b[31m" in self._raw

    @property
    def seen(self) -> str:
        return _ESCAPES.sub(b"", self._raw.replace(_EDITING, READY.encode())).decode("utf-8", "replace")

    def wait_for(self, words: str) -> str:
        """Read until ``words`` appear after what earlier waits have found; returns what came before them."""
        deadline = time.monotonic() + PATIENCE_S
        while (at := self.seen.find(words, self._from)) < 0:
            waiting = time.monotonic() < deadline and not self._over
            assert waiting, f"no {words!r} in {self.seen[self._from :][-2000:]!r}"
            self._read()
        before, self._from = self.seen[self._from : at], at + len(words)
        return before

    def answer(self, keys: str | bytes, words: str) -> None:
        """Type when the chat listens, and read until it has answered with ``words``."""
        self.wait_for(READY)
        self.type(keys)
        self.wait_for(words)

    def wait_for_more(self, chars: int = 20) -> None:
        """Read until so many characters have come that no wait has found yet."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.seen) - self._from < chars:
            waiting = time.monotonic() < deadline and not self._over
            assert waiting, f"no more than {self.seen[self._from :]!r}"
            self._read()

    def status(self) -> int:
        """Wait for the end, and read what is written until then."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.seen[-2000:]!r}"
            self._read()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.1)[0]:
            try:
                self._raw += os.read(self._master, 65536)
            except OSError:  # Linux says EIO when the other side has closed, and before it opens
                self._over = self.process.poll() is not None
                time.sleep(0.05)


Start = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Start]:
    """Opens terminals, whose home is the test's folder."""
    with ExitStack() as opened:

        def make(*args: str, **variables: Any) -> Terminal:
            made = Terminal(tmp_path, *args, **variables)
            opened.callback(made.close)
            return made

        yield make


def test_ctrl_c_stops_the_reply_and_keeps_the_session(bundle: Path, terminal: Start) -> None:
    chat = terminal("chat", "-m", str(bundle), *ENDLESS)
    chat.wait_for("/help helps")
    chat.answer("Hello\r", "Hello")
    chat.wait_for_more()
    chat.type(CTRL_C)
    chat.wait_for("tokens/s | stopped]")
    chat.answer("/stats\r", "replies   1, ")
    chat.answer("Once more\r", "more")
    time.sleep(1.5)  # its text may be control characters alone, which a terminal is not shown
    chat.type(CTRL_C)
    chat.wait_for("stopped]")
    chat.answer(CTRL_C, "Ctrl-C once more")
    chat.wait_for(READY)
    chat.type(CTRL_C)
    assert chat.status() == 0
    assert "Traceback" not in chat.seen


def test_prompts_are_kept_only_on_request(bundle: Path, tmp_path: Path, terminal: Start) -> None:
    chat = terminal("chat", "-m", str(bundle), "--max-tokens", "3")
    chat.answer(b"a secret\r", "/more continues]")
    chat.wait_for(READY)
    chat.type(b"\x1b[A")  # the arrow up still brings it back
    chat.wait_for("a secret")
    chat.type(CTRL_C + CTRL_D)
    assert chat.status() == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


def test_pasted_lines_are_one_turn_and_history_is_private(
    bundle: Path, tmp_path: Path, terminal: Start
) -> None:
    chat = terminal("chat", "-m", str(bundle), "--max-tokens", "3", "--history")
    chat.wait_for(READY)
    chat.type(b"\x1b[200~first\nsecond\x1b[201~")
    chat.type(ALT_ENTER)
    chat.type(b"third\r")
    chat.wait_for("/more continues]")
    talk = tmp_path / "talk.json"
    chat.answer(f"/save {talk}\r", "Saved 1 turn")
    chat.wait_for(READY)
    chat.type(CTRL_D)
    assert chat.status() == 0
    assert (
        json.loads(talk.read_bytes().split(b"\n", 2)[1])["messages"][0]["content"] == "first\nsecond\nthird"
    )
    history = tmp_path / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+second" in history.read_text()


def test_a_chat_that_is_kept_goes_on(bundle: Path, tmp_path: Path, terminal: Start) -> None:
    talk = tmp_path / "talk"
    for greeting in ("/help helps", f"continuing {talk}: 1 turn"):
        chat = terminal("chat", "-m", str(bundle), "--max-tokens", "3", "--session", str(talk))
        chat.wait_for(greeting)
        chat.answer(b"Hi\r", "/more continues]")
        chat.wait_for(READY)
        chat.type(CTRL_D)
        assert chat.status() == 0
    assert len(json.loads(talk.read_bytes().split(b"\n", 2)[1])["messages"]) == 4


def test_ctrl_c_drops_what_is_typed_and_only_then_quits(
    bundle: Path, tmp_path: Path, terminal: Start
) -> None:
    chat = terminal("chat", "-m", str(bundle), "--max-tokens", "3")
    chat.answer(CTRL_C, "Ctrl-C once more")
    chat.answer("never sent", "sent")
    chat.type(CTRL_C)
    chat.type("Hi\r")
    chat.wait_for("/more continues]")
    talk = tmp_path / "talk.json"
    chat.answer(f"/save {talk}\r", "Saved 1 turn")
    assert json.loads(talk.read_bytes().split(b"\n", 2)[1])["messages"][0]["content"] == "Hi"
    chat.wait_for(READY)
    chat.type(CTRL_C + CTRL_C)
    assert chat.status() == 0


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_are_left_out_on_request(terminal: Start, variables: dict[str, str], coloured: bool) -> None:
    command = terminal("rm", "nothing", **variables)
    command.wait_for("error: nothing is not installed")
    assert command.status() == 3
    assert command.coloured is coloured


def test_errors_keep_the_session(bundle: Path, terminal: Start) -> None:
    chat = terminal("chat", "-m", str(bundle), "--context", "64", "--max-tokens", "3")
    for typed, answer in (
        ("/nothing", "error: unknown command /nothing"),
        ("/load none.json", "error: no such file: none.json"),
        ("x" * 200, "error: the prompt has "),
        ("Hi", "/more continues]"),
        ("/quit", "Not saved: /save FILE keeps the conversation, /quit once more leaves it."),
        ("/quit", ""),
    ):
        chat.answer(f"{typed}\r", answer)
    assert chat.status() == 0


def test_generate_shows_markdown_on_a_terminal_and_its_text_in_a_pipe(
    tmp_path: Path, terminal: Start
) -> None:
    """It wrote the asterisks to a terminal, where a chat with the same model renders them."""
    program = tmp_path / "program.py"
    places = {"HOME": tmp_path, "ROOT": Path(__file__).parents[2]}
    program.write_text("".join(f"{name} = {str(path)!r}\n" for name, path in places.items()) + PARROT)
    shown = terminal("generate", "-p", "Hi", program=program)
    assert shown.status() == 0
    assert "strong words" in shown.seen
    assert "**" not in shown.seen
    command = [sys.executable, str(program), "generate", "-p", "Hi"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stdout == "Some **strong words** here.\n"
    raw = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(raw.stdout)["text"] == "Some **strong words** here."


def test_ctrl_c_ends_generate_with_130(bundle: Path, terminal: Start) -> None:
    generate = terminal("generate", "-m", str(bundle), "-p", "Hello", *ENDLESS)
    generate.wait_for_more()
    generate.type(CTRL_C)
    assert generate.status() == 130
    assert "Traceback" not in generate.seen


def test_a_pipe_in_a_real_process(bundle: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "EDGEDEC_HOME": str(tmp_path)}

    def edgedec(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "edgedec.cli.main", *args, "-m", str(bundle), "--max-tokens", "5"]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, env=environment
        )

    talk = edgedec("chat", stdin="One\nTwo\n")
    assert talk.returncode == 0
    (line,) = talk.stderr.splitlines()
    assert line.startswith("measuring what passes of")
    answer = json.loads(edgedec("generate", "-p", "One", "--json").stdout)
    assert len(answer["tokens"]) == 5
    assert talk.stdout.startswith(answer["text"])
    assert 0 < answer["stats"]["load_s"] < answer["stats"]["time_to_first_token_s"]
