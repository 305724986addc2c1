"""Replies at random under schemas of many kinds are valid, to the last."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from edgedec.bench.harness.schemas import FAMILIES, schemas
from edgedec.core.errors import UsageError
from edgedec.grammar.spec import GrammarSpec
from tests.grammar.support import constraint, random_reply, tokenizer

EACH = 24
"""Schemas of a family: 360 in all."""
ACCEPTED = 0.95
"""Share of the schemas that must be accepted, in each family."""
_CHECKED = ("date", "ipv4", "ipv6", "email", "uuid")
"""Formats that the validator here checks without further packages."""


def accepted(family: str) -> list[dict[str, Any]]:
    found = []
    for schema in schemas(family, EACH):
        jsonschema.Draft202012Validator.check_schema(schema)
        try:
            constraint(GrammarSpec.of(schema=schema))
        except UsageError:
            continue
        found.append(schema)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_are_valid(family: str) -> None:
    good = accepted(family)
    assert len(good) >= ACCEPTED * EACH
    complete = 0
    for number, schema in enumerate(good):
        formats = jsonschema.FormatChecker(_CHECKED)
        validator = jsonschema.Draft202012Validator(schema, format_checker=formats)
        for seed in range(4):
            ids = random_reply(GrammarSpec.of(schema=schema), random.Random(f"{number} {seed}"))
            if ids is None:
                continue
            complete += 1
            text = tokenizer().decode(ids)
            validator.validate(json.loads(text))
    assert complete > EACH
