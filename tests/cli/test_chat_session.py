"""``edgedec chat --session FILE``: a conversation that outlives the process."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.tiny_models import opened, tiny_bundle


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes().split(b"\n", 2)[1])
    return found


def said(path: Path) -> list[str]:
    return [message["content"] for message in document(path)["messages"]]


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_next_chat_goes_on(home: Home) -> None:
    talk = str(home.path / "talk")
    model = home.parrot("Hello.", "Again.", "Bye.")
    first = run(home.services(model), "chat", "--session", talk, "--system", "Be brief.", stdin="Hi\n")
    assert (first.exit_code, first.stdout, first.stderr) == (0, "Hello.\n", "")
    assert said(Path(talk)) == ["Be brief.", "Hi", "Hello."]
    second = run(home.services(model), "chat", "--session", talk, stdin="More\nAnd more\n")
    assert (second.exit_code, second.stdout, second.stderr) == (0, "Again.\nBye.\n", "")
    assert said(Path(talk)) == ["Be brief.", "Hi", "Hello.", "More", "Again.", "And more", "Bye."]


def test_the_file_is_written_after_every_turn(home: Home) -> None:
    talk = home.path / "talk"
    lines = f"Hi\n/save {home.path / 'copy'}\nMore\n"
    model = home.parrot("Hello.", "Again.")
    run(home.services(model), "chat", "--session", str(talk), stdin=lines + "/oops\n")
    assert said(talk) == ["Hi", "Hello.", "More", "Again."]
    assert said(home.path / "copy") == ["Hi", "Hello."]


def test_a_conversation_that_stays_as_it_was_is_not_written_again(home: Home) -> None:
    talk = home.path / "talk"
    model = home.parrot("Hello.")
    run(home.services(model), "chat", "--session", str(talk), "--seed", "5", stdin="Hi\n")
    before = talk.stat()
    run(home.services(model), "chat", "--session", str(talk), stdin="/stats\n/help\n")
    assert talk.stat().st_ino == before.st_ino
    run(home.services(model), "chat", "--session", str(talk), stdin="/reset\n")
    assert said(talk) == []


def test_the_command_line_comes_before_what_was_saved(home: Home) -> None:
    talk = home.path / "talk"
    model = home.parrot("Hello.", "Again.")
    given = ("chat", "--session", str(talk), "--sampling")
    run(home.services(model), *given, "top-k=9", "--seed", "5", stdin="Hi\n")
    run(home.services(model), *given, "top-k=3", stdin="More\n")
    params = document(talk)["params"]
    assert (params["seed"], params["top_k"]) == (5, 3)


def test_another_system_message_is_refused(home: Home) -> None:
    talk = str(home.path / "talk")
    model = home.parrot("Hello.", "Again.")
    run(home.services(model), "chat", "--session", talk, "--system", "Be brief.", stdin="Hi\n")
    same = run(home.services(model), "chat", "--session", talk, "--system", "Be brief.", stdin="More\n")
    assert same.stdout == "Again.\n"
    before = Path(talk).read_bytes()
    other = run(home.services(model), "chat", "--session", talk, "--system", "Be long.", stdin="More\n")
    assert_one_line(other, 2, "has another system message", "--system")
    assert Path(talk).read_bytes() == before


def test_a_broken_file_is_refused_and_stays(home: Home) -> None:
    talk = home.path / "talk"
    services = home.services(home.parrot("Hello."))
    run(services, "chat", "--session", str(talk), stdin="Hi\n")
    broken = talk.read_bytes()[:-3]
    talk.write_bytes(broken)
    assert_one_line(
        run(services, "chat", "--session", str(talk), stdin="Hi\n"), 4, "talk is truncated or damaged"
    )
    assert talk.read_bytes() == broken
    assert_one_line(run(services, "chat", "--session", str(home.path), stdin="Hi\n"), 2, "is not a file")


@pytest.mark.parametrize(
    ("place", "status", "words"),
    [
        ("new/folder/talk", 3, ["there is no folder", "new/folder"]),
        ("folder", 2, ["folder is not a file"]),
        ("file/talk", 7, ["file/talk", "a file is in the way"]),
        ("link", 3, ["there is no folder", "gone"]),
        ("circle", 7, ["circle", "a symbolic link is in the way"]),
        ("closed/talk", 7, ["no permission to write", "closed/talk"]),
        ("x" * 300, 7, ["the name is too long"]),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_opened(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, status: int, words: list[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "link").symlink_to("gone/talk")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "closed").mkdir()
    real = os.open

    def guarded(path: str | Path, *args: Any, **others: Any) -> int:
        if Path(path).parent.name == "closed":  # the permissions of the folder would not stop root
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *args, **others)

    monkeypatch.setattr("edgedec.session.session_file.os.open", guarded)
    before = sorted(tmp_path.rglob("*"))
    result = run(home.services(home.parrot("No.")), "chat", "--session", str(tmp_path / place), stdin="Hi\n")
    assert_one_line(result, status, *words)
    assert home.opened == []
    assert sorted(path for path in tmp_path.rglob("*") if home.path not in path.parents) == [
        path for path in before if home.path not in path.parents
    ]


def test_a_tilde_is_the_user_s_home_as_in_save(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run(home.services(home.parrot("Yes.")), "chat", "--session", "~/talk", stdin="Hi\n")
    assert said(tmp_path / "talk") == ["Hi", "Yes."]


def test_saving_makes_no_folders(home: Home, tmp_path: Path) -> None:
    place = tmp_path / "new" / "talk"
    result = run(home.services(home.parrot("Yes.")), "chat", stdin=f"Hi\n/save {place}\n")
    assert (result.exit_code, result.stdout) == (3, "Yes.\n")
    assert "there is no folder" in result.stderr
    assert not place.parent.exists()


def test_another_conversation_does_not_replace_the_one_that_is_kept(home: Home) -> None:
    talk, other = home.path / "talk", home.path / "other"
    services = home.services(home.parrot("Hello.", "Again."))
    run(services, "chat", stdin=f"Hi\n/save {other}\n")
    result = run(services, "chat", "--session", str(talk), stdin=f"Ho\n/load {other}\n")
    assert (result.exit_code, result.stdout) == (2, "Hello.\n")
    assert f"this chat is kept in {talk}" in result.stderr
    assert said(talk) == ["Ho", "Hello."]


@pytest.mark.parametrize("turns", ["More\n", "More\nAnd more\n"])
def test_a_full_disk_costs_one_line_and_the_conversation_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch, turns: str
) -> None:
    talk = home.path / "talk"
    services = home.services(home.parrot("Hello.", "Again.", "Bye."))
    run(services, "chat", "--session", str(talk), stdin="Hi\n")
    before = talk.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        result = run(services, "chat", "--session", str(talk), stdin=turns)
    assert (result.exit_code, result.stdout) == (7, "Again.\nBye.\n"[: 7 * turns.count("\n")])
    (line,) = result.stderr.splitlines()
    assert "no space left on the disk while writing" in line
    assert talk.read_bytes() == before
    assert sorted(path.name for path in home.path.glob("talk*")) == ["talk"]


def test_a_disk_that_fills_again_costs_another_line(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([True, False, True, True])
    real = os.fsync

    def sometimes_full(descriptor: int) -> None:
        if next(failures):
            full_disk(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sometimes_full)
    talk, services = home.path / "talk", home.services(home.parrot("One.", "Two.", "Three."))
    result = run(services, "chat", "--session", str(talk), stdin="a\nb\nc\n")
    assert result.exit_code == 7
    assert len(result.stderr.splitlines()) == 2
    assert said(talk) == ["a", "One.", "b", "Two."]


def test_a_chat_behind_a_link_keeps_the_link(home: Home) -> None:
    talk, link = home.path / "talk", home.path / "link"
    link.symlink_to(talk)
    services = home.services(home.parrot("Hello.", "Again."))
    for line in ("Hi\n", "More\n"):
        run(services, "chat", "--session", str(link), stdin=line)
        assert link.is_symlink()
    assert said(talk) == ["Hi", "Hello.", "More", "Again."]


def test_a_model_takes_up_its_cache(home: Home, tmp_path: Path) -> None:
    talk, bundle = home.path / "talk", tiny_bundle(tmp_path)
    arguments = ("chat", "--session", str(talk), "--max-tokens", "8", "--draft", "off")
    whole = run(home.services(opened(bundle)[0]), *arguments, "--seed", "1", stdin="Hi\nMore\n")
    talk.unlink()
    run(home.services(opened(bundle)[0]), *arguments, stdin="Hi\n")
    cached = len(document(talk)["cache"]["tokens"])
    assert talk.stat().st_size > cached * 2 * 2 * 2 * 16 * 2
    again = run(home.services(opened(bundle)[0]), *arguments, stdin="More\n/stats all\n")
    assert whole.stdout.endswith(again.stdout)
    assert f"{cached} reused" in again.stderr
