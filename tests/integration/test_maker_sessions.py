"""Saved conversations go on with drafters of the makers as they do without drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgedec
from edgedec.bundle.drafter_manifest import ASSISTANT, MTP, Target
from edgedec.bundle.manifest import Manifest
from edgedec.export import export_gguf
from edgedec.export.drafters.install import convert_drafter
from tests.fixtures.assistants import (
    CLUSTERS,
    random_assistant,
    shape_for,
    target_with_rings,
    write_directory,
)
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_hybrid import DeltaShape

WORDS = ("Hello", "the end", "and the hello of the world", "no")


def with_mtp(folder: Path) -> Path:
    shape = TinyShape(layers=4, context=512, delta=DeltaShape(nextn=1))
    export_gguf(write_tiny(folder / "tiny.gguf", "qwen35", shape=shape), folder / "bundle")
    return folder / "bundle"


def with_assistant(folder: Path) -> Path:
    bundle = target_with_rings(folder, "gemma4")
    manifest = Manifest.load(bundle)
    shape = shape_for(manifest.spec, centroids=CLUSTERS)
    source = write_directory(folder / "source", shape, random_assistant(shape))
    home = folder / "home" / "drafters" / Target.of(manifest).short_hash
    convert_drafter(source, bundle, home / ASSISTANT)
    return bundle


@pytest.mark.parametrize(("draft", "make"), [(MTP, with_mtp), (ASSISTANT, with_assistant)])
def test_a_saved_conversation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draft: str, make: object
) -> None:
    monkeypatch.setenv("EDGEDEC_HOME", str(tmp_path / "home"))
    bundle = make(tmp_path)  # type: ignore[operator]
    said: dict[str, list[str]] = {}
    for drafts in ("off", draft):
        said[drafts] = []
        for number, text in enumerate(WORDS):  # each in a process that knows only what was saved
            sampling = edgedec.SamplingParams(temperature=0.9 if number % 2 else 0.0, seed=number)
            with edgedec.open(str(bundle), draft=drafts, context=400, threads=1) as model:
                chat = model.chat()
                if number:
                    chat.restore(tmp_path / drafts)
                said[drafts].append("".join(chat.reply(text, max_tokens=24, sampling=sampling)))
                chat.save(tmp_path / drafts)
    assert said[draft] == said["off"]
    assert all(said["off"])
