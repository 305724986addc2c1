"""Requests with a limit on thoughts: kept in each slot, beside others, as alone; an effort is one, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgedec.sampling.named import SamplingParams
from edgedec.server.work.request import GenerationRequest
from tests.api.test_thoughts import CLOSING, TEMPLATE
from tests.server.work.hubs import PLAIN, gathered, hub_of, only, store_of, user


def asked(**given: object) -> GenerationRequest:
    usual = {"messages": user("Hello"), "sampling": SamplingParams(temperature=1.0, seed=3), "max_tokens": 80}
    return GenerationRequest(**{**usual, **given})  # type: ignore[arg-type]


def test_thoughts_are_closed_in_slots_beside_each_other(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = store_of(tmp_path_factory.mktemp("server"), tiny="llama")
    hub = hub_of(store, config=replace(PLAIN, template=TEMPLATE, draft="lookup"))
    try:
        free = only(hub.submit(asked()))
        assert CLOSING not in free.text
        several = gathered(hub.submit(asked(think_tokens=5, samples=3)))
        for one in several.values():
            assert CLOSING in one.text
            assert one.text.endswith(CLOSING) or one.reason in ("stop", "length")
        assert several[0].ids[:5] == free.ids[:5]
        assert only(hub.submit(asked(think_tokens=5))).ids == several[0].ids
        # This template has no switch, so that no thought at all is one that is closed at once.
        assert only(hub.submit(asked(reasoning_effort="none"))).text.startswith(CLOSING)
        for effort in ("low", "high"):
            assert only(hub.submit(asked(reasoning_effort=effort))).ids == free.ids
    finally:
        hub.close()
