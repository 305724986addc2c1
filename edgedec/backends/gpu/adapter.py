"""The GPUs of this machine, as WebGPU's adapters, and the choice of one."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib import import_module
from tempfile import gettempdir
from typing import Any, Literal

from edgedec.core.errors import BackendError, EdgeDecError, UnsupportedError, UsageError, one_line
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.installing import pip_install

CHOICE = "EDGEDEC_GPU"
"""Environment variable: a part of an adapter's name. A software adapter runs only when it is named."""

Kind = Literal["discrete", "integrated", "software", "unknown"]
_KINDS: dict[str, Kind] = {"DiscreteGPU": "discrete", "IntegratedGPU": "integrated", "CPU": "software"}
_BY_KIND: tuple[Kind, ...] = ("discrete", "integrated", "unknown", "software")
_BY_API = ("Vulkan", "Metal", "D3D12")
"""Preferred before all others: one GPU may be there by several."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A way to a GPU. ``limits`` and ``features`` have WebGPU's names, in lower case with dashes."""

    name: str
    kind: Kind
    api: str
    """The interface of the system: "Vulkan", "Metal", "D3D12"."""
    driver: str = ""
    limits: Mapping[str, int] = field(default_factory=dict, hash=False)
    features: frozenset[str] = frozenset()
    handle: Any = field(default=None, repr=False, compare=False)

    @property
    def software(self) -> bool:
        """Whether the CPU computes in place of a GPU."""
        return self.kind == "software"

    @property
    def fuses(self) -> bool:
        """Whether its compiler takes kernels with two products; SwiftShader's takes minutes and 13 GB."""
        return "swiftshader" not in self.name.casefold()

    @property
    def title(self) -> str:
        """The adapter in a few words."""
        note = ", software adapter" if self.software else ""
        return f"{self.name} ({self.api}{note})"


def adapters(gpu: Any = None) -> list[Adapter]:
    """List all adapters, the preferred one first. ``gpu``: the entry of WebGPU; None: that of ``wgpu``.

    Raises UnsupportedError where ``wgpu`` is not installed, BackendError where it cannot be used.
    """
    try:
        entry = _entry() if gpu is None else gpu
        found = [_adapter(handle) for handle in entry.enumerate_adapters_sync()]
    except EdgeDecError:
        raise
    except Exception as error:
        raise BackendError(f"WebGPU cannot list the GPUs: {one_line(str(error))[:300]}") from error
    return sorted(found, key=_rank)


def choose(found: Sequence[Adapter], wanted: str | None = None) -> Adapter:
    """Return the adapter to use. ``wanted``: a part of its name; None: as ``EDGEDEC_GPU`` says.

    Raises UsageError where none has that name, UnsupportedError where there is no GPU.
    """
    name = os.environ.get(CHOICE, "") if wanted is None else wanted
    if name:
        for one in found:
            if name.casefold() in one.name.casefold():
                return one
        raise UsageError(f"{CHOICE} names no GPU: {name!r:.60}", hint=_there_are(found))
    if found and not found[0].software:
        return found[0]
    hint = f"set {CHOICE}={found[0].name.split()[0]} to use the software adapter" if found else None
    raise UnsupportedError("no GPU was found on this machine", hint=hint)


def installed() -> bool:
    """Whether the package ``wgpu`` is; it is not imported."""
    from importlib.util import find_spec

    return find_spec("wgpu") is not None


@cache
def _entry() -> Any:
    """WebGPU's entry: without OpenGL, which reaches the same GPUs with less, and whose loaders print."""
    package = _wgpu()
    # Linux: where it is not set, as without a desktop, drivers print a line for each display that they try.
    os.environ.setdefault("XDG_RUNTIME_DIR", gettempdir())
    import_module("wgpu.backends.wgpu_native.extras").set_instance_extras(
        backends=["Vulkan", "Metal", "DX12"]
    )
    return package.gpu


def _wgpu() -> Any:
    try:
        package = import_module("wgpu")
    except ImportError as error:
        raise UnsupportedError(
            "the package that reaches GPUs is not installed", hint=pip_install("gpu")
        ) from error
    except OSError as error:
        raise BackendError(f"the package wgpu cannot be loaded: {one_line(str(error))[:300]}") from error
    # It logs each error that it also raises.
    logging.getLogger("wgpu").addHandler(logging.NullHandler())
    logging.getLogger("wgpu").propagate = False
    return package


def _adapter(handle: Any) -> Adapter:
    info = handle.info
    return Adapter(
        one_line(str(info["device"]) or str(info["vendor"]) or "a GPU without a name"),
        _KINDS.get(str(info["adapter_type"]), "unknown"),
        str(info["backend_type"]),
        one_line(str(info["description"])),
        {name: int(value) for name, value in handle.limits.items()},
        frozenset(handle.features),
        handle,
    )


def _rank(one: Adapter) -> tuple[int, int]:
    api = _BY_API.index(one.api) if one.api in _BY_API else len(_BY_API)
    return _BY_KIND.index(one.kind), api


def _there_are(found: Sequence[Adapter]) -> str:
    names = dict.fromkeys(one.name for one in found)
    return f"there are: {', '.join(names)}" if names else "there is none on this machine"
