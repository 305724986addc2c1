"""Examine the machine, the kernels and the store for ``edgedec doctor``.

A part that fails becomes a problem, and the other parts still report.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgedec.bundle.manifest import Manifest
from edgedec.bundle.verification import verify
from edgedec.core.errors import EdgeDecError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.disk.installing import pip_reinstall
from edgedec.metrics.measures import BANDWIDTH_FILE
from edgedec.system.memory import COUNTED
from edgedec.telemetry import bandwidth, machine
from edgedec.telemetry.energy import NoMeter, open_meter

if TYPE_CHECKING:
    from types import ModuleType

    from edgedec.cli.services import Services
    from edgedec.core.progress import Progress
    from edgedec.models import Store

LOW_DISK_BYTES = 2_000_000_000
_LIBRARIES = ("onnxruntime", "onnx", "numpy", "tokenizers", "gguf", "optimum-onnx", "llama-cpp-python")


@dataclass
class Findings:
    """Sections by name, each plain JSON. ``problems`` has a line for each part that does not work."""

    sections: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, find: Callable[[], object]) -> None:
        """Fill in a section; an EdgeDecError or a system error becomes a problem and an empty section."""
        try:
            self.sections[name] = find()
        except (EdgeDecError, OSError, ImportError) as error:
            self.sections[name] = None
            self.problems.append(f"{name}: {error}")


def examine(services: Services, *, measure: bool) -> Findings:
    """Examine every part, in the order it is shown.

    ``measure``: the memory bandwidth too, which takes a moment.
    """
    found = Findings()
    here = machine.describe()
    found.add("machine", lambda: {**here.as_json(), "memory_counted_by": COUNTED})
    found.add("versions", lambda: {"edgedec": __version__, **_versions()})
    found.add("kernels", lambda: _kernels(services.kernels(), found.problems))
    found.add("onnxruntime", _onnxruntime)
    found.add("gpus", lambda: services.gpus(measure))
    found.add("bandwidth", lambda: _bandwidth(services, here.cores) if measure else [])
    found.add("energy", _energy)
    found.add("store", lambda: _store(services))
    found.add("kept", lambda: _kept(services) if found.sections["store"] else None)
    if (free := (found.sections["store"] or {}).get("disk_free_bytes", LOW_DISK_BYTES)) < LOW_DISK_BYTES:
        found.problems.append(f"store: only {free / 1e9:.1f} GB free on its disk")
    return found


def verify_models(found: Findings, store: Store, report: Progress) -> None:
    """Hash all files of all installed models; a model that is not ``intact`` is a problem."""
    models = {model["name"]: model for model in (found.sections["store"] or {"models": []})["models"]}
    for one in store.list():
        try:
            verify(one.path, Manifest.load(one.path), store.home, again=True, progress=report)
            models[one.name]["intact"] = True
        except EdgeDecError as error:
            models[one.name]["intact"] = False
            found.problems.append(f"{one.name}: {error}")


def measure_models(found: Findings, services: Services, report: Progress) -> None:
    """Add to each installed model the ``speed`` that it has now; a model that does not run is a problem.

    None for a model that is larger than the free memory.
    """
    models = {model["name"]: model for model in (found.sections["store"] or {"models": []})["models"]}
    if not models:
        return
    free = (found.sections["machine"] or {}).get("memory_available_bytes")
    done, total = 0, sum(model["bytes"] for model in models.values())
    store = services.store()
    for one in store.list():
        report("speed", done, total)
        try:
            fits = free is None or one.bytes < free
            models[one.name]["speed"] = _speed(services, one.path, store.home) if fits else None
        except (EdgeDecError, OSError, ImportError) as error:
            found.problems.append(f"{one.name}: {error}")
        done += one.bytes
    report("speed", total, total)


def _speed(services: Services, bundle: Path, home: Path) -> dict[str, float]:
    from edgedec.costs.speeds import PredictedSpeeds, costs_now
    from edgedec.drafters.registry import MOST_DRAFTED

    model = services.load(bundle, threads=None, drafting=False)
    costs = costs_now(model, ("fp16",), home, notice=None, clock=services.clock)
    return PredictedSpeeds.of(costs.curves["fp16"], MOST_DRAFTED).as_json()


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _kernels(library: ModuleType, problems: list[str]) -> dict[str, object]:
    path, selected = library.library_path(), library.isa()
    if faster := library.faster():
        problems.append(
            f"kernels: this processor can run {faster[0]}, for which this library was not compiled; "
            f"{selected} runs. To compile it for this one: {pip_reinstall()}"
        )
    rows = [
        {"row": row, "can_run": library.can_run(row), "will_run": row == selected} for row in library.rows()
    ]
    forced = bool(os.environ.get("EDGEDEC_ISA"))
    return {"library": str(path), "isa": selected, "forced": forced, "rows": rows}


def _onnxruntime() -> dict[str, object]:
    import onnxruntime

    return {"version": onnxruntime.__version__, "providers": onnxruntime.get_available_providers()}


def _bandwidth(services: Services, cores: int) -> list[dict[str, float]]:
    measured = bandwidth.measure(services.bandwidth, (1, cores))
    bandwidth.keep(measured, services.store().home / "costs" / BANDWIDTH_FILE)
    return [{"threads": one.threads, "gb_per_s": round(one.gb_per_s, 2)} for one in measured]


def _energy() -> dict[str, object]:
    """Return the energy meter, or the reasons why there is none."""
    meter = open_meter()
    if isinstance(meter, NoMeter):
        return {"source": None, "refused": list(meter.refused)}
    return {"source": meter.source, "refused": []}


def _store(services: Services) -> dict[str, object]:
    store = services.store()
    models = [{"name": model.name, "bytes": model.bytes} for model in store.list()]
    return {
        "home": str(store.home),
        "from_environment": "EDGEDEC_HOME" in os.environ,
        "disk_free_bytes": shutil.disk_usage(_existing(store.home)).free,
        "models": models,
    }


def _kept(services: Services) -> dict[str, object]:
    """Return the files in the store beside the models: by kind, and those that are of none."""
    from edgedec.cli.clean import summary
    from edgedec.models.home_files import entries, nbytes, others
    from edgedec.session.session_file import is_session

    home = services.store().home
    strange = [
        {"path": str(path), "bytes": nbytes(path), "session": is_session(path)} for path in others(home)
    ]
    return {"kinds": summary(entries(home)), "others": strange}


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.absolute().parents) if place.exists())
