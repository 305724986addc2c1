from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.model_id import ModelId
from edgedec.core.errors import (
    BadFileError,
    EdgeDecError,
    NotFoundError,
    Remedy,
    StorageError,
    UnsupportedError,
    UsageError,
)
from edgedec.sampling import DrawParams
from edgedec.session import session_file
from edgedec.session.chat import Chat
from edgedec.session.reply import Settings
from edgedec.session.saved_session import SavedSession
from tests.fixtures.ready import chat_of
from tests.fixtures.sessions import restore_session as restore_aloud
from tests.fixtures.sessions import save_session
from tests.session.parrot import load_parrot

MODEL = ModelId("parrot", "a" * 64)


def restore_session(path: Path, session: Chat, model: ModelId) -> SavedSession:
    """Without a word: a parrot has no cache to save."""

    def silent(line: str) -> None:
        raise AssertionError(line)

    return restore_aloud(path, session, model, silent)


def talked(directory: Path, system: str | None = None) -> Chat:
    model = load_parrot(directory, "Hello.", "Bye.")
    settings = Settings(DrawParams(temperature=0.5, seed=7), 100)
    session = chat_of(model, settings, system=system)
    list(session.reply("Grüße 👋"))
    return session


def fresh(directory: Path) -> Chat:
    model = load_parrot(directory, "Hello.", "Bye.")
    return chat_of(model)


def test_a_conversation_continues_where_it_was_saved(tmp_path: Path) -> None:
    before, path = talked(tmp_path, system="Be brief."), tmp_path / "talk.json"
    save_session(path, before, MODEL)
    after = fresh(tmp_path)
    saved = restore_session(path, after, MODEL)
    assert saved.params == DrawParams(temperature=0.5, seed=7)
    assert after.messages == before.messages
    assert after.system == "Be brief."
    assert "".join(after.reply("Bye")) == "".join(before.reply("Bye")) == "Bye."
    assert after.engine.committed == before.engine.committed


def test_saving_replaces_the_file_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, path = talked(tmp_path), tmp_path / "talk.json"
    save_session(path, session, MODEL)
    old = path.read_bytes()

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    list(session.reply("Bye"))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="no space left"):
        save_session(path, session, MODEL)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.glob("talk.json*")] == ["talk.json"]


def test_a_directory_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a file"):
        save_session(tmp_path, talked(tmp_path), MODEL)


def test_another_model_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path, session = tmp_path / "talk.json", fresh(tmp_path)
    save_session(path, talked(tmp_path), ModelId("smollm2-135m", "b" * 64))
    with pytest.raises(UsageError, match="a conversation with smollm2-135m, and this is parrot") as caught:
        restore_session(path, session, MODEL)
    assert caught.value.remedies == (Remedy("model", "smollm2-135m"),)
    assert session.messages == []


def test_files_of_version_1_are_refused_in_one_line(tmp_path: Path) -> None:
    """They were one JSON object, indented or not."""
    path, session = tmp_path / "talk.json", fresh(tmp_path)
    for indent in (None, 1):
        path.write_text(json.dumps({"format": "edgedec-session", "version": 1}, indent=indent))
        with pytest.raises(UnsupportedError, match=r"session format 1, and this EdgeDec reads 2") as caught:
            restore_session(path, session, MODEL)
        assert caught.value.hint == "start a new conversation in another file"


