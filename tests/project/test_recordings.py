"""The recorder of terminals shows what a terminal shows, and every kept picture belongs to a scene."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="only Unix has pseudo-terminals")
pyte = pytest.importorskip("pyte", reason="recorded terminals need pyte: pip install -e '.[docs]'")

from docs.record.__main__ import OUTPUT  # noqa: E402
from docs.record.picture import THEMES  # noqa: E402
from docs.record.scenes import SCENES, Scene  # noqa: E402
from docs.record.terminal import HOME, Line, record  # noqa: E402
from tests.project.test_docs import refusal  # noqa: E402


def text_of(lines: list[Line]) -> list[str]:
    return ["".join(line[column].data for column in sorted(line)).rstrip() for line in lines]


def test_a_command_is_recorded_with_its_name_and_its_output() -> None:
    lines = text_of(record(Scene("version", "edgedec --version"), 60))
    assert lines[0] == "$ edgedec --version"
    assert lines[1].startswith("edgedec, version")


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_the_command_of_a_scene_is_taken(scene: Scene) -> None:
    assert refusal(shlex.split(scene.command)[1:]) is None


def test_every_scene_has_its_pictures_and_no_picture_is_left_over() -> None:
    kept = {file.name for file in Path(OUTPUT).glob("*.svg")}
    assert kept == {f"{scene.name}-{theme}.svg" for scene in SCENES for theme in THEMES}


def test_a_recording_shows_no_path_of_who_recorded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "private"
    (home / "models").mkdir(parents=True)
    monkeypatch.setenv("EDGEDEC_HOME", str(home))
    lines = text_of(record(Scene("list", "edgedec list --json"), 200))
    assert not any(str(tmp_path) in line for line in lines)
    assert any(HOME in line for line in lines)
