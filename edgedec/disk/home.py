"""The directory of models, measurements and caches."""

from __future__ import annotations

import os
from pathlib import Path

from edgedec.core.errors import StorageError
from edgedec.system.places import cache_folder

TYPED = "chat_history"
"""The file of prompts that were typed, in the home; see ``RunConfig.history``."""
DEFAULT = "default_model"
"""The file with the name of the model that the user chose as the default, in the home."""
DRAFTS = "drafts"
"""The folder with the knowledge of drafters, in the home."""
ARTIFACTS = "drafters"
"""The folder of drafters that belong to a model, in the home; see ``runtime.artifacts``."""
ROLLOUTS = "rollouts"
"""The folder with models' own replies to given prompts, in the home; see ``training.rollouts``."""
PREFIXES = "prefixes"
"""The folder with the KV cache of prompts' beginnings, in the home; see ``session.saved_prefixes``."""
TRAINING = "training"
"""The folder with features and checkpoints of drafters in training, in the home; see ``training``."""
HISTORY_LOCK = "history.lock"
"""The lock of both, in the home: a process that keeps them has a share of it."""


def check_home(home: Path) -> None:
    """Raise StorageError if ``home`` is no directory, or lies in something that is none."""
    place = next(one for one in (home, *home.absolute().parents) if os.path.lexists(one))
    if not place.is_dir():
        raise StorageError(
            f"{place} is not a directory", hint="models are kept there; set EDGEDEC_HOME to a directory"
        )


def default_home() -> Path:
    """Return EDGEDEC_HOME, else the platform's cache directory."""
    if home := os.environ.get("EDGEDEC_HOME"):
        return Path(home).expanduser()
    return cache_folder() / "edgedec"
