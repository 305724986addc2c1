"""Replacing a directory, interrupted between any two steps: the old one or the new one is there, whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedec.core.files import atomic_path


@pytest.mark.parametrize(("renames", "left"), [(0, "old"), (1, "old"), (2, "new")])
def test_an_interrupt_after_any_rename(
    renames: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "bundle"
    target.mkdir()
    (target / "content").write_text("old")
    rename = os.rename
    done = 0

    def interrupted(source: Path, destination: Path) -> None:
        nonlocal done
        if renames == 0 == done:
            done += 1
            raise KeyboardInterrupt
        rename(source, destination)
        done += 1
        if done == renames:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_path(target, directory=True) as temporary:
        (temporary / "content").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert (target / "content").read_text() == left
