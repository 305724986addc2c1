"""Opening a model with a small one beside it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec import RunConfig, UnsupportedError, UsageError
from edgedec.api import Bundles, Model, open
from edgedec.control.switching import SwitchRule
from edgedec.models import Store
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import tiny_bundle
from tests.switch.pairs import LARGE_ALONE

OFTEN = SwitchRule(7.5, least_run=2)
PROMPT = "hello world, the ending is a"


def opened(folder: Path, notices: list[str] | None = None, small: str = "llama", **settings: object) -> Model:
    bundles = Bundles(tiny_bundle(folder, "llama"), {"small": tiny_bundle(folder, small, seed=1)})
    config = RunConfig(
        threads=1,
        context=256,
        switch="small",
        sampling=DrawParams(),
        **settings,  # type: ignore[arg-type]
    )
    said = [] if notices is None else notices
    return open(bundles, config, store=Store(folder / "home", notice=said.append), notice=said.append)


def test_a_switched_reply_is_announced_and_counted_by_the_name_that_the_small_model_was_given(folder):
    notices: list[str] = []
    with opened(folder, notices, switch_rule=OFTEN, draft="off") as model:
        reply = model.complete(PROMPT, max_tokens=60)
        reply.read()
        record = model.engine.switched
    assert [line for line in notices if "lossy" in line] == [
        "note: small writes where it is sure, Tiny llama the rest; that is lossy (threshold 7.5 bits)"
    ]
    counts = record.as_json()["tokens"]
    assert set(counts) == {"small", "Tiny llama"}
    assert sum(record.of(name).tokens for name in record.written) == len(reply.tokens)
    assert record.switches > 0
    assert record.catch_up_tokens > 0


def test_the_small_model_drafts_while_the_large_one_writes(folder):
    with opened(folder, switch_rule=LARGE_ALONE) as model:
        assert "small" in model.single.engine.speculation.drafters
        switched = model.complete(PROMPT, max_tokens=50).read()
    bundles = Bundles(tiny_bundle(folder, "llama"))
    plain = RunConfig(threads=1, context=256, draft="off", sampling=DrawParams())
    with open(bundles, plain, store=Store(folder / "home")) as model:
        assert model.complete(PROMPT, max_tokens=50).read() == switched


def test_the_reply_is_the_same_with_all_drafters_and_with_none(folder):
    replies = []
    for draft in ("off", "auto"):
        with opened(folder, switch_rule=OFTEN, draft=draft) as model:
            replies.append(model.complete(PROMPT, max_tokens=60).read())
    assert replies[0] == replies[1]


def test_both_models_stay_within_the_memory_plan(folder):
    with opened(folder, switch_rule=OFTEN, memory=1_000_000_000) as model:
        hot = DrawParams(temperature=0.7, seed=3)
        model.complete(PROMPT, max_tokens=60, sampling=hot).read()
        parts, most = model.budget.plan.parts, model.single.ledger.most()
        assert model.engine.switched.switches > 0
    assert parts["small"] > 0
    assert parts["drafter"] > 0
    assert {name: most[name] for name in most if most[name] > parts.get(name, 0)} == {}
    assert most["small"] > 0.3 * parts["small"]


def test_the_weights_of_a_small_model_that_also_drafts_count_once(folder):
    with opened(folder, switch_rule=OFTEN, memory=1_000_000_000) as model:
        facts = model.budget.facts
        assert [one.weights for one in facts.drafters] == [0]
        assert facts.small.weights > 0
        together = model.budget.plan.parts
    with opened(folder, switch_rule=OFTEN, memory=1_000_000_000, draft="off") as model:
        alone = model.budget.plan.parts
    assert "drafter" not in alone
    assert alone["small"] <= together["small"]


def test_a_chat_of_several_turns_goes_on_behind_both_models_text(folder):
    with opened(folder, switch_rule=OFTEN, draft="off") as model, model.chat(max_tokens=20) as chat:
        chat.reply("hello").read()
        first = chat.last
        chat.reply("and the world").read()
        assert chat.last.prompt[: len(first.prompt) + 20] == [*first.prompt, *first.tokens]
        assert set(chat.last.writers) <= {"Tiny llama", "small"}
        assert {one.model for one in chat.last.trace()} == set(chat.last.writers)


def test_a_switched_chat_can_be_saved_and_goes_on(folder, tmp_path):
    with opened(folder, switch_rule=OFTEN, draft="off") as model:
        chat = model.chat(max_tokens=20)
        text = chat.reply("hello").read()
        chat.save(tmp_path / "talk")
        again = model.restore(tmp_path / "talk")
        assert again.messages[-1].content == text
        again.settings = chat.settings
        assert again.reply("and the world").read() == chat.reply("and the world").read()


def test_a_model_does_not_take_turns_with_itself_nor_with_a_copy(folder, tmp_path):
    large = tiny_bundle(folder, "llama")
    copy = shutil.copytree(large, tmp_path / "copy")
    config = RunConfig(threads=1, context=256)
    told = "Tiny llama cannot take turns with itself"
    with pytest.raises(UsageError, match=r"llama.* cannot take turns with itself"):
        open(large, replace(config, switch=str(large)), store=Store(tmp_path))
    with pytest.raises(UsageError, match=told):
        open(large, replace(config, switch=str(copy)), store=Store(tmp_path))


def test_a_small_model_of_another_vocabulary_is_refused(folder):
    with pytest.raises(UnsupportedError, match="Tiny gemma3 and Tiny llama have two vocabularies"):
        opened(folder, small="gemma3")


@pytest.mark.parametrize("settings", [{"conversations": 2}, {"when_full": "slide"}])
def test_two_models_do_not_share_a_batch_or_an_evicting_cache(settings):
    with pytest.raises(UsageError, match="take turns in a single"):
        RunConfig(switch="small", **settings)
