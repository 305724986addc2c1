"""Opening a model with a small one beside it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgedec import RunConfig, UsageError
from edgedec.api import Bundles, Model, open
from edgedec.control.switching import SwitchRule
from edgedec.models import Store
from edgedec.sampling import DrawParams
from edgedec.switch.own_prompt import OwnPrompt
from edgedec.text.template import ChatTemplate
from tests.fixtures.tiny_models import tiny_bundle
from tests.switch.pairs import LARGE_ALONE, SMALL_ALONE, fresh_logits, next_logits

OFTEN = SwitchRule(7.5, 7.5, window=1, least_run=2)
NAMES = {"llama": "small", "gemma3": "Tiny gemma3"}
"""A small model of the same name goes by the name it was given."""
PROMPT = "hello world, the ending is a"


def opened(folder: Path, small: str, notices: list[str] | None = None, **settings: object) -> Model:
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


@pytest.mark.parametrize("small", ["llama", "gemma3"])
def test_a_switched_reply_is_announced_and_counted(folder, small):
    notices: list[str] = []
    with opened(folder, small, notices, switch_rule=OFTEN, draft="off") as model:
        reply = model.complete(PROMPT, max_tokens=60)
        reply.read()
        record = model.engine.switched
    assert [line for line in notices if "lossy" in line] == [
        f"note: {NAMES[small]} writes where it is sure, Tiny llama the rest; that is lossy "
        "(thresholds 7.5 and 7.5 bits)"
    ]
    counts = record.as_json()["tokens"]
    assert set(counts) == {NAMES[small], "Tiny llama"}
    assert sum(record.of(name).tokens for name in record.written) == len(reply.tokens)
    assert record.switches > 0
    assert record.catch_up_tokens > 0


def test_the_small_model_drafts_while_the_large_one_writes(folder):
    with opened(folder, "llama", switch_rule=LARGE_ALONE) as model:
        assert "small" in model.single.engine.speculation.drafters
        switched = model.complete(PROMPT, max_tokens=50).read()
    bundles = Bundles(tiny_bundle(folder, "llama"))
    plain = RunConfig(threads=1, context=256, draft="off", sampling=DrawParams())
    with open(bundles, plain, store=Store(folder / "home")) as model:
        assert model.complete(PROMPT, max_tokens=50).read() == switched


def test_the_reply_is_the_same_with_all_drafters_and_with_none(folder):
    replies = []
    for draft in ("off", "auto"):
        with opened(folder, "gemma3", switch_rule=OFTEN, draft=draft) as model:
            replies.append(model.complete(PROMPT, max_tokens=60).read())
    assert replies[0] == replies[1]


@pytest.mark.parametrize("small", ["llama", "gemma3"])
def test_both_models_stay_within_the_memory_plan(folder, small):
    with opened(folder, small, switch_rule=OFTEN, memory=1_000_000_000) as model:
        hot = DrawParams(temperature=0.7, seed=3)
        model.complete(PROMPT, max_tokens=60, sampling=hot).read()
        parts, most = model.budget.plan.parts, model.single.ledger.most()
        assert model.engine.switched.switches > 0
    assert parts["small"] > 0
    assert parts["drafter"] > 0
    assert {name: most[name] for name in most if most[name] > parts.get(name, 0)} == {}
    assert most["small"] > 0.3 * parts["small"]


def test_the_weights_of_a_small_model_that_also_drafts_count_once(folder):
    with opened(folder, "llama", switch_rule=OFTEN, memory=1_000_000_000) as model:
        facts = model.budget.facts
        assert [one.weights for one in facts.drafters] == [0]
        assert facts.small.weights > 0
        together = model.budget.plan.parts
    with opened(folder, "llama", switch_rule=OFTEN, memory=1_000_000_000, draft="off") as model:
        alone = model.budget.plan.parts
    assert "drafter" not in alone
    assert alone["small"] <= together["small"]


def test_a_chat_of_several_turns_goes_on_behind_both_models_text(folder):
    with opened(folder, "gemma3", switch_rule=OFTEN, draft="off") as model, model.chat(max_tokens=20) as chat:
        chat.reply("hello").read()
        first = chat.last
        chat.reply("and the world").read()
        assert chat.last.prompt[: len(first.prompt) + 20] == [*first.prompt, *first.tokens]
        assert set(chat.last.writers) <= {"Tiny llama", "Tiny gemma3"}
        assert {one.model for one in chat.last.trace()} == set(chat.last.writers)


OTHER = "{% for one in messages %}<{{ one.role }}> {{ one.content }} {% endfor %}<assistant>"


@pytest.mark.parametrize(("small", "template"), [("gemma3", None), ("llama", OTHER)])
def test_the_small_model_reads_the_chat_as_its_own_template_renders_it(folder, small, template):
    """So alone it replies as it would without the large one, up to the end: tokens are the large one's."""
    with opened(folder, small, switch_rule=SMALL_ALONE, draft="off", template=template) as model:
        chat = model.chat(max_tokens=12)
        beside = [chat.reply(text).read() for text in ("hello", "and the world")]
        turns = [one.for_template() for one in chat.messages[:-1]]
        read = model.engine.small.reads([*chat.last.prompt, *chat.last.tokens])
    alone = RunConfig(threads=1, context=256, draft="off", sampling=DrawParams())
    with open(Bundles(tiny_bundle(folder, small, seed=1)), alone, store=Store(folder / "home")) as model:
        chat = model.chat(max_tokens=12)
        said = chat.reply("hello").read()
        own = model.loaded.tokenizer.encode_chat(model.loaded.template, turns)
    assert read[: len(own)] == own
    assert beside[0].startswith(said)


@pytest.mark.parametrize(("small", "template"), [("gemma3", None), ("llama", OTHER)])
def test_with_two_templates_both_models_go_on_behind_a_fresh_prefill(folder, small, template):
    with opened(folder, small, switch_rule=OFTEN, draft="off", template=template) as model:
        chat = model.chat(max_tokens=60)
        chat.reply("hello").read()
        committed = list(model.engine.committed)
        assert model.engine.switched.switches > 1
        writers = model.engine.small, model.engine.large
        ids = [writer.reads(committed) for writer in writers]
        after = [next_logits(one.engine.forward, read) for one, read in zip(writers, ids, strict=True)]
    assert ids[0][:5] != ids[1][:5]
    for architecture, seed, read, row in zip((small, "llama"), (1, 0), ids, after, strict=True):
        assert (fresh_logits(folder, architecture, seed, read) == row).all()


def test_a_conversation_that_the_small_template_refuses_is_read_in_the_large_ones_prompt(folder):
    notices: list[str] = []
    refusing = "{{ raise_exception('no such roles') }}"
    with opened(folder, "llama", notices, switch_rule=SMALL_ALONE, draft="off") as model:
        codec = model.single.prepared.small.codec
        own = OwnPrompt(replace(codec, template=ChatTemplate(refusing, bos="", eos="")), notices.append)
    own.rendered([("user", "hello")], [1, 2, 3])
    assert own.before([1, 2, 3, 4]) == own.before([1, 2, 3, 4, 5]) == (0, [])
    assert sum("reads the large one's prompt" in line for line in notices) == 1


def test_a_switched_chat_can_be_saved_and_goes_on(folder, tmp_path):
    with opened(folder, "gemma3", switch_rule=OFTEN, draft="off") as model:
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


@pytest.mark.parametrize("settings", [{"conversations": 2}, {"when_full": "slide"}])
def test_two_models_do_not_share_a_batch_or_an_evicting_cache(settings):
    with pytest.raises(UsageError, match="take turns in a single"):
        RunConfig(switch="small", **settings)
