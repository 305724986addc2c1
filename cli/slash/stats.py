"""``/stats`` and ``/trace``: numbers of a chat, and the drafters of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.cli.slash.context import Context
from edgedec.core.errors import UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgedec.control.tally import Tally
    from edgedec.decode.speculation import Speculation
    from edgedec.metrics.measures import Energy
    from edgedec.session.reply import Reply


def stats(context: Context, argument: str) -> None:
    chat, totals = context.chat, context.chat.totals
    fed = totals.prompt_tokens - totals.reused_tokens
    rate = f" at {fed / totals.prefill_s:.0f} tok/s" if totals.prefill_s else ""
    context.say(f"sampling  {chat.settings.params.summary()}")
    context.say(f"replies   {totals.replies}, {totals.completion_tokens} tokens in {totals.decode_s:.1f} s")
    context.say(f"prompts   {totals.prompt_tokens} tokens, {totals.reused_tokens} reused, {fed} fed{rate}")
    policy = chat.policy
    resident = len(chat.engine.committed) - (policy.missing if policy else 0)
    context.say(f"context   {resident} of {context.model.context} tokens")
    if policy:
        context.say(f"lossy     {policy.lossy}: {policy.tokens} tokens have left the cache")
    for name, count in context.model.single.forward.nbytes().items():
        kept = f" ({context.model.single.kv})" if name == "kv_cache" and context.model.single.kv else ""
        context.say(f"{name:<9} {count / 1e6:.1f} MB{kept}")
    context.say(f"kernels   {context.model.loaded.isa}")
    context.say(f"drafts    {_drafts(chat.speculation)}")
    if power := context.model.single.pass_energy:
        context.say(f"{'':<9} {power.notice()}")
    if chat.speculation and chat.speculation.tally.by_drafter:
        tally = chat.speculation.tally
        for line in (*_drafters(tally), *depth_words(tally), *_prediction(context)):
            context.say(f"{'':<9} {line}")
    if chat.engine.switched:
        context.say(f"switch    {chat.engine.switched.summary()}")
    if chat.last is not None:
        context.say(f"last      {chat.last.stats.summary(context.model.context)}")
        for line in _measured(context, chat.last):
            context.say(f"{'':<9} {line}")


def _measured(context: Context, reply: Reply) -> Iterator[str]:
    """Yield lines about the last reply: speed-up, the distance from the roofline, and energy.

    Only energy, where two models took turns.
    """
    measures = context.model.single.measures
    if reply.marks is None:
        return
    record = context.chat.engine.switched
    alone = not (record and record.elsewhere)
    if alone and (gain := measures.mbsu(reply.marks, reply.stats)):
        yield f"memory-bound speed-up {gain.streamed:.2f} (embedding counted: {gain.parameters:.2f})"
    if alone and (limit := measures.roofline(reply.marks, reply.stats)):
        yield (
            f"{size(round(limit.bytes_per_token))} read a token: {limit.gb_per_s:.1f} of"
            f" {limit.bandwidth_gb_per_s:.1f} GB/s, {limit.share:.0%} of the roofline"
            f" of {limit.roof_tokens_per_s:.1f} tok/s"
        )
    yield energy_words(measures.energy(reply.marks, reply.stats))


def energy_words(found: Energy) -> str:
    """Return a line about the energy of a reply, which says whether it was measured."""
    each = found.joules_per_token
    token = f", {joules(each)} a token" if each is not None else ""
    if not found.estimated:
        idle = f"above idle power of {found.idle_w:.1f} W" if found.idle_w is not None else "idle included"
        return f"energy, measured: {joules(found.joules)}{token}, {idle}; {found.source}"
    spread = f" ({joules(found.low or 0.0)} to {joules(found.high or 0.0)})"
    return f"energy, estimate: {joules(found.joules)}{spread}{token}"


def joules(value: float) -> str:
    """Return joules in words, in mJ below one."""
    return f"{value:.2f} J" if value >= 1.0 else f"{1e3 * value:.1f} mJ"


def _drafts(speculation: Speculation | None) -> str:
    if speculation is None:
        return "off"
    names, tally = ", ".join(speculation.drafters) or "none left", speculation.tally
    if not tally.rounds:
        return names
    return (
        f"{names}: {tally.accepted} of {tally.drafted} tokens drafted were right,"
        f" {tally.block_efficiency:.2f} tokens a pass"
    )


def _drafters(tally: Tally) -> Iterator[str]:
    """Yield a line per drafter: its queries, its time and share of all time, and its tokens."""
    for name, found in tally.of_drafters().items():
        took = f"{1e3 * tally.effort(name).seconds:.1f} ms ({tally.share(name):.1%} of the time)"
        read = f", {size(int(found['bytes_read']))} read" if found["bytes_read"] else ""
        yield (
            f"{name}: {found['queries']} queries, {took}, {found['proposed']} proposed,"
            f" {found['drafted']} fed, {found['accepted']} right{read}"
        )


def depth_words(tally: Tally) -> Iterator[str]:
    """Yield a line with the share of tokens that were right, by their depth in the draft."""
    rates = [f"{count.rate:.0%}" for count in tally.by_depth if count.rate is not None]
    if rates:
        yield f"right by depth: {', '.join(rates)}"


def _prediction(context: Context) -> Iterator[str]:
    """Yield a line with the speed that costs and acceptance predict, beside the measured one."""
    assert context.chat.speculation is not None
    tally, totals = context.chat.speculation.tally, context.chat.totals
    rate, speed_up = tally.predicted_tokens_per_s, tally.predicted_speed_up
    if rate is None or speed_up is None or not totals.decode_s:
        return
    measured = (totals.completion_tokens - totals.replies) / totals.decode_s
    yield f"predicted {rate:.1f} tok/s, {speed_up:.2f} times plain decoding; measured {measured:.1f} tok/s"


def trace(context: Context, argument: str) -> None:
    if argument not in ("on", "off"):
        raise UsageError("/trace is on or off", hint="/trace on shows which tokens were drafted")
    context.window.traced = argument == "on"
    undrafted = context.window.traced and context.chat.speculation is None
    context.say(f"Trace {argument}." + (" Nothing is drafted: --draft auto." if undrafted else ""))