def test_behind_a_link_the_real_file_is_replaced(tmp_path: Path) -> None:
    """A link to a file, to a link, and to a file that is not there yet."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    real, link, second = folder / "talk", tmp_path / "link", tmp_path / "second"
    link.symlink_to(Path("elsewhere") / "talk")
    second.symlink_to(link)
    session = talked(tmp_path)
    for path in (link, second):
        save_session(path, session, MODEL)
        assert (link.is_symlink(), second.is_symlink(), real.is_file()) == (True, True, True)
        assert [file.name for file in folder.iterdir()] == ["talk"]
        assert restore_session(path, fresh(tmp_path), MODEL).messages


def test_leftovers_are_looked_for_beside_the_real_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    left = tmp_path / "elsewhere" / "talk.partial-00ff00ff"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "talk")
    session_file.remove_leftovers(tmp_path / "link")
    assert not left.exists()


def test_links_in_a_circle_are_an_error_and_stay(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StorageError, match="symbolic link"):
        save_session(tmp_path / "a", talked(tmp_path), MODEL)
    assert (tmp_path / "a").is_symlink()


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    save_session(tmp_path / "talk", talked(tmp_path), MODEL)
    assert (tmp_path / "talk").stat().st_mode & 0o777 == 0o600


def hashed(content: bytes) -> bytes:
    return content + hashlib.sha256(content).digest()


def document_line(text: str) -> Callable[[Path], None]:
    """Put any line in the document's place, under a hash that is right."""
    return lambda path: path.write_bytes(hashed(b"edgedec-session 2\n" + text.encode() + b"\n")) and None


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Change the document, under a hash that is right."""

    def apply(path: Path) -> None:
        document = json.loads(path.read_bytes().splitlines()[1])
        change(document)
        path.write_bytes(hashed(b"edgedec-session 2\n" + json.dumps(document).encode() + b"\n"))

    return apply


@pytest.mark.parametrize(
    ("break_it", "kind", "message"),
    [
        (lambda path: path.unlink(), NotFoundError, "no such file"),
        (lambda path: path.write_bytes(b""), BadFileError, "is not a saved"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), BadFileError, "its hash is wrong"),
        (lambda path: path.write_bytes(path.read_bytes()[:17]), BadFileError, "its hash is wrong"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), BadFileError, "its hash is wrong"),
        (lambda path: path.write_bytes(hashed(b"edgedec-session 2")), BadFileError, "not JSON"),
        (lambda path: path.write_bytes(hashed(b"edgedec-session 2\n[1]\n")), BadFileError, "not a saved"),
        (lambda path: path.write_bytes(hashed(b"edgedec-session 3\n")), UnsupportedError, "format '3'"),
        (lambda path: path.write_bytes(hashed(b"edgedec-session " + b"9" * 99)), UnsupportedError, "format"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), BadFileError, "is not a saved"),
        (document_line("[" * 100_000), BadFileError, "not JSON"),
        (document_line("9" * 5000), BadFileError, "not JSON"),
        (lambda path: path.write_text("[1, 2]"), BadFileError, "is not a saved conversation"),
        (lambda path: path.write_text('{"format": "other"}'), BadFileError, "is not a saved conversation"),
        (document_line('{"format": "other"}'), BadFileError, "is not a saved conversation"),
        (damaged(lambda d: d.update(version=3)), UnsupportedError, "session format 3"),
        (damaged(lambda d: d.update(text=None)), BadFileError, "None is not text"),
        (damaged(lambda d: d.update(cache=5)), BadFileError, "damaged"),
        (damaged(lambda d: d.update(cache={"layout": "x"})), BadFileError, "'edgedec' is missing"),
        (
            damaged(lambda d: d.update(cache={"layout": "x", "edgedec": "1", "tokens": [10**9]})),
            BadFileError,
            "token ids that parrot does not have",
        ),
        (damaged(lambda d: d.pop("messages")), BadFileError, "'messages' is missing"),
        (damaged(lambda d: d.update(tokens=[1, "2"])), BadFileError, "a token id is not a natural number"),
        (damaged(lambda d: d.update(tokens=[True])), BadFileError, "a token id is not a natural number"),
        (damaged(lambda d: d.update(tokens=[-1])), BadFileError, "a token id is not a natural number"),
        (damaged(lambda d: d.update(tokens=[10**9])), BadFileError, "token ids that parrot does not have"),
        (damaged(lambda d: d.update(tokens=None)), BadFileError, "damaged"),
        (damaged(lambda d: d.update(model="parrot")), BadFileError, "damaged"),
        (damaged(lambda d: d["messages"][0].update(role="root")), BadFileError, "unknown role 'root'"),
        (damaged(lambda d: d["messages"][0].update(content=5)), BadFileError, "5 is not text"),
        (damaged(lambda d: d["messages"].append("hello")), BadFileError, "damaged"),
        (damaged(lambda d: d["params"].update(temperature="hot")), BadFileError, "damaged"),
        (damaged(lambda d: d["params"].update(temperature=-1)), BadFileError, "temperature cannot be -1"),
        (damaged(lambda d: d["params"].update(magic=1)), BadFileError, "unknown parameter 'magic'"),
        (damaged(lambda d: d.update(params=[])), BadFileError, "damaged"),
    ],
)
def test_damaged_files_are_refused_and_nothing_changes(
    tmp_path: Path, break_it: Callable[[Path], None], kind: type[EdgeDecError], message: str
) -> None:
    path, session = tmp_path / "talk.json", fresh(tmp_path)
    save_session(path, talked(tmp_path), MODEL)
    break_it(path)
    with pytest.raises(kind, match=message) as caught:
        restore_session(path, session, MODEL)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert session.messages == []


def test_flipped_bits_and_missing_ends_are_found(tmp_path: Path) -> None:
    path, session = tmp_path / "talk", fresh(tmp_path)
    save_session(path, talked(tmp_path), MODEL)
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        for broken in (whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :], whole[:at]):
            path.write_bytes(broken)
            with pytest.raises(BadFileError):
                restore_session(path, session, MODEL)
    assert session.messages == []


def test_a_huge_document_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.json"
    save_session(path, talked(tmp_path), MODEL)
    monkeypatch.setattr(session_file, "_MOST_BYTES", 10)
    with pytest.raises(BadFileError, match="too large"):
        restore_session(path, fresh(tmp_path), MODEL)


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a file"):
        restore_session(tmp_path / "pipe", fresh(tmp_path), MODEL)
    with pytest.raises(UsageError, match="is not a file"):
        save_session(tmp_path / "pipe", talked(tmp_path), MODEL)


def test_what_a_killed_process_left_is_removed_in_time(tmp_path: Path) -> None:
    left = [
        tmp_path / name for name in ("a[b].partial-00ff00ff", "a[b].partial-11ff00ff", "ab.partial-00ff00ff")
    ]
    for path in left:
        path.write_bytes(b"half")
    for path in (left[0], left[2]):
        os.utime(path, (0, 0))
    session_file.remove_leftovers(tmp_path / "a[b]")
    assert [path.exists() for path in left] == [False, True, True]
    session_file.remove_leftovers(tmp_path / "nowhere" / "talk")


def test_the_model_is_known_by_all_its_files(tmp_path: Path) -> None:
    manifest = load_parrot(tmp_path).manifest
    first = ModelId.of(manifest)
    entry = manifest.files["weights.bin"]
    other = type(manifest)("parrot", manifest.spec, manifest.tokenizer, {"model.onnx": entry})
    assert first.name == "parrot"
    assert first != ModelId.of(other)
