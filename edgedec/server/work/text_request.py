"""Questions about a model's texts, which its tokenizer and template answer without a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.server.work.intake import Intake


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """A question to a model; ``ask`` is called once, in the thread that reads requests."""

    ask: Callable[[Intake], Any]
    model: str | None = None
    samples: ClassVar[int] = 1
