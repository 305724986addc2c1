"""The processor as macOS describes it, by ``sysctl``."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_PATIENCE_S = 5.0
_ARM = {
    "asimd": "hw.optional.AdvSIMD",
    "asimddp": "hw.optional.arm.FEAT_DotProd",
    "i8mm": "hw.optional.arm.FEAT_I8MM",
    "sme": "hw.optional.arm.FEAT_SME",
}
"""Names of settings that are "1" where a feature of Arm is there."""
_X86 = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
_SPELLED = {"sse4_2": "SSE4.2", "avx": "AVX1.0"}
"""Names in those lists that are not Linux's in capitals."""


def cpu_name() -> str:
    """Return the name of the processor; '' where it is not told."""
    return _told("machdep.cpu.brand_string")


def cpu_features(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those of the features ``wanted``, by their names in Linux, that the processor has."""
    listed = {word for name in _X86 for word in _told(name).split()}
    return tuple(
        name
        for name in wanted
        if _SPELLED.get(name, name.replace("_", "").upper()) in listed
        or (name in _ARM and not listed and _told(_ARM[name]) == "1")
    )


def _told(name: str) -> str:
    """Return a setting of the system; '' where it has none of this name."""
    command = ["sysctl", "-n", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
