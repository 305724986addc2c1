"""``edgedec clean``, ``rm``, and what ``doctor`` says of the disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import Result

from edgedec.core.errors import StorageError
from edgedec.disk.home import HISTORY_LOCK
from edgedec.disk.locks import Share
from edgedec.models import Store
from edgedec.models.home_files import KINDS, entries, others
from tests.cli.support import Home, assert_one_line, ran, run
from tests.fixtures.tiny_gguf import write_tiny

DOWNLOAD = 1_500_000


@pytest.fixture
def used(home: Home) -> Home:
    """A home with a model, a history and an unfinished download."""
    home.install()
    for name, nbytes in (("chat_history", 100), ("drafts/a.drafts", 50), ("downloads/b/b.part", DOWNLOAD)):
        (home.path / name).parent.mkdir(parents=True, exist_ok=True)
        (home.path / name).write_bytes(bytes(nbytes))
    return home


def edgedec(home: Home, *args: str) -> Result:
    return run(home.services(), *args)


def files(home: Home) -> set[str]:
    return {str(path.relative_to(home.path)) for path in home.path.rglob("*") if path.is_file()}


def test_the_help_says_what_every_kind_is(home: Home) -> None:
    shown = edgedec(home, "clean", "--help").stdout
    for kind in KINDS.values():
        assert f"- {kind.name}: {kind.about}" in shown
    assert_one_line(edgedec(home, "clean", "nonsense"), 2, "nonsense", "history", "all")


def test_without_a_kind_it_shows_and_removes_nothing(used: Home) -> None:
    before = files(used)
    result = edgedec(used, "clean")
    assert result.exit_code == 0
    assert "  history    150 B: prompts typed in a chat" in result.stdout
    assert "text of prompts and replies" in result.stdout
    assert "  downloads  1.5 MB: unfinished downloads" in result.stdout
    assert "Nothing was removed" in result.stdout
    assert files(used) == before


def test_a_kind_is_removed_and_a_dry_run_only_lists(used: Home) -> None:
    before = files(used)
    listed = edgedec(used, "clean", "history", "--dry-run")
    assert listed.stdout.splitlines() == [
        f"would remove {used.path / 'chat_history'} (100 B)",
        f"would remove {used.path / 'drafts/a.drafts'} (50 B)",
    ]
    assert files(used) == before
    done = edgedec(used, "clean", "history")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "removed history: 150 B\n", "")
    assert before - files(used) == {"chat_history", "drafts/a.drafts"}
    again = edgedec(used, "clean", "history")
    assert (again.exit_code, again.stdout) == (0, "nothing to remove\n")


def test_all_is_every_kind_and_no_model(used: Home) -> None:
    result = edgedec(used, "clean", "all", "--json")
    document = json.loads(result.stdout)
    assert document["removed_bytes"] == DOWNLOAD + 150
    assert {one["kind"]: one["text"] for one in document["kinds"]} == {"history": True, "downloads": False}
    assert all(one["removed"] and not one["in_use"] for one in document["entries"])
    assert files(used) == {f"models/smollm2-135m/{name}" for name in ("manifest.json", "weights.bin")}
    assert edgedec(used, "clean").stdout == f"Nothing is kept in {used.path} beside the models.\n"


def test_a_history_in_use_stays_and_the_status_says_so(used: Home) -> None:
    share = Share(used.path / HISTORY_LOCK)
    try:
        result = edgedec(used, "clean", "history", "downloads")
        assert result.exit_code == 1
        assert result.stdout == "removed downloads: 1.5 MB\n"
        assert result.stderr.count("stays: a running process holds it") == 2
        listed = edgedec(used, "clean", "history", "-n").stdout
        assert listed.count("would leave ") == 2
        document = json.loads(edgedec(used, "clean", "--json").stdout)
        assert [one["in_use"] for one in document["entries"]] == [True, True]
    finally:
        share.release()
    assert edgedec(used, "clean", "history").exit_code == 0


def test_a_file_that_cannot_be_removed_spares_the_others(used: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    real_unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name == "chat_history":
            raise PermissionError(13, "Permission denied", str(path))
        real_unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    result = edgedec(used, "clean", "all")
    assert result.exit_code == StorageError.exit_code
    assert "no permission to write" in result.stderr
    assert "drafts/a.drafts" not in files(used)


def test_doctor_shows_the_same(used: Home) -> None:
    (used.path / "talk").write_bytes(b"edgedec-session 2\nmore")
    (used.path / "notes.txt").write_bytes(b"mine")
    kept = json.loads(edgedec(used, "doctor", "--fast", "--json").stdout)["kept"]
    assert [(one["kind"], one["bytes"], one["text"]) for one in kept["kinds"]] == [
        ("history", 150, True),
        ("downloads", DOWNLOAD, False),
    ]
    assert [(Path(one["path"]).name, one["session"]) for one in kept["others"]] == [
        ("notes.txt", False),
        ("talk", True),
    ]
    told = " ".join(edgedec(used, "doctor", "--fast").stdout.split())
    assert "kept history, 150 B: prompts typed in a chat" in told
    assert "a saved conversation" in told
    edgedec(used, "clean", "history")
    assert "kept no text of prompts and replies" in " ".join(edgedec(used, "doctor", "--fast").stdout.split())


def test_commands_keep_nothing_that_clean_does_not_know(home: Home, tmp_path: Path) -> None:
    """The whole of a small use: every file that it leaves is a model or of a kind; only costs and records."""
    source = write_tiny(tmp_path / "tiny.gguf")
    given = ("-m", str(source), "--max-tokens", "8", "--threads", "1")
    for command in (("generate", "-p", "A secret"), ("chat", "A secret", "--history")):
        ran(home.real(), *command, *given, stdin="")
        kinds = {one.kind for one in entries(home.path)}
        assert kinds == {"costs", "records"} | ({"history"} if "--history" in command else set())
        assert others(home.path) == []
    ran(home.real(), "chat", *given, stdin="A secret\n")
    ran(home.real(), "plan", "-m", str(source))
    ran(home.real(), "clean", "all")
    assert not [name for name in files(home) if not name.startswith("models/") and name != HISTORY_LOCK]


def test_an_unknown_name_for_rm_lists_the_installed_ones(home: Home) -> None:
    assert_one_line(edgedec(home, "rm", "gemma"), 3, "gemma is not installed", "no model is installed")
    home.install("smollm2-135m")
    home.install("gemma3-270m")
    for name in ("nosuch", "qwen2.5-coder-1.5b", "not a name", "some/where"):
        words = (f"{name} is not installed", "installed: gemma3-270m, smollm2-135m")
        assert_one_line(edgedec(home, "rm", name), 3, *words)
    assert_one_line(edgedec(home, "rm", "gemma"), 3, "did you mean gemma3-270m?")
    both = edgedec(home, "rm", "gemma3-270m", "nosuch")
    assert_one_line(both, 3, "nosuch is not installed")
    assert [one.name for one in Store(home.path).list()] == ["gemma3-270m", "smollm2-135m"]


@pytest.mark.parametrize(
    "args",
    [("list",), ("rm", "x"), ("clean",), ("generate", "-p", "Hi"), ("chat",), ("pull", "smollm2-135m")],
)
@pytest.mark.parametrize("place", ["file", "file/deeper", "link"])
def test_a_home_that_is_no_directory_is_an_error(tmp_path: Path, args: tuple[str, ...], place: str) -> None:
    (tmp_path / "file").write_text("in the way")
    os.symlink("nowhere", tmp_path / "link")
    home = str(tmp_path / place)
    result = run(None, *args, env={"EDGEDEC_HOME": home}, stdin="")
    assert_one_line(result, 7, f"{tmp_path / place.split('/')[0]} is not a directory", "set EDGEDEC_HOME")
    assert (tmp_path / "file").read_text() == "in the way"


def test_doctor_reports_a_home_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run(None, "doctor", "--fast", env={"EDGEDEC_HOME": str(tmp_path / "file")})
    assert result.exit_code == 1
    assert "is not a directory" in " ".join(result.stdout.split())
