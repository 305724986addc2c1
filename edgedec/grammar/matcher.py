"""Grammars by llguidance: https://github.com/guidance-ai/llguidance."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgedec.core.errors import GrammarError, UsageError
from edgedec.grammar.spec import GrammarSpec
from edgedec.grammar.supported_schema import supported_schema
from edgedec.grammar.trial import COMPILER, Trial
from edgedec.grammar.vocabulary import vocabulary_of

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

    from edgedec.core.ledger import Ledger
    from edgedec.core.model_spec import ModelSpec
    from edgedec.text.tokenizer import Tokenizer

MOST_STATES = 20_000
"""States of the lexer, at about 1 kB each."""
_BYTE_TOKENS = 1000
"""Tokens of a vocabulary that has all bytes; a schema needs no others."""
_JSON: JsonCompileOptions = {
    "whitespace_pattern": r"[ ]|\n[ \t]{0,40}",
    "whitespace_flexible": True,
    "lenient": False,
    "coerce_one_of": False,
}
"""Between the parts of JSON: one space, or a new line with its indentation. A model that may add any white
space can go on with it for ever. Keywords that cannot be kept to are refused.
"""


def constraint_for(
    spec: GrammarSpec, tokenizer: Tokenizer, model: ModelSpec, ledger: Ledger, tokens: Sequence[int] = ()
) -> GrammarConstraint:
    """Compile ``spec`` for the tokens of a model, and go on behind ``tokens``, those of a reply so far.

    Raises UsageError for a grammar that is wrong, unsupported or too large, UnsupportedError for a model
    without an end token, MemoryBudgetError; GrammarError where no such reply begins with ``tokens``.
    """
    try_grammar(spec, model.vocab_size, tokenizer.control_ids())
    constraint = GrammarConstraint(spec, vocabulary_of(tokenizer, model, ledger))
    for token in tokens:
        if not constraint.advance(token):
            raise GrammarError(
                f"the reply so far is not of this {spec.name}", hint="continue it with the one it began with"
            )
    return constraint


def try_grammar(spec: GrammarSpec, size: int, control: Mapping[str, int]) -> None:
    """Raise UsageError for a form that this process must not compile.

    ``size`` and ``control``: tokens of the model's vocabulary, and the ids of control tokens by their texts.
    Raises BackendError where no process can start to try it.
    """
    try:
        text = _grammar_text(spec)
    except ValueError as error:
        raise _refused(spec, str(error)) from error
    _raise_fault(spec, COMPILER.of(text, MOST_STATES, size, control))


def try_arguments(schema: str, *, loose: bool) -> None:
    """Raise UsageError for a JSON schema of a tool's arguments that cannot be used; see ``supported_schema``.

    Raises BackendError where no process can start to try it.
    """
    from llguidance import LLMatcher  # slow import, needed only here

    spec = GrammarSpec("json_schema", "{}")
    text = LLMatcher.grammar_from_json_schema(schema, overrides={**_JSON, "coerce_one_of": loose})
    _raise_fault(spec, trial := COMPILER.of(str(text), MOST_STATES, _BYTE_TOKENS, {}))
    if trial.refusal:
        raise _refused(spec, trial.refusal)


def _raise_fault(spec: GrammarSpec, trial: Trial) -> None:
    if trial.fault:
        raise UsageError(f"this {spec.name} cannot be used: {trial.fault}", hint=_SIMPLER)


class GrammarConstraint:
    """The place that a reply has reached in its grammar. It walks ahead over drafts, and back.

    Draws ask it at the place where it stands.
    """

    def __init__(self, spec: GrammarSpec, vocabulary: LLTokenizer) -> None:
        self._spec = spec
        self._vocabulary = vocabulary
        self._walked: list[int] = []
        """Tokens from the beginning of the reply to here."""
        self._forced: list[int] | None = None
        """The answer of ``forced`` here, once it is known."""
        self._ends = frozenset(vocabulary.eos_tokens)
        self._text = _grammar_text(spec)
        self._matcher = self._fresh()
        if self._matcher.is_error():
            raise _refused(spec, self._matcher.get_error())
        if not self._begins():
            raise _refused(spec, self._matcher.get_error())

    def permits(self, token: int) -> bool:
        """Whether ``token`` may come next."""
        if self.finished:
            return token in self._ends
        if forced := self.forced():
            return token == forced[0]
        return self._tried(token)

    def bits(self) -> NDArray[np.uint8]:
        """A bit for each token that may come next; that of id 0 the lowest of the first byte."""
        mask = self._mask()
        if mask is None:
            raise self._too_complex()
        return mask

    def advance(self, token: int) -> bool:
        """Go on behind ``token``; False, and nothing changes, if it may not come next."""
        if self.finished or not self.permits(token) or not self._matcher.consume_token(token):
            self._mended()
            return False
        self._walked.append(token)
        self._forced = None
        return True

    def back(self, count: int) -> None:
        """Take back the last ``count`` tokens."""
        if not count:
            return
        del self._walked[len(self._walked) - count :]
        self._forced = None
        if not self._matcher.rollback(count):
            self._again()

    def forced(self) -> list[int]:
        """The only tokens that may come next, one after the other; none where there is a choice.

        Where the next characters are certain, the tokens are those that the tokenizer makes of them, and no
        other ones may spell them.
        """
        if self._forced is None:
            self._forced = [] if self.finished else self._matcher.compute_ff_tokens()
            if self._mended():
                self._forced = self._matcher.compute_ff_tokens()
        return self._forced

    @property
    def accepts(self) -> bool:
        """Whether the reply may end here."""
        return bool(self._matcher.is_accepting())

    @property
    def finished(self) -> bool:
        """Whether it has to end here."""
        return bool(self._matcher.is_stopped()) and self.accepts

    def _begins(self) -> bool:
        """Whether a token can begin a reply. Only that builds the lexer, which may be too complex."""
        if (mask := self._mask()) is None or not mask.any():
            return False
        first = int(np.unpackbits(mask, bitorder="little").argmax())
        if self.finished:
            return True
        trial = self._matcher.deep_copy()
        trial.compute_ff_tokens()
        if trial.consume_token(first):
            return True
        self._matcher = trial  # it says why
        return False

    def _tried(self, token: int) -> bool:
        """Whether the matcher takes ``token``; after a failure it is asked once more, made anew."""
        if self._matcher.validate_tokens([token]):
            return True
        return self._mended() and bool(self._matcher.validate_tokens([token]))

    def _mask(self) -> NDArray[np.uint8] | None:
        """The bits of the tokens that may come next; None where the matcher fails twice."""
        for _ in range(2):
            try:
                mask = self._matcher.compute_bitmask()
            except ValueError:  # the matcher's state says why
                mask = b""
            if not self._matcher.is_error():
                return np.frombuffer(mask, np.uint8)
            if not self._walked or not self._mended():
                break
        return None

    def _mended(self) -> bool:
        """Mend a matcher that failed, which it stays for good; whether it had failed.

        States that drafts made it visit count towards its limits, too: it fails where a new one would not.
        """
        if not self._matcher.is_error():
            return False
        self._again()
        return True

    def _again(self) -> None:
        self._matcher = self._fresh()
        if not self._matcher.consume_tokens(self._walked) or self._matcher.is_error():
            raise self._too_complex()

    def _fresh(self) -> LLMatcher:
        from llguidance import LLMatcher, LLParserLimits  # slow import, needed only here

        limits = LLParserLimits(max_lexer_states=MOST_STATES, verbose_errors=False)
        return LLMatcher(self._vocabulary, self._text, log_level=0, limits=limits)

    def _too_complex(self) -> GrammarError:
        return GrammarError(
            f"the {self._spec.name} is too complex to go on with: {self._matcher.get_error()}",
            hint="use one with fewer choices and shorter bounds",
        )


def _grammar_text(spec: GrammarSpec) -> str:
    from llguidance import LLMatcher  # slow import, needed only here

    if spec.kind == "regex":
        return str(LLMatcher.grammar_from_regex(spec.text))
    if spec.kind == "lark":
        return str(LLMatcher.grammar_from_lark(spec.text))
    given = spec.kind == "json_schema"
    schema = supported_schema(spec.text).text if given else json.dumps({"type": "object"})
    return str(LLMatcher.grammar_from_json_schema(schema, overrides=_JSON))


_EXCERPT = re.compile(r"\s*(\d+ \||\^|<non-verbose/>)")
"""Lines of a message that point into the grammar's text."""


def _refused(spec: GrammarSpec, said: str) -> UsageError:
    said = "\n".join(line for line in said.split("\n") if not _EXCERPT.match(line)).strip()
    if said in _STOPS:
        return UsageError(f"this {spec.name} cannot be used: no text is of this form", hint=_HINTS[spec.kind])
    if said.startswith("panic:"):
        return UsageError(f"this {spec.name} cannot be used: the compiler fails at it", hint=_SIMPLER)
    said = _NO_RANGE.sub('"minimum" and "maximum" leave no number that can be written', said)
    return UsageError(f"this {spec.name} cannot be used: {said}", hint=_HINTS[spec.kind])


_SIMPLER = "use a smaller or simpler one"
_STOPS = ("", "NoExtension", "NoExtensionBias")
"""Reasons to stop at once, in the matcher's own words."""
_NO_RANGE = re.compile(r"Failed to generate regex for (integer|float) range: .*")
_HINTS = {
    "json_schema": "leave out the keywords that it names",
    "json_object": "",
    "regex": "look-around and references back are not possible",
    "lark": "the rule start derives the whole text",
}
