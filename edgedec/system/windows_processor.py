"""The processor as Windows describes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
_X86 = {"sse4_2": 38, "avx": 39, "avx2": 40, "avx512f": 41}
_FEATURES = {**_X86, "asimd": 19, "asimddp": 43, "sve": 46, "sve2": 47}
"""Numbers of ``IsProcessorFeaturePresent`` (winnt.h) by the names of features in Linux."""


def cpu_name() -> str:
    """Return the name of the processor; '' where it is not told."""
    registry = import_module("winreg")  # Windows alone has it
    with suppress(OSError), registry.OpenKey(registry.HKEY_LOCAL_MACHINE, _KEY) as key:
        return str(registry.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    return ""


def cpu_features(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those of the features ``wanted`` that the processor has and Windows tells."""
    has = ctypes.CDLL("kernel32").IsProcessorFeaturePresent
    return tuple(name for name in wanted if name in _FEATURES and has(_FEATURES[name]))
