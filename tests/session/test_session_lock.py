"""One process keeps a conversation in a file; a second one is told which, and no turn is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgedec.core.errors import NotFoundError, UsageError
from edgedec.core.progress import ignore
from edgedec.session.session_lock import kept_alone
from tests.fixtures.ready import chat_of
from tests.fixtures.sessions import restore_session, save_session
from tests.fixtures.tiny_models import opened

ROOT = Path(__file__).resolve().parents[2]
KEEPER = """
import sys
from pathlib import Path
from edgedec.session.session_lock import kept_alone
with kept_alone(Path(sys.argv[1])):
    print("kept", flush=True)
    sys.stdin.read()
"""


@contextmanager
def keeper(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that keeps a conversation in ``path``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": ""}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", KEEPER, str(path)]
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        yield process


def test_a_second_keeper_is_told_who_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "talk"
    link = tmp_path / "link"
    link.symlink_to(path)
    with keeper(path) as process:
        for name in (path, link):
            said = rf"keeps its .* \(process {process.pid}, since 20"
            with pytest.raises(UsageError, match=said), kept_alone(name):
                pass
        process.communicate("")
    with kept_alone(path), kept_alone(link):
        assert (tmp_path / "talk.lock").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link"]


def test_a_keeper_that_was_killed_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "talk"
    with keeper(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with kept_alone(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_that_another_process_keeps_can_be_read_and_not_overwritten(
    bundle: Path, tmp_path: Path
) -> None:
    model, model_id = opened(bundle)
    path = tmp_path / "talk"
    chat = chat_of(model)
    chat.reply("Hello").read()
    save_session(path, chat, model_id)
    before = path.read_bytes()
    with keeper(path) as process:
        other = chat_of(model)
        restore_session(path, other, model_id, ignore)
        assert [one.content for one in other.messages] == [one.content for one in chat.messages]
        other.reply("More").read()
        with pytest.raises(UsageError, match=f"process {process.pid}"):
            save_session(path, other, model_id)
        assert path.read_bytes() == before
        process.communicate("")
    save_session(path, other, model_id)
    assert path.read_bytes() != before


def test_a_note_of_another_hand_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "talk"
    with keeper(path) as process:
        (tmp_path / "talk.lock").write_text("\x1b[31mprocess 1")
        with pytest.raises(UsageError) as caught, kept_alone(path):
            pass
        assert "\x1b" not in str(caught.value)
        process.communicate("")


def test_without_its_folder_a_file_is_not_found(bundle: Path, tmp_path: Path) -> None:
    model, model_id = opened(bundle)
    with pytest.raises(NotFoundError, match="there is no folder"):
        save_session(tmp_path / "none" / "talk", chat_of(model), model_id)
