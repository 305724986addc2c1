"""The logical cores that this process may use, the load on them, and the processor."""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from edgedec.system.psutil_cores import allowed, busy_s, load_average, physical, quota_cores
    from edgedec.system.windows_processor import cpu_features, cpu_name
elif sys.platform == "darwin":
    from edgedec.system.macos_processor import cpu_features, cpu_name
    from edgedec.system.psutil_cores import allowed, busy_s, load_average, physical, quota_cores
else:
    from edgedec.system.linux import (
        allowed,
        busy_s,
        cpu_features,
        cpu_name,
        load_average,
        physical,
        quota_cores,
    )

__all__ = [
    "allowed",
    "busy_s",
    "cpu_features",
    "cpu_name",
    "load_average",
    "physical",
    "quota_cores",
]
