"""Replies that begin inside a token of the text before them: bound to its text, and equal with drafts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import edgedec
from edgedec.core_lib.needs import drawing_bytes
from edgedec.decode.speculation import Speculation
from edgedec.draft import Lookup, Recycling
from edgedec.export import export_gguf
from edgedec.sampling import DrawParams
from edgedec.session.reply import Reply
from edgedec.text.tokenizer import Tokenizer
from tests.fixtures.ready import chat_of
from tests.fixtures.real_models import installed
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import run_tiny

WORDS = (
    " the",
    " a",
    " t",
    " th",
    "hel",
    "hello",
    " ",
    "  ",
    "\n",
    "in",
    "er",
    "x",
    "\u00e9",
    "\u65e5",
    " wor",
)
CASES = 200


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of either kind of BPE, with three bytes for the tokens around gaps."""
    folder = tmp_path_factory.mktemp(request.param)
    named = {f"tokenizer.ggml.fim_{name}_token_id": at for at, name in enumerate(("pre", "suf", "mid"), 7)}
    shape = TinyShape(context=512)
    source = write_tiny(folder / "gap.gguf", request.param, shape=shape, extra=named, sharpness=2.0)
    export_gguf(source, folder / "gap")
    return folder / "gap"


@pytest.fixture(scope="module")
def models(bundle: Path) -> Iterator[tuple[edgedec.Model, edgedec.Model]]:
    """The model without drafts, and with them."""
    with ExitStack() as stack:
        yield tuple(  # type: ignore[misc]
            stack.enter_context(edgedec.open(bundle, threads=1, context=256, draft=draft))
            for draft in ("off", "lookup,recycling")
        )


def text_around(rng: random.Random) -> str:
    return "".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def drawn(rng: random.Random) -> DrawParams:
    return rng.choice([
        DrawParams(),
        DrawParams(temperature=1.2, seed=rng.randrange(100)),
        DrawParams(temperature=0.4, top_p=0.9, repetition_penalty=1.2, seed=rng.randrange(100)),
        DrawParams(temperature=1.0, mirostat=3.0, seed=rng.randrange(100)),
    ])  # fmt: skip


def spelled(reply: Reply, tokenizer: Tokenizer) -> bytes:
    """The bytes that the reply's tokens have with those that joined its prompt."""
    joined = reply.prompt[len(reply.start.prompt) :]
    return b"".join(map(tokenizer.token_bytes, [*joined, *reply.text_tokens]))


def test_drafts_change_no_healed_reply(bundle: Path) -> None:
    rng, bound, drafted = random.Random(1), 0, 0
    model = run_tiny(bundle)
    drafters = Speculation([Lookup(), Recycling()])
    sides = chat_of(model), chat_of(run_tiny(bundle), speculation=drafters)
    for number in range(CASES):
        gap = edgedec.Infill(text_around(rng), text_around(rng), rng.choice(["", text_around(rng)]))
        params, most = drawn(rng), 1 + number % 40
        for chat in sides:
            chat.adjust(params=params, max_tokens=most)
        plain, quick = (chat.complete(gap) for chat in sides)
        assert (plain.read(), plain.tokens) == (quick.read(), quick.tokens), number
        assert (plain.prompt, plain.overlap) == (quick.prompt, quick.overlap)
        assert plain.finish_reason == quick.finish_reason
        held, whole = plain.start.held, spelled(plain, model.codec.tokenizer)
        assert whole.startswith(held)
        assert plain.text == whole[len(held) :].decode("utf-8", "replace")
        assert plain.finish_reason == "stop" or len(plain.tokens) == most
        bound += bool(held)
        drafted += sum(source is not None for source in quick.sources)
    assert bound > CASES // 4
    assert drafted


def test_the_first_token_is_the_best_of_those_that_are_permitted(
    models: tuple[edgedec.Model, edgedec.Model],
) -> None:
    """Beside a bias that bans all others."""
    model, rng, seen = models[0], random.Random(2), 0
    tokenizer, size = model.loaded.tokenizer, model.loaded.spec.vocab_size
    for _ in range(40):
        reply = model.complete(edgedec.Infill(text_around(rng), "x"), max_tokens=2, temperature=0)
        reply.read()
        left, prompt = reply.start.held, [*reply.start.prompt]
        wanted = [*reply.prompt[len(prompt) :], *reply.tokens[:1]]
        for token in wanted:
            if not left:
                break
            seen += 1
            pieces = [tokenizer.token_bytes(one) for one in range(size)]
            banned = [
                (one, -100.0)
                for one, piece in enumerate(pieces)
                if not piece.startswith(left)
                and not (left.startswith(piece) and tokenizer.id_of(piece) == one)
            ]
            params = DrawParams(logit_bias=tuple(banned))
            steps = [*model.engine.generate(prompt, params, max_tokens=1, stop_ids=())]
            assert pieces[steps[0].token] == pieces[token]
            left, prompt = left[len(pieces[token]) :], [*prompt, token]
    assert seen > 10


def test_a_reply_whose_token_is_spelled_alike_goes_on_as_before(
    models: tuple[edgedec.Model, edgedec.Model],
) -> None:
    """Where the same tokens come again, the reply is that of the prompt with them."""
    model, rng, same = models[0], random.Random(3), 0
    for _ in range(60):
        reply = model.complete(edgedec.Infill(text_around(rng), "x"), max_tokens=9, temperature=1.0, seed=4)
        reply.read()
        if not reply.start.held or reply.overlap:
            continue
        params, stops = reply.params, reply.start.ends.union(model.loaded.spec.eos_ids)
        steps = [*model.engine.generate(reply.prompt, params, max_tokens=9, stop_ids=stops)]
        assert [step.token for step in steps] == reply.tokens
        same += 1
    assert same


