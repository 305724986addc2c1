"""The public API, on a model with random weights: what it does is what the parts do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import edgedec
from edgedec.api import Bundles
from edgedec.models import Store
from edgedec.sampling import DrawParams
from tests.api.opening import opened
from tests.fixtures.tiny_models import run_tiny

TEXT = "Once upon a time, once upon a"


def test_importing_is_light() -> None:
    code = "import sys, edgedec; print(*{'numpy', 'onnxruntime', 'tokenizers', 'click'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Modell'"):
        edgedec.Modell  # noqa: B018


def test_a_completion_is_what_the_engine_generates(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as model:
        reply = model.complete(TEXT, max_tokens=12)
        text = reply.read()
    plain = run_tiny(bundle)
    steps = plain.runner.engine.generate(
        plain.tokenizer.encode(TEXT), DrawParams(), max_tokens=12, stop_ids=()
    )
    assert reply.tokens == [step.token for step in steps]
    assert text == plain.tokenizer.decode(reply.tokens)


def test_control_tokens_of_a_raw_text_are_tokens(bundle: Path, tmp_path: Path) -> None:
    text = "<|im_start|>a<|im_end|>"
    with opened(bundle, tmp_path) as model:
        replies = [model.complete(text, max_tokens=1, parse_special=special) for special in (True, False)]
        assert model.count_tokens(text) == len(replies[0].prompt) == 3
        assert len(replies[1].prompt) > 20
        said = model.chat(max_tokens=1).reply(text)
        assert list(said.prompt).count(1) == 2, "in chats the template's alone"


def test_drafts_change_no_token(bundle: Path, tmp_path: Path) -> None:
    sampled = edgedec.SamplingParams(temperature=0.7, seed=5)
    found = []
    for draft in ("off", "auto"):
        with opened(bundle, tmp_path, draft=draft, sampling=sampled) as model:
            reply = model.complete(TEXT * 3, max_tokens=40)
            reply.read()
            found.append(reply.tokens)
    assert found[0] == found[1]


def test_log_probabilities_are_those_of_the_model(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as model:
        reply = model.complete(TEXT, max_tokens=5, logprobs=3)
        reply.read()
        forward = model.single.forward
        forward.rewind(0)
        from edgedec.core.rows import Rows

        logits = forward.extend(model.loaded.tokenizer.encode(TEXT), rows=Rows(last=True, full=True)).logits
    assert logits is not None
    exact = logits[0].astype(np.float64)
    exact -= np.log(np.exp(exact - exact.max()).sum()) + exact.max()
    first = reply.logprobs[0]
    assert first.logprob == pytest.approx(exact[reply.tokens[0]], abs=1e-4)
    assert [one.token for one in first.top] == np.argsort(-exact, kind="stable")[:3].tolist()
    assert len(reply.logprobs) == len(reply.tokens)


def test_nothing_is_reported_unasked(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as model:
        reply = model.complete(TEXT, max_tokens=3)
        reply.read()
        assert reply.logprobs == []


def test_a_stop_string_ends_a_reply(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as model:
        whole = model.complete(TEXT, max_tokens=30).read()
        stop = whole[10:13]
        cut = model.complete(TEXT, max_tokens=30, stop=[stop])
        assert cut.read() == whole[: whole.index(stop)]
        assert cut.finish_reason == "stop"


def test_chats_of_one_model_take_turns(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as model:
        alone = [model.chat(system=system) for system in ("Be brief.", "Be long.")]
        expected = [[chat.reply(text).read() for text in ("One", "Two")] for chat in alone]
        both = [model.chat(system=system) for system in ("Be brief.", "Be long.")]
        found: list[list[str]] = [[], []]
        for text in ("One", "Two"):
            for chat, replies in zip(both, found, strict=True):
                replies.append(chat.reply(text).read())
    assert found == expected


def test_a_saved_chat_goes_on(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path / "home") as model:
        chat = model.chat(system="Be brief.", max_tokens=8)
        chat.reply("Hello").read()
        chat.save(tmp_path / "talk")
        expected = chat.reply("And then?").read()
    with opened(bundle, tmp_path / "home") as model:
        restored = model.restore(tmp_path / "talk")
        restored.adjust(max_tokens=8)
        assert restored.reply("And then?").read() == expected


def test_conversations_say_what_each_says_alone(bundle: Path, tmp_path: Path) -> None:
    texts = [TEXT, "one two three one two", "x"]
    with opened(bundle, tmp_path) as model:
        expected = [model.complete(text, max_tokens=10).read() for text in texts]
    with opened(bundle, tmp_path, conversations=2) as model, model.conversations(max_tokens=10) as several:
        answers = list(several.answers(texts, raw=True))
    assert [answer.reply.text if answer.reply else None for answer in answers] == expected


def test_a_model_opened_for_one_purpose_says_so(bundle: Path, tmp_path: Path) -> None:
    with opened(bundle, tmp_path) as one, pytest.raises(edgedec.UsageError, match="one conversation"):
        one.conversations()
    with opened(bundle, tmp_path, conversations=2) as two, pytest.raises(edgedec.UsageError, match="2 conv"):
        two.chat()


def test_within_a_budget_the_cache_is_made_once_and_the_plan_is_kept(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedec.backends.onnx import kv_memory

    made: list[object] = []
    init = kv_memory.KvMemory.__init__

    def counted(self: kv_memory.KvMemory, *args: object, **options: object) -> None:
        made.append(args)
        init(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(kv_memory.KvMemory, "__init__", counted)
    with opened(bundle, tmp_path, memory="4GB", context=None) as model:
        assert model.budget is not None
        assert model.budget.plan.given_up == ()
        assert model.context == model.budget.plan.choice.context
        model.complete(TEXT, max_tokens=5).read()
        most = model.budget.ledger.most()
    assert len(made) == 1
    assert all(nbytes <= model.budget.plan.parts[name] for name, nbytes in most.items())


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": 0},
        {"context": 1},
        {"memory": "much"},
        {"draft": ""},
        {"draft_tokens": 16},
        {"conversations": 33},
        {"kv": "int3"},
        {"when_full": "explode"},
    ],
    ids=str,
)
def test_settings_that_nothing_can_run_with(settings: Mapping[str, object]) -> None:
    with pytest.raises(edgedec.UsageError):
        edgedec.RunConfig(**settings)  # type: ignore[arg-type]


def test_sizes_are_read_as_text() -> None:
    assert edgedec.RunConfig(memory="1.5GB").memory_bytes == 1_500_000_000
    assert edgedec.RunConfig(memory="512MiB").memory_bytes == 512 << 20


def test_bundles_that_were_found_before_are_opened_as_they_are(bundle: Path, tmp_path: Path) -> None:
    store = Store(tmp_path, notice=lambda line: None)
    with edgedec.open(Bundles(bundle), edgedec.RunConfig(draft="off"), store=store) as model:
        assert model.count_tokens("Hello") > 0
