"""Calibrated thresholds of pairs of models, in a file of the home."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.control.switching import SwitchRule
from edgedec.core.errors import EdgeDecError
from edgedec.core.files import atomic_path
from edgedec.core.home import SWITCH
from edgedec.core.model_id import ModelId

if TYPE_CHECKING:
    from edgedec.runtime.loaded_model import LoadedModel

DEFAULT_RULE = SwitchRule(low_bits=0.5, high_bits=1.0)
"""For pairs that were not calibrated."""


def keep_rule(home: Path, large: LoadedModel, small: LoadedModel | str, rule: SwitchRule) -> Path:
    """Write the thresholds of a pair, and return the file. Raises StorageError.

    ``small``: a model, or the name of a way through the large one's layers.
    """
    path = _place(home, large, small)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as made:
        called = small if isinstance(small, str) else small.name
        kept = {"large": large.name, "small": called, "rule": asdict(rule)}
        made.write_text(json.dumps(kept), encoding="utf-8")
    return path


def known_rule(home: Path | None, large: LoadedModel, small: LoadedModel | str) -> SwitchRule | None:
    """Return the calibrated thresholds of a pair; None where there are none that can be read."""
    if home is None:
        return None
    try:
        found = json.loads(_place(home, large, small).read_text(encoding="utf-8"))
        return SwitchRule(**found["rule"])
    except (OSError, ValueError, TypeError, KeyError, EdgeDecError):
        return None


def _place(home: Path, large: LoadedModel, small: LoadedModel | str) -> Path:
    """Return the file of a pair, which the contents of both bundles name: names may come to mean others."""
    away = small if isinstance(small, str) else ModelId.of(small.manifest).sha256
    both = ModelId.of(large.manifest).sha256 + away
    return home / SWITCH / f"{hashlib.sha256(both.encode()).hexdigest()[:24]}.json"
