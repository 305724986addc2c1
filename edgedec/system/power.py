"""Sources of the power that the machine takes, but for files of Linux."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

SAMPLER = ("powermetrics", "--samplers", "cpu_power", "--sample-rate", "200")
"""The command by which macOS writes the power of the processor again and again."""


class Battery(NamedTuple):
    """All batteries together: whether they give power, the energy that is left, and that power."""

    discharging: bool
    left_mwh: int
    gives_mw: int


def battery() -> Battery | None:
    """Return the state of the batteries where the system tells it in a call (Windows); None elsewhere."""
    if sys.platform != "win32":
        return None
    from edgedec.system.windows_power import battery_state

    found = battery_state()
    return None if found is None else Battery(*found)


def samples() -> bool | None:
    """Return whether this user may run ``SAMPLER``; None on systems without it (all but macOS)."""
    if sys.platform != "darwin":
        return None
    return os.geteuid() == 0