def test_log_probabilities_and_traces_have_the_text_of_the_reply(
    models: tuple[edgedec.Model, edgedec.Model],
) -> None:
    rng, overlaps = random.Random(4), 0
    for number in range(60):
        gap = edgedec.Infill(text_around(rng), "x")
        reply = models[1].complete(gap, max_tokens=6, temperature=1.0, seed=number, logprobs=2)
        text = reply.read()
        ends = reply.start.ends.union(models[1].loaded.spec.eos_ids)
        raw = b"".join(one.raw for one in reply.logprobs if one.token not in ends)
        assert raw.decode("utf-8", "replace") == text
        assert text.startswith("".join(one.text for one in reply.trace()))
        assert reply.stats.prompt_tokens == len(reply.prompt)
        assert reply.stats.completion_tokens == len(reply.tokens)
        overlaps += bool(reply.overlap)
    assert overlaps


def test_a_form_binds_the_reply_alone(models: tuple[edgedec.Model, edgedec.Model]) -> None:
    reply = models[0].complete(edgedec.Infill("x th", "x"), regex="[ab]{3}", temperature=1.0, seed=1)
    assert reply.start.held == b""
    assert len(reply.read()) == 3
    assert set(reply.text) <= set("ab")


def test_texts_that_are_continued_stay_whole(models: tuple[edgedec.Model, edgedec.Model]) -> None:
    reply = models[0].complete("x th", max_tokens=2, temperature=0)
    assert reply.start.held == b""


def test_an_interrupted_reply_leaves_the_model_as_it_was(models: tuple[edgedec.Model, edgedec.Model]) -> None:
    gap = edgedec.Infill("x th", "x")
    wanted = models[1].complete(gap, max_tokens=8, temperature=0).read()
    cut = models[1].complete(gap, max_tokens=8, temperature=0)
    cut.interrupt()
    assert wanted.startswith(cut.read())
    assert cut.finish_reason == "interrupted"
    left = iter(models[1].complete(gap, max_tokens=8, temperature=0))
    next(left)
    assert models[1].complete(gap, max_tokens=8, temperature=0).read() == wanted


def test_samples_of_a_batch_are_the_replies_alone(bundle: Path) -> None:
    gap = edgedec.Infill("the x th", "x")
    with edgedec.open(bundle, threads=1, context=256, draft="lookup", temperature=1.0) as model:
        alone = [model.complete(gap, max_tokens=12, seed=seed).read() for seed in range(4)]
    with (
        edgedec.open(
            bundle, threads=1, context=256, draft="lookup", conversations=4, temperature=1.0
        ) as model,
        model.conversations(max_tokens=12) as several,
    ):
        chats = several.chats
        for seed, chat in enumerate(chats):
            chat.adjust(params=DrawParams(temperature=1.0, seed=seed))
        replies = [iter(chat.complete(gap)) for chat in chats]
        texts = [""] * 4
        running = dict(enumerate(replies))
        while running:  # a piece of each in turn
            for number, reply in list(running.items()):
                if (piece := next(reply, None)) is None:
                    del running[number]
                else:
                    texts[number] += piece
    assert texts == alone


def test_within_a_budget_masked_rows_are_planned(bundle: Path) -> None:
    """``head_k`` best logits do not suffice; the ledger has room for one whole row at least."""
    gap = edgedec.Infill("x th", "x")
    with edgedec.open(bundle, threads=1, context=256, draft="off", temperature=0) as model:
        wanted = model.complete(gap, max_tokens=8).read()
    with edgedec.open(bundle, threads=1, context=256, draft="off", temperature=0, memory="8GB") as model:
        budget = model.single.budget
        assert budget is not None
        assert model.complete(gap, max_tokens=8).read() == wanted
        planned = model.single.budget
        assert planned is not None
        assert planned.facts.drawing == drawing_bytes(DrawParams(), masked=True) > budget.facts.drawing
        assert planned.plan.parts["rows"] > budget.plan.parts.get("rows", 0)
        assert not planned.plan.parts.get("grammar")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "behind", "begins"),
    [
        ("def fib(n):\n    if n < 2:\n        retu", "\n    return fib(n-1) + fib(n-2)\n", "rn"),
        ("# see http:", "\nimport requests\n", "//"),
        # https://github.com/ggml-org/llama.cpp/issues/5765
        ("# Five, Four, Thre", ", Two, One\n", "e"),
        # https://github.com/huggingface/transformers/issues/36210: a space, and a model without BOS
        ("import ", "\n\nx = np.zeros(3)\n", "numpy as np"),
        (
            "def total(xs):\n    s = 0\n    for x in xs:\n        s += x\n    ",
            "\n\nprint(total([1]))\n",
            "return s",
        ),
    ],
)
def test_words_and_addresses_go_on(before: str, behind: str, begins: str) -> None:
    texts = []
    for draft in ("off", "auto"):
        with edgedec.open(installed("qwen2.5-coder-0.5b"), draft=draft, context=1024, temperature=0) as model:
            texts.append(model.complete(edgedec.Infill(before, behind), max_tokens=12).read())
    assert texts[0] == texts[1]
    assert texts[0].startswith(begins)
