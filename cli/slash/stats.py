"""``/stats`` and ``/trace``: numbers of a chat, and the drafters of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgedec.cli import screen
from edgedec.cli.slash.context import Context
from edgedec.core.errors import UsageError
from edgedec.core.units import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgedec.control.tally import Tally
    from edgedec.metrics.measures import Energy
    from edgedec.session.host import Totals
    from edgedec.session.model_stats import DraftStats, ExpertStats, ReplyFigures


ALL = "all"

Line = tuple[str, str]
"""A name and the words beside it; no name where they belong to the line above."""


def stats(context: Context, argument: str) -> None:
    """Show the chat in five lines, or with "all" everything that is counted."""
    if argument not in ("", ALL):
        raise UsageError(f"/stats does not know {argument!r:.40}", hint="/stats all shows more")
    screen.pairs([*_every_line(context)] if argument else [*_five_lines(context)])


def _five_lines(context: Context) -> Iterator[Line]:
    chat, found = context.chat, context.model.stats()
    yield "sampling", chat.settings.params.summary()
    yield "replies", _replies(chat.totals)
    yield "context", _context(context)
    yield (
        "memory",
        ", ".join(f"{name.replace('_', ' ')} {size(count)}" for name, count in found.nbytes.items()),
    )
    if found.experts:
        yield "experts", _experts(found.experts)
    yield ("switch", found.switch.summary()) if found.switch else ("drafts", _drafts(found.drafts))


def _every_line(context: Context) -> Iterator[Line]:
    chat, totals, found = context.chat, context.chat.totals, context.model.stats(context.chat.last)
    fed = totals.prompt_tokens - totals.reused_tokens
    rate = f" at {fed / totals.prefill_s:.0f} tok/s" if totals.prefill_s else ""
    yield "sampling", chat.settings.params.summary()
    yield "replies", _replies(totals)
    yield "prompts", f"{totals.prompt_tokens} tokens, {totals.reused_tokens} reused, {fed} fed{rate}"
    yield "context", _context(context)
    for name, count in found.nbytes.items():
        yield name, size(count) + (f" ({found.kv})" if name == "kv_cache" and found.kv else "")
    if found.experts:
        yield "experts", _experts(found.experts)
    yield "kernels", found.isa
    yield "drafts", _drafts(found.drafts)
    if found.power_notice:
        yield "", found.power_notice
    if found.drafts and found.drafts.tally.by_drafter:
        tally = found.drafts.tally
        for line in (*_drafters(tally), *depth_words(tally), *_prediction(tally, totals)):
            yield "", line
    if found.switch:
        yield "switch", found.switch.summary()
    if chat.last is not None:
        yield "last", chat.last.stats.summary(found.context)
    for line in _measured(found.reply) if found.reply else ():
        yield "", line


def _experts(found: ExpertStats) -> str:
    counts, rate = found.counts, found.hit_rate
    hits = f", {rate:.0%} of those that passes took" if rate is not None else ""
    read = f"; {size(counts.bytes_read)} read from the disk, {counts.waited_s:.1f} s waited"
    return f"{found.slots} of {found.total} in memory{hits}{read}"


def _replies(totals: Totals) -> str:
    rate = f" at {totals.completion_tokens / totals.decode_s:.1f} tok/s" if totals.decode_s else ""
    return f"{totals.replies}, {totals.completion_tokens} tokens{rate}"


def _context(context: Context) -> str:
    policy = context.chat.policy
    resident = len(context.chat.engine.committed) - (policy.missing if policy else 0)
    lossy = f"; {policy.lossy}: {policy.tokens} tokens have left the cache" if policy else ""
    return f"{resident} of {context.model.context} tokens{lossy}"


def _measured(found: ReplyFigures) -> Iterator[str]:
    """Yield lines about the last reply: speed-up, the distance from the roofline, and energy."""
    if gain := found.mbsu:
        yield f"memory-bound speed-up {gain.streamed:.2f} (embedding counted: {gain.parameters:.2f})"
    if limit := found.roof:
        yield (
            f"{size(round(limit.bytes_per_token))} read a token: {limit.gb_per_s:.1f} of"
            f" {limit.bandwidth_gb_per_s:.1f} GB/s, {limit.share:.0%} of the roofline"
            f" of {limit.roof_tokens_per_s:.1f} tok/s"
        )
    yield energy_words(found.energy)


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


def _drafts(found: DraftStats | None) -> str:
    if found is None:
        return "off"
    names, tally = ", ".join(found.names) or "none left", found.tally
    if not tally.rounds:
        return names
    right = f"{tally.accepted} of {tally.drafted} drafted tokens right"
    return f"{names}: {right}, {tally.block_efficiency:.2f} tokens a pass"


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


def _prediction(tally: Tally, totals: Totals) -> Iterator[str]:
    """Yield a line with the speed that costs and acceptance predict, beside the measured one."""
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
