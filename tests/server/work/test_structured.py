"""Requests for replies of a given form: each has it, or a reason for its early end."""

from __future__ import annotations

import json

import pytest

from edgedec.core.errors import UsageError
from edgedec.grammar import GrammarSpec
from edgedec.sampling.named import SamplingParams
from edgedec.server.work.request import GenerationRequest
from tests.server.work.hubs import gathered, hub_of, only, store_of, user

FORM = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "maximum": 99}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


def asked(form: GrammarSpec, **rest: object) -> GenerationRequest:
    given = {"messages": user("Hello"), "sampling": SamplingParams(temperature=1.0, seed=3), **rest}
    return GenerationRequest(grammar=form, **given)  # type: ignore[arg-type]


def test_replies_of_a_server_have_their_form(tmp_path_factory: pytest.TempPathFactory) -> None:
    hub = hub_of(store_of(tmp_path_factory.mktemp("server"), tiny="llama"))
    try:
        form = GrammarSpec.of(schema=FORM)
        several = gathered(hub.submit(asked(form, samples=3)))
        assert {json.loads(one.text)["colour"] for one in several.values()} <= {"red", "green"}
        assert {one.reason for one in several.values()} == {"stop"}
        assert only(hub.submit(asked(form))).ids == several[0].ids
        cut = gathered(hub.submit(asked(form, samples=2, max_tokens=3)))
        assert [one.reason for one in cut.values()] == ["length", "length"]
        assert cut[0].ids == several[0].ids[:3]
        stopped = only(hub.submit(asked(form, stop=('"',))))
        assert (stopped.reason, stopped.text) == ("stop", several[0].text.partition('"')[0])
        with pytest.raises(UsageError, match="cannot be used"):
            gathered(hub.submit(asked(GrammarSpec.of(regex="a("))))
        crash = 'start: %json {"type": "integer", "minimum": -1e30, "maximum": -1e20}'
        with pytest.raises(UsageError, match="crashes the compiler"):
            gathered(hub.submit(asked(GrammarSpec.of(grammar=crash))))
        assert only(hub.submit(asked(GrammarSpec.of(regex="yes|no")))).text in ("yes", "no")
    finally:
        hub.close()
