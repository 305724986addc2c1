"""Running the command line in this process, with a parrot for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from edgedec.bundle.device_place import ON_CPU, DevicePlace
from edgedec.bundle.exits import LayerOutputs
from edgedec.cli.app import app
from edgedec.cli.services import Services
from edgedec.loaded_model import LoadedModel
from edgedec.models import Store
from tests.fixtures.ready import Ready
from tests.session.parrot import load_parrot


@dataclass
class Home:
    """A store in a temporary directory, and a model that loads as whatever is installed there."""

    path: Path
    opened: list[dict[str, Any]] = field(default_factory=list)

    def install(self, name: str = "smollm2-135m", size: int = 1000) -> Path:
        """Something that the store takes for an installed model."""
        bundle = self.path / "models" / name
        bundle.mkdir(parents=True, exist_ok=True)
        (bundle / "manifest.json").write_text("{}")
        (bundle / "weights.bin").write_bytes(b"\0" * (size - 2))
        return bundle

    def services(self, model: Ready | None = None, **others: Any) -> Services:
        """``model`` is loaded as whatever is installed, which the default model then is."""
        if model is not None:
            self.install()

        def load(
            bundle: Path,
            /,
            *,
            threads: int | None,
            drafting: LayerOutputs,
            place: DevicePlace = ON_CPU,
        ) -> LoadedModel:
            self.opened.append({"bundle": bundle, "threads": threads})
            assert model is not None
            return model.model

        return Services(store=lambda: Store(self.path), load=load, **{"interactive": lambda: False, **others})

    def real(self) -> Services:
        """Those that load what they are told to."""
        return Services(store=lambda: Store(self.path), interactive=lambda: False)

    def parrot(self, *replies: str, **options: Any) -> Ready:
        self.path.mkdir(parents=True, exist_ok=True)
        return load_parrot(self.path, *replies, **options)


def run(
    services: Services | None, *args: str, stdin: str | bytes | None = None, env: dict[str, str] | None = None
) -> Result:
    """One invocation; errors end in an exit status here exactly as they do for a user."""
    return CliRunner().invoke(app, list(args), input=stdin, obj=services, env=env)


def ran(services: Services | None, *args: str, **given: Any) -> Result:
    """One invocation that succeeds."""
    result = run(services, *args, **given)
    assert result.exit_code == 0, result.output
    return result


def assert_one_line(result: Result, status: int, *words: str) -> None:
    """It failed with ``status`` and a single line with all ``words`` in it, and printed nothing else."""
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    lines: Sequence[str] = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
