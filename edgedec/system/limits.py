"""Limits that a process sets for itself."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from edgedec.system.windows_limits import (
        IDLE,
        LIMITS_MEMORY,
        MEMORY_UP,
        TIME_UP,
        address_space,
        dump_at_the_end,
        end_after,
        end_when_idle,
        interrupt_after,
        leave_no_core,
        limit_address_space,
        on_interruption,
    )
else:
    from edgedec.system.posix import (
        IDLE,
        LIMITS_MEMORY,
        MEMORY_UP,
        TIME_UP,
        address_space,
        dump_at_the_end,
        end_after,
        end_when_idle,
        interrupt_after,
        leave_no_core,
        limit_address_space,
        on_interruption,
    )

__all__ = [
    "IDLE",
    "LIMITS_MEMORY",
    "MEMORY_UP",
    "TIME_UP",
    "address_space",
    "dump_at_the_end",
    "end_after",
    "end_when_idle",
    "interrupt_after",
    "leave_no_core",
    "limit_address_space",
    "on_interruption",
]
