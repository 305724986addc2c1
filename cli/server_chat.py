"""``edgedec chat --server URL``: a conversation with a model of a running server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgedec.cli import screen
from edgedec.cli.interrupts import interrupts_to, terminated
from edgedec.cli.services import services
from edgedec.cli.slash.context import Quit
from edgedec.cli.slash.table import ALIASES, COMMANDS, unknown
from edgedec.cli.text_input import Unbounded, piped_turns, read_prompt
from edgedec.cli.window.view import Look, ReplyView, can_draw
from edgedec.core.errors import UsageError
from edgedec.system.process import unseen

if TYPE_CHECKING:
    from edgedec.cli.options import ReplyOptions
    from edgedec.cli.sampling_options import SamplingOptions
    from edgedec.remote.talk import ServerTalk

_THERE = {"server", "model", "named", "words", "system", "max_tokens", "stops", "thinking", "think_tokens"}
"""Options, beside those of sampling, that a server can be asked for."""
_CONNECT_S, _SILENT_S, _REPLY_S = 5.0, 600.0, 3600.0
"""Seconds until there is a connection, until the next text (a long prompt is read first), and in all."""
_HELP = {
    "/retry": "answer the last message again",
    "/more": "continue a reply that was cut",
    "/system TEXT": "set the system message (- removes it)",
    "/reset": "forget the conversation, keep the system message; also /clear",
    "/quit": "leave; also /exit, /bye, Ctrl-D",
}


def converse(
    ctx: click.Context,
    url: str,
    model: str | None,
    words: tuple[str, ...],
    reply: ReplyOptions,
    sampling: SamplingOptions,
) -> None:
    """Talk with a model of the server at ``url``; None: the only one that it has.

    Raises UsageError for options that are about models of this process, SideLost where nothing answers.
    """
    from edgedec.remote import RemoteLimits, RemoteSide, ServerAddress
    from edgedec.remote.talk import ServerTalk

    _refuse_local(ctx, {one.name for one in fields(sampling)} | _THERE)
    side = RemoteSide(ServerAddress.of(url), model, RemoteLimits(_CONNECT_S, _SILENT_S, _REPLY_S))
    side.check_reachable()
    ctx.call_on_close(side.close)
    talk = ServerTalk(side, _asked(reply, sampling), system=reply.system, max_tokens=reply.max_tokens)
    if words:
        _answer(talk, [read_prompt(" ".join(words), Unbounded(), after_input=True)])
    elif services(ctx).interactive():
        screen.aside(f"{side.address.host}: the conversation is sent there; /help helps")
        from edgedec.cli.terminal import converse, typed_turns

        converse(typed_turns(None), partial(_turn, talk), lambda: screen.dim("stopped at once"))
    else:
        _answer(talk, piped_turns(Unbounded()))


def _refuse_local(ctx: click.Context, there: set[str]) -> None:
    for param in ctx.command.params:
        given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if given and param.name not in there:
            raise UsageError(
                f"{param.opts[-1]} is about a model of this process, and --server talks with one elsewhere",
                hint="leave one out",
            )


def _asked(reply: ReplyOptions, sampling: SamplingOptions) -> Mapping[str, Any]:
    """Return the fields of a request that were named."""
    named = sampling.named()
    values = {one.name: getattr(named, one.name) for one in fields(named)}
    own: dict[str, Any] = {"stop": list(reply.stops)} if reply.stops else {}
    if reply.thinking is not None:
        own["chat_template_kwargs"] = {"enable_thinking": reply.thinking}
    if reply.think_tokens is not None:
        own["max_thinking_tokens"] = reply.think_tokens
    return {name: value for name, value in values.items() if value is not None} | own


def _answer(talk: ServerTalk, turns: Iterable[str]) -> None:
    with suppress(Quit):
        for text in turns:
            _turn(talk, text)
            if terminated():
                raise KeyboardInterrupt


def _turn(talk: ServerTalk, text: str) -> None:
    """Carry out a command, or show the answer. Raises Quit to leave."""
    if not text.startswith("/"):
        _show(talk, lambda: talk.reply(text))
        return
    typed, _, argument = text[1:].partition(" ")
    name = ALIASES.get(typed.lower(), typed.lower())
    if name == "quit":
        raise Quit
    if name == "help":
        screen.pairs(list(_HELP.items()))
    elif name == "more":
        before = talk.messages[-1][1] if talk.messages else ""
        _show(talk, talk.more, before=before)
    elif name == "retry":
        question = talk.take_back()
        _show(talk, lambda: talk.reply(question))
    elif name == "reset":
        talk.reset()
        screen.aside("The conversation starts over.")
    elif name == "system":
        _system(talk, argument.strip())
    elif name in COMMANDS:
        there = ", ".join(one.split()[0] for one in _HELP)
        raise UsageError(f"/{typed} is not for a server's model", hint=f"there are {there}")
    else:
        raise unknown(typed, [one.split()[0][1:] for one in _HELP])


def _system(talk: ServerTalk, given: str) -> None:
    if given:
        talk.set_system(None if given == "-" else given)
        screen.aside(f"System message {'removed' if given == '-' else 'set'}.")
    else:
        screen.aside(f"System message: {talk.system or 'none'}")


def _show(talk: ServerTalk, begin: Callable[[], Generator[str]], *, before: str = "") -> None:
    began = time.monotonic()
    with unseen(), interrupts_to(talk.interrupt):
        (_draw if can_draw() else _write)(begin(), before)
    if sys.stderr.isatty():
        cut = " | not finished; /more continues" if talk.unfinished else ""
        screen.dim(f"[{time.monotonic() - began:.1f} s{cut}]")


def _draw(pieces: Generator[str], before: str) -> None:
    with ReplyView(Look(), before=before) as view:
        for count, piece in enumerate(pieces):
            view.push(piece, count)


def _write(pieces: Generator[str], before: str) -> None:
    screen.stream(pieces, lambda piece: click.echo(piece, nl=False))
