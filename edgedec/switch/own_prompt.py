"""A conversation as the small model's own chat template renders it."""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.core.errors import TemplateError
from edgedec.core.progress import Notice
from edgedec.text.codec import Codec
from edgedec.text.passage import Turns


class OwnPrompt:
    """The prompt of a reply in the tokens and the template of ``codec``, beside the reply's own.

    Text that was rendered by no template has none. Nor has a conversation that the template refuses, of which
    a line to ``notice`` tells once.
    """

    def __init__(self, codec: Codec, notice: Notice) -> None:
        self._codec = codec
        self._notice = notice
        self._turns: Turns = ()
        self._rendered: list[int] = []
        self._own: list[int] | None = None
        self._refused = False

    def rendered(self, turns: Turns, prompt_ids: Sequence[int]) -> None:
        """Note that ``prompt_ids``, the reply's prompt, were rendered from ``turns``; none for a text."""
        self._turns, self._rendered, self._own = turns, list(prompt_ids) if turns else [], None

    def before(self, committed: Sequence[int]) -> tuple[int, list[int]]:
        """Return how many tokens of ``committed`` are the prompt, and the prompt in this model's own tokens.

        It is nothing, for 0 tokens, where ``committed`` begins otherwise.
        """
        count = len(self._rendered)
        if not count or len(committed) < count or list(committed[:count]) != self._rendered:
            return 0, []
        if self._own is None:
            self._own = self._build()
        return (count, self._own) if self._own else (0, [])

    def _build(self) -> list[int]:
        assert self._codec.template is not None, "only templates render"
        turns = [{"role": role, "content": content} for role, content in self._turns]
        try:
            return self._codec.tokenizer.encode_chat(self._codec.template, turns)
        except TemplateError as error:
            if not self._refused:
                self._notice(f"note: the small model reads the large one's prompt: {error.message}")
            self._refused = True
            return []
