"""The text side of a model: its tokenizer, and its chat template if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.bundle.model_id import ModelId
    from edgedec.text.template import ChatTemplate
    from edgedec.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Codec:
    """Turns text into token ids and back.

    ``template`` is None for base models, which continue text. ``model_id`` is the model that the tokens are
    of, which saved sessions state.
    """

    tokenizer: Tokenizer
    template: ChatTemplate | None = None
    model_id: ModelId | None = None

    def clone(self) -> Codec:
        """Return a codec for another thread; vocabulary and template text are shared."""
        return self
