from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgedec.core.errors import (
    BadFileError,
    EdgeDecError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    UsageError,
)
from edgedec.sampling import SamplingParams
from edgedec.session import state
from edgedec.session.chat import Session
from edgedec.session.reply import Settings
from edgedec.session.state import ModelId, read_session, restore_session, save_session
from tests.session.parrot import load_parrot

MODEL = ModelId("parrot", "a" * 64)


def talked(directory: Path, system: str | None = None) -> Session:
    model = load_parrot(directory, "Hello.", "Bye.")
    settings = Settings(SamplingParams(temperature=0.5, seed=7), 100)
    session = Session(model.forward, model.tokenizer, model.template, settings, system=system)
    list(session.reply("Grüße 👋"))
    return session


def fresh(directory: Path) -> Session:
    model = load_parrot(directory, "Hello.", "Bye.")
    return Session(model.forward, model.tokenizer, model.template)


def test_a_conversation_continues_where_it_was_saved(tmp_path: Path) -> None:
    before, path = talked(tmp_path, system="Be brief."), tmp_path / "talk.json"
    save_session(path, before, MODEL)
    after = fresh(tmp_path)
    saved = restore_session(path, after, MODEL)
    assert saved.params == SamplingParams(temperature=0.5, seed=7)
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

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StorageError, match="no space left"):
        save_session(path, session, MODEL)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.glob("talk.json*")] == ["talk.json"]


def test_a_directory_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        save_session(tmp_path, talked(tmp_path), MODEL)


def test_another_model_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    path, session = tmp_path / "talk.json", fresh(tmp_path)
    save_session(path, talked(tmp_path), ModelId("smollm2-135m", "b" * 64))
    with pytest.raises(UsageError, match="a conversation with smollm2-135m, and this is parrot") as caught:
        restore_session(path, session, MODEL)
    assert caught.value.hint == "start with `edgedec chat -m smollm2-135m`"
    assert session.messages == []


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")

    return apply


@pytest.mark.parametrize(
    ("break_it", "kind", "message"),
    [
        (lambda path: path.unlink(), NotFoundError, "no such file"),
        (lambda path: path.write_bytes(b""), BadFileError, "not JSON"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), BadFileError, "not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe\x00"), BadFileError, "not JSON"),
        (lambda path: path.write_text("[" * 100_000), BadFileError, "not JSON"),
        (lambda path: path.write_text("9" * 5000), BadFileError, "not JSON"),
        (lambda path: path.write_text("[1, 2]"), BadFileError, "is not a saved conversation"),
        (lambda path: path.write_text('{"format": "other"}'), BadFileError, "is not a saved conversation"),
        (damaged(lambda d: d.update(version=2)), UnsupportedError, "session format 2"),
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


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.json"
    save_session(path, talked(tmp_path), MODEL)
    monkeypatch.setattr(state, "_MOST_BYTES", 10)
    with pytest.raises(BadFileError, match="too large"):
        read_session(path)


def test_the_model_is_known_by_all_its_files(tmp_path: Path) -> None:
    manifest = load_parrot(tmp_path).manifest
    first = ModelId.of(manifest)
    entry = manifest.files["weights.bin"]
    other = type(manifest)("parrot", manifest.spec, manifest.tokenizer, {"model.onnx": entry})
    assert first.name == "parrot"
    assert first != ModelId.of(other)
