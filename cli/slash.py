"""The commands inside a chat, in one table: names, functions, help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgedec.cli.opening import no_system
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.cli.window.chat_window import ChatWindow
    from edgedec.decode.speculation import Speculation
    from edgedec.session.chat import Chat


class Quit(Exception):  # noqa: N818 - it is no error
    """The user asked to leave."""


@dataclass(frozen=True)
class Context:
    """The chat that a command acts on. ``say`` shows a line that is not part of the conversation."""

    window: ChatWindow
    say: Callable[[str], None]
    kept: Path | None = None
    """The file that the chat is kept in."""

    @property
    def chat(self) -> Chat:
        return self.window.chat

    @property
    def model(self) -> Model:
        return self.window.model


@dataclass(frozen=True)
class SlashCommand:
    argument: str
    help: str
    run: Callable[[Context, str], None]


def run(line: str, context: Context) -> None:
    """Carry out a line that begins with a slash. Raises UsageError for an unknown command, Quit to leave."""
    name, _, argument = line[1:].partition(" ")
    command = COMMANDS.get(name.strip().lower())
    if command is None:
        raise UsageError(
            f"unknown command /{name}", hint="/help lists them; begin with a space to send the text as it is"
        )
    if command.argument == "FILE" and not argument.strip():
        raise UsageError(f"/{name} needs the name of a file", hint=f"/{name} talk")
    command.run(context, argument.strip())


def _help(context: Context, argument: str) -> None:
    width = max(len(f"/{name} {command.argument}") for name, command in COMMANDS.items())
    for name, command in COMMANDS.items():
        context.say(f"{f'/{name} {command.argument}':<{width}}  {command.help}")
    context.say("Alt-Enter begins a new line, Ctrl-C stops a reply, Ctrl-D quits.")


def _reset(context: Context, argument: str) -> None:
    context.chat.reset()
    context.say("The conversation starts over.")


def _system(context: Context, argument: str) -> None:
    if not argument:
        context.say(f"System message: {context.chat.system or 'none'}")
        return
    if context.model.loaded.template is None:
        raise no_system(context.model)
    context.chat.set_system(None if argument == "-" else argument)
    change = "removed" if argument == "-" else "set"
    context.say(f"System message {change}; the conversation starts over.")


def _save(context: Context, argument: str) -> None:
    path = Path(argument).expanduser()
    context.chat.save(path)
    context.say(f"Saved {turns(context.chat)} to {path}.")


def _load(context: Context, argument: str) -> None:
    path = Path(argument).expanduser()
    if context.kept is not None:
        hint = f"start another chat with --session {path}"
        raise UsageError(f"this chat is kept in {context.kept}, and would replace it", hint=hint)
    context.chat.restore(path)
    context.model.single.make_room_for(context.chat.settings.params)
    params = context.chat.settings.params
    context.say(
        f"Loaded {turns(context.chat)} from {path} (temperature {params.temperature:g}, seed {params.seed})."
    )


def _stats(context: Context, argument: str) -> None:
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
    if chat.last is not None:
        context.say(f"last      {chat.last.stats.summary(context.model.context)}")


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


def _trace(context: Context, argument: str) -> None:
    if argument not in ("on", "off"):
        raise UsageError("/trace is on or off", hint="/trace on shows which tokens were drafted")
    context.window.traced = argument == "on"
    undrafted = context.window.traced and context.chat.speculation is None
    context.say(f"Trace {argument}." + (" Nothing is drafted: --draft auto." if undrafted else ""))


def _quit(context: Context, argument: str) -> None:
    raise Quit


def turns(chat: Chat) -> str:
    """How many there are: ``2 turns``."""
    count = sum(message.role == "user" for message in chat.messages)
    return f"{count} turn{'' if count == 1 else 's'}"


COMMANDS = {
    "help": SlashCommand("", "show this list", _help),
    "reset": SlashCommand("", "forget the conversation, keep the system message", _reset),
    "system": SlashCommand("[TEXT]", "show or set the system message (- removes it)", _system),
    "save": SlashCommand("FILE", "save the conversation and its cache", _save),
    "load": SlashCommand("FILE", "continue a saved conversation", _load),
    "stats": SlashCommand("", "show tokens, times and memory of this chat so far", _stats),
    "trace": SlashCommand("on|off", "show which tokens were drafted, and by whom", _trace),
    "quit": SlashCommand("", "leave (or Ctrl-D)", _quit),
}
