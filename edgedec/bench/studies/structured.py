"""Replies under JSON schemas: accepted, compiled, whole, valid, alike with drafts, and the time of a token.

One model is open at a time: the plain one, then the one that drafts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from edgedec.bench.harness.pairing import plain, rotated, rounded, spread
from edgedec.bench.harness.schemas import FAMILIES, Schema, schemas
from edgedec.core.errors import GrammarError, UsageError
from edgedec.core.progress import Progress
from edgedec.core.quick_dataclass import dataclass
from edgedec.grammar import GrammarSpec
from edgedec.grammar.matcher import constraint_for
from edgedec.sampling import DrawParams
from edgedec.session.chat import Chat
from edgedec.session.host import Host

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.control.tally import Count
    from edgedec.session.reply import Reply

VALIDATOR = "jsonschema"
_FORMATS = ("date", "ipv4", "ipv6", "email", "uuid")
"""Formats that the validator checks without further packages."""
_LEAST_TIMED = 8
"""Tokens of a reply whose time a token counts."""


@dataclass(frozen=True, slots=True)
class FormCase:
    """A schema, and the request for an example of it."""

    family: str
    schema: Schema

    @property
    def spec(self) -> GrammarSpec:
        return GrammarSpec.of(schema=self.schema)

    @property
    def request(self) -> str:
        return f"Write an example of JSON that has this schema: {json.dumps(self.schema, ensure_ascii=False)}"


def form_cases(count: int) -> list[FormCase]:
    """Return ``count`` cases, of all families in turn; always the same ones."""
    each = -(-count // len(FAMILIES))
    by_family = {family: schemas(family, each) for family in FAMILIES}
    return [FormCase(family, by_family[family][n]) for n in range(each) for family in FAMILIES][:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormRow:
    """The figures of one schema. Those of its reply are None where it was refused.

    ``valid`` is None for a reply that was cut, and without the validator. ``alike``: whether drafts change no
    token. ``ratio``: the processor time of a token by that of free text.
    """

    family: str
    compile_ms: float
    refused: str = ""
    tokens: tuple[int, ...] | None = None
    whole: bool | None = None
    valid: bool | None = None
    alike: bool | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class FormReport:
    """Rows, and the counts of drafts by drafter; forced tokens are drafts of the schema."""

    rows: Sequence[FormRow]
    drafts: Mapping[str, Count]

    def count(self, name: str, value: bool = True) -> int:
        """Count the rows whose field ``name`` is ``value``."""
        return sum(getattr(row, name) is value for row in self.rows)

    @property
    def accepted(self) -> int:
        return sum(not row.refused for row in self.rows)

    @property
    def compile_ms(self) -> tuple[float, float]:
        """Median, and the time within which 95 % are compiled."""
        median, most = np.percentile([row.compile_ms for row in self.rows], [50, 95])
        return float(median), float(most)

    @property
    def ratios(self) -> list[float]:
        return [row.ratio for row in self.rows if row.ratio is not None]

    def as_json(self) -> dict[str, Any]:
        median, most = map(rounded, self.compile_ms)
        return {
            "schemas": len(self.rows), "accepted": self.accepted,
            "compile_ms": {"median": median, "within_95_percent": most},
            "whole": self.count("whole"), "cut": self.count("whole", False),
            "valid": self.count("valid") if find_spec(VALIDATOR) else None,
            "drafts": {name: asdict(one) for name, one in self.drafts.items()},
            "differing": self.count("alike", False), "timed": len(self.ratios),
            "time_ratio": plain(spread(self.ratios)) if self.ratios else None,
            "by_schema": [asdict(row) | {"tokens": row.tokens and len(row.tokens)} for row in self.rows],
        }  # fmt: skip


def ask_plain(model: Model, cases: Sequence[FormCase], tokens: int, progress: Progress) -> list[FormRow]:
    """Compile each schema, and reply under it and freely in turns, at most ``tokens`` tokens each."""
    home = model.engine.home  # the first grammar makes the vocabulary
    constraint_for(GrammarSpec.of(regex="a"), model.loaded.tokenizer, home.spec, home.ledger)
    rows = []
    for number, case in enumerate(cases):
        progress("without drafts", number, len(cases))
        rows.append(_plain_row(model, case, tokens, number))
    progress("without drafts", len(cases), len(cases))
    return rows


def ask_drafted(
    model: Model, cases: Sequence[FormCase], rows: Sequence[FormRow], tokens: int, progress: Progress
) -> FormReport:
    """Reply under the schemas that were accepted with a model that drafts."""
    found = []
    for number, (case, row) in enumerate(zip(cases, rows, strict=True)):
        progress("with drafts", number, len(cases))
        alike = None if row.refused else tuple(_reply(model, case, case.spec, tokens).tokens) == row.tokens
        found.append(replace(row, alike=alike))
    progress("with drafts", len(cases), len(cases))
    drafts = model.stats().drafts
    return FormReport(found, drafts.tally.by_source if drafts else {})


def _plain_row(model: Model, case: FormCase, tokens: int, turn: int) -> FormRow:
    began = time.process_time()
    try:
        constraint_for(case.spec, model.loaded.tokenizer, model.engine.home.spec, model.engine.home.ledger)
    except UsageError as error:
        return FormRow(family=case.family, compile_ms=_ms_since(began), refused=str(error))
    compile_ms = _ms_since(began)
    forms = {form: _reply(model, case, form, tokens) for form in rotated((case.spec, None), turn)}
    reply, free = forms[case.spec], forms[None]
    whole = reply.finish_reason == "stop"
    seconds, free_seconds = _token_s(reply), _token_s(free)
    return FormRow(
        family=case.family,
        compile_ms=compile_ms,
        tokens=tuple(reply.tokens),
        whole=whole,
        valid=is_valid(case.schema, reply.text) if whole else None,
        ratio=seconds / free_seconds if seconds and free_seconds else None,
    )


def _ms_since(began: float) -> float:
    return (time.process_time() - began) * 1e3


def _reply(model: Model, case: FormCase, form: GrammarSpec | None, tokens: int) -> Reply:
    """Reply greedily in a chat of its own, timed by the time of all processors."""
    settings = model.settings(DrawParams(), tokens, grammar=form)
    chat = Chat(model.engine, model.loaded.codec, settings, host=Host(clock=time.process_time))
    reply = chat.reply(case.request)
    try:
        reply.read()
    except GrammarError:
        if reply.finish_reason == "stop":
            raise
    return reply


def _token_s(reply: Reply) -> float | None:
    stats = reply.stats
    if stats is None or stats.completion_tokens < _LEAST_TIMED:
        return None
    return stats.decode_s / (stats.completion_tokens - 1)


def is_valid(schema: Schema, text: str) -> bool | None:
    """Whether ``text`` is JSON of this schema; None where the validator is not installed."""
    if not find_spec(VALIDATOR):
        return None
    import jsonschema

    checker = jsonschema.FormatChecker(_FORMATS)
    check: Callable[[Any], bool] = jsonschema.Draft202012Validator(schema, format_checker=checker).is_valid
    try:
        return check(json.loads(text))
    except ValueError:
        return False
