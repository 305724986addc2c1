"""Replies to prompts that end inside a token: the first tokens are bound to the text that was taken back."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from edgedec.decode.checks import check_request
from edgedec.decode.records import Step
from edgedec.grammar.healing import Healing

if TYPE_CHECKING:
    from edgedec.session.engine import ReplyEngine
    from edgedec.session.unbiased import Asked
    from edgedec.text.tokenizer import Tokenizer


class HealedSteps:
    """The steps of a reply that begins with ``held``, bytes that the prompt ended with.

    Tokens that only spell those bytes again join ``asked.prompt``, a list of its own, and are no steps.
    ``overlap``: bytes at the beginning of the first step's token that are the prompt's. Bound tokens are
    drawn one by one, and what follows as a reply that goes on: so masks cost these draws alone, and no draft
    is under them. Raises the errors of ``check_request``.
    """

    def __init__(self, engine: ReplyEngine, asked: Asked, held: bytes, tokenizer: Tokenizer) -> None:
        check_request(
            [*asked.prompt], engine.home.spec, max_tokens=asked.max_tokens, capacity=engine.capacity,
            logprobs=asked.details.logprobs,
        )  # fmt: skip
        self._engine, self._asked, self._tokenizer = engine, asked, tokenizer
        self._text = Healing(tokenizer, engine.home.spec.vocab_size, held)
        self.overlap = 0

    def steps(self) -> Generator[Step, None, None]:
        """Yield the steps. Raises ContextFullError where the prompt, spelled again, fills the context."""
        asked, prompt = self._asked, [*self._asked.prompt]
        first: Step | None = None
        while first is None and (left := len(self._text.left)):
            details = replace(asked.details, grammar=self._text, start=len(prompt))
            step = self._next(replace(asked, prompt=prompt, max_tokens=1, details=details))
            if step.finish_reason == "stop":  # a token of text that ends replies
                yield step
                return
            if len(self._tokenizer.token_bytes(step.token)) > left:
                first, self.overlap = step, left
            else:
                prompt.append(step.token)
                self._joined(step.token)
        said, most, details = [], asked.max_tokens, replace(asked.details, start=len(prompt))
        if first:
            ends = most == 1 or len(prompt) + 1 >= self._engine.capacity
            yield first._replace(finish_reason="length" if ends else None)
            if ends:
                return
            said, most, details = [first.token], most - 1, replace(details, bound=first.bound)
        rest = replace(asked, prompt=[*prompt, *said], max_tokens=most, details=details).of(self._engine)
        with closing(rest):
            yield from rest

    def _joined(self, token: int) -> None:
        assert isinstance(self._asked.prompt, list), "it grows"
        self._asked.prompt.append(token)

    def _next(self, asked: Asked) -> Step:
        """Draw one token that the constraint permits, behind which it stands then."""
        with closing(asked.of(self._engine)) as steps:
            found = [*steps]
        return found[0]
