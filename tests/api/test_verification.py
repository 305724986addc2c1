"""A model opened in Python is verified as one that a command opens: once for each state of its files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import edgedec
from edgedec.core.verification import FOLDER, Verification
from edgedec.models import Store
from tests.fixtures.tiny_models import tiny_bundle

CONFIG = edgedec.RunConfig(threads=1, draft="off")


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("models"))


@pytest.fixture
def bundle(intact: Path, tmp_path: Path) -> Path:
    return shutil.copytree(intact, tmp_path / "model")


def opened(bundle: Path) -> edgedec.Model:
    return edgedec.open(bundle, CONFIG, store=Store(bundle.parent / "home"))


def damage(bundle: Path) -> None:
    with (bundle / "weights.bin").open("r+b") as stream:
        stream.seek(-1000, 2)
        stream.write(b"damaged" * 10)


def test_a_damaged_model_is_an_error_at_the_end(bundle: Path) -> None:
    damage(bundle)
    for _ in range(2):
        fails = pytest.raises(edgedec.BadFileError, match=r"weights\.bin of the bundle fails")
        with fails, opened(bundle) as model:
            model.complete("Hi", max_tokens=2).read()


def test_a_model_that_failed_begins_no_more_replies(bundle: Path) -> None:
    damage(bundle)
    model = opened(bundle)
    with pytest.raises(edgedec.BadFileError):
        model.close()
    with pytest.raises(edgedec.BadFileError):
        model.complete("Hi")


def test_a_file_that_cannot_be_loaded_fails_with_its_hash(bundle: Path) -> None:
    path = bundle / "model.onnx"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(edgedec.BadFileError, match=r"model\.onnx of the bundle fails its SHA-256"):
        opened(bundle)


def test_an_intact_model_is_hashed_once(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(bundle) as model:
        text = model.complete("Hi", max_tokens=2).read()
    assert len(list((bundle.parent / "home" / FOLDER).iterdir())) == 1
    monkeypatch.setattr(Verification, "_run", None)
    with opened(bundle) as model:
        assert model.complete("Hi", max_tokens=2).read() == text


def test_an_error_of_the_caller_does_not_wait(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verification, "wait", None)
    with pytest.raises(KeyError), opened(bundle):
        raise KeyError
