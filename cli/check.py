"""``edgedec check``: compare two models, one to draft for the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgedec.bundle.manifest import WEIGHTS
from edgedec.cli import options as opt
from edgedec.cli import progress, screen
from edgedec.cli.command import new_command
from edgedec.cli.services import services
from edgedec.core.cache_config import CacheConfig
from edgedec.core.errors import UnsupportedError
from edgedec.core.units import size

if TYPE_CHECKING:
    from edgedec.core.forward import Forward
    from edgedec.drafters.pairing import Pairing
    from edgedec.loaded_model import LoadedModel

_NAMED = 5
_DEAR = 0.5
_QUESTIONS = (
    "Explain in a few sentences how a bicycle stays upright.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Translate into French: The weather is fine today, so we walk to the market.",
)
"""Everyday questions: an explanation, code, a translation."""
_TOKENS = 64
"""Tokens of each reply."""


@new_command(
    "check",
    "edgedec check qwen2.5-coder-1.5b smollm2-135m",
    "edgedec check ./my-model ./my-small-model.gguf --json | jq .share_of_text",
)
@click.argument("target", metavar="TARGET")
@click.argument("draft", metavar="DRAFT")
@opt.threads_option
@opt.json_option
@click.pass_context
def command(ctx: click.Context, target: str, draft: str, threads: int | None, as_json: bool) -> None:
    """Say whether DRAFT can draft for TARGET, and whether that is likely to pay.

    Compares:

    \b
    - vocabularies: how much of a text the draft model can say in tokens of the target, and which differ
    - contexts and memory
    - the time that one token takes
    - the speed with the drafter, on three questions; each has its reply of 64 tokens

    A pair that does not work is an error. The reply of the target never depends on the draft model.
    """
    from edgedec.drafters.pairing import paired, require

    store = services(ctx).store()
    with progress.reporter() as reporter:
        bundles = [store.ensure(name, progress=reporter) for name in (target, draft)]
    theirs = services(ctx).load(bundles[0], threads=threads, drafting=False)
    if not theirs.backend.caps.trees or not theirs.backend.caps.exact:
        raise UnsupportedError(
            f"nothing can draft for {theirs.name}: it has no passes over trees of tokens",
            hint="bundles made with optimum run without drafts",
        )
    mine = services(ctx).load(bundles[1], threads=theirs.threads, drafting=False)
    pairing = paired(theirs.tokenizer, mine.tokenizer)
    require(pairing, theirs.name, mine.name)
    report = _report(theirs, mine, pairing)
    examples = pairing.examples()
    del theirs, mine  # they are opened again
    report["gain"] = _gain(ctx, bundles, threads)
    report["verdict"] = _verdict(report["pass_ratio"], report["gain"])
    if as_json:
        screen.show_json(report)
        return
    for label, text in _lines(report, examples):
        click.echo(f"{label:<11} {text}")


def _report(target: LoadedModel, draft: LoadedModel, pairing: Pairing) -> dict[str, Any]:
    from edgedec.costs.pass_costs import TimedPasses
    from edgedec.costs.speeds import seconds_in_turns

    theirs = target.backend.forward(CacheConfig())
    mine = draft.backend.forward(CacheConfig(min(theirs.capacity, draft.spec.context_length)))
    timed = TimedPasses(time.perf_counter, progress.notice)
    seconds = seconds_in_turns({"target": theirs, "draft": mine}, timed)
    ratio = seconds["draft"][1] / seconds["target"][1]
    return {
        "target": _model(target, theirs, seconds["target"][1]),
        "draft": _model(draft, mine, seconds["draft"][1]),
        **_vocabularies(target, draft, pairing),
        "draft_bytes": sum(mine.nbytes().values()),
        "trees": draft.backend.caps.trees,
        "pass_ratio": round(ratio, 4),
        "gain": None,
        "verdict": _verdict(ratio, None),
    }


def _vocabularies(target: LoadedModel, draft: LoadedModel, pairing: Pairing) -> dict[str, Any]:
    from edgedec.drafters.pairing import differing_ids, share_of_vocabulary

    tokenizers = target.tokenizer, draft.tokenizer
    differing = [] if pairing.same else differing_ids(*tokenizers)
    return {
        "same_vocabulary": pairing.same,
        "differing": len(differing),
        "first_differing": [asdict(one) for one in differing[:_NAMED]],
        "share_of_vocabulary": 1.0 if pairing.same else round(share_of_vocabulary(*tokenizers), 4),
        "share_of_text": round(pairing.share_of_text, 4),
        "unsayable": [asdict(one) for one in pairing.unsayable],
    }


def _model(model: LoadedModel, forward: Forward, seconds: float) -> dict[str, Any]:
    return {
        "name": model.name,
        "tokens": model.tokenizer.size,
        "context": forward.capacity,
        "bytes": model.manifest.files[WEIGHTS].bytes,
        "pass_s": round(seconds, 6),
    }


def _gain(ctx: click.Context, bundles: Sequence[Path], threads: int | None) -> dict[str, float] | None:
    """Answer a few questions with this drafter alone, and return what its drafts did; None without any.

    The speed-up is that of pass costs, draft costs and acceptance, beside plain decoding: a busy machine
    hardly changes it.
    """
    from edgedec import api
    from edgedec.assemble.prepare import Bundles

    target, draft = bundles
    found = Bundles(target, {str(draft): draft})
    store, load = services(ctx).store(), services(ctx).load
    settings = {"draft": str(draft), "threads": threads, "sampling": {"temperature": 0.0}}
    with api.open(found, store=store, notice=progress.notice, load=load, **settings) as model:  # type: ignore[arg-type]
        for question in _QUESTIONS:
            if model.loaded.template:
                model.chat(max_tokens=_TOKENS).reply(question).read()
            else:
                model.complete(question, max_tokens=_TOKENS).read()
        drafts = model.stats().drafts
    tally = drafts.tally if drafts else None
    if tally is None or tally.predicted_speed_up is None or tally.block_efficiency is None:
        return None
    return {
        "speed_up": round(tally.predicted_speed_up, 3),
        "tokens_per_pass": round(tally.block_efficiency, 3),
    }


def _verdict(ratio: float, gain: dict[str, float] | None) -> str:
    dear = (
        f", but a pass of it takes {ratio:.0%} of the target's: it will hardly pay" if ratio >= _DEAR else ""
    )
    if gain is None:
        return f"can draft{dear}"
    likely = (
        f"likely {gain['speed_up']:.2f} times plain decoding, {gain['tokens_per_pass']:.2f} tokens a pass"
    )
    return f"can draft, {likely} (of {len(_QUESTIONS)} questions){dear}"


def _lines(report: dict[str, Any], examples: str) -> Iterator[tuple[str, str]]:
    for role in ("target", "draft"):
        one = report[role]
        facts = f"{size(one['bytes'])}, {one['tokens']} tokens, context {one['context']}"
        yield role, f"{one['name']}: {facts}, {1e3 * one['pass_s']:.1f} ms a token"
    if report["same_vocabulary"]:
        yield "vocabulary", "the same"
    else:
        shares = f"{report['share_of_vocabulary']:.0%} of the target's tokens"
        yield (
            "vocabulary",
            f"another one: the drafter has {shares}, and {report['share_of_text']:.0%} of those in a text",
        )
        first = report["first_differing"]
        ids = (f"{one['id']} is {one['target']!r} and {one['draft']!r}" for one in first)
        yield "ids", f"{report['differing']} differ: {', '.join(ids)}"
        if examples:
            yield "tokens", examples
    yield "memory", f"{size(report['draft_bytes'])} for the drafter, its context included"
    chains = "" if report["trees"] else ", chains only"
    yield "pass", f"{report['pass_ratio']:.0%} of the target's{chains}"
    yield "verdict", report["verdict"]
