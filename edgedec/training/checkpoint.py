"""Everything that training of a head goes on from, in one file that is replaced as a whole."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.files import atomic_path
from edgedec.training.order import Place
from edgedec.training.schedule import TrainingPlan

_FORMAT = "edgedec-training-1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after ``step`` steps. Nothing in training draws random numbers but by seed and epoch."""

    weights: dict[str, Any]
    """Tensors by name, as ``DraftHead.state_dict`` has them."""
    optimizer: dict[str, Any]
    step: int
    place: Place
    """The next batch."""
    plan: TrainingPlan
    planned_s: float
    """Seconds since the plan began."""
    seconds: float
    """Seconds of training in all."""
    tokens: int
    """Tokens trained on, each as often as it was."""
    facts: dict[str, Any]
    """Facts that a later run must share: the target, the recipe, the kept ids."""

    def save(self, path: Path) -> None:
        """Write the file. Raises StorageError."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        state |= {"format": _FORMAT, "place": asdict(self.place), "plan": asdict(self.plan)}
        with atomic_path(path) as temporary:
            torch.save(state, temporary)

    @classmethod
    def load(cls, path: Path) -> Checkpoint | None:
        """Read the file; None when there is none. Raises BadFileError for a damaged one."""
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            if state.pop("format") != _FORMAT:
                raise ValueError("another format")
            state |= {"place": Place(**state["place"]), "plan": TrainingPlan(**state["plan"])}
            return cls(**state)
        except FileNotFoundError:
            return None
        except Exception as error:  # torch raises errors of a dozen types for a damaged file
            raise BadFileError(
                f"{path} holds no training to go on with", hint="remove it, and training begins anew"
            ) from error
