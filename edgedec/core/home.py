"""The directory of models, measurements and caches."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def default_home() -> Path:
    """Return EDGEDEC_HOME, else the platform's cache directory."""
    if home := os.environ.get("EDGEDEC_HOME"):
        return Path(home).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "edgedec"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "edgedec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgedec"
