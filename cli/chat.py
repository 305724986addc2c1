"""``edgedec chat``: a conversation on a terminal, or in a pipe."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from edgedec.assemble.config import NO_TEMPLATE
from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import TEXT, new_command, option, taking
from edgedec.cli.opening import prepare_model, run_config
from edgedec.cli.positional import model_first
from edgedec.cli.sampling_options import SamplingOptions
from edgedec.cli.services import services
from edgedec.cli.slash import table
from edgedec.cli.slash.context import Context, Quit
from edgedec.cli.slash.turns import SEEDS
from edgedec.cli.text_input import piped_turns, read_prompt
from edgedec.cli.window.chat_window import ChatWindow
from edgedec.core.cache_config import DROP, WHEN_FULL, WhenFull
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.session.session_file import check_place
from edgedec.session.session_lock import kept_alone

if TYPE_CHECKING:
    from edgedec.api import Model
    from edgedec.assemble.config import RunConfig
    from edgedec.cli.tool_calls import ToolCalls
    from edgedec.session.chat import Chat


@new_command(
    "chat",
    "edgedec chat",
    'edgedec chat qwen2.5-coder-1.5b --system "Answer in one sentence."',
    'edgedec run smollm2-135m "Why is the sky blue?"',
    'echo "What is a monad?" | edgedec chat',
    "edgedec chat --session talk",
)
@model_first
@click.argument("words", nargs=-1, type=TEXT, metavar="[PROMPT]...")
@taking(reply=opt.ReplyOptions, sampling=SamplingOptions, size=opt.SizeOptions)
@option(
    "--session", "session_file", type=click.Path(path_type=Path), metavar="FILE", heading=opt.OUTPUT,
    help="Continue the conversation in this file, and keep it there turn by turn.",
)  # fmt: skip
@option(
    "--when-full", type=click.Choice(WHEN_FULL), default=DROP, show_default=True, metavar="WHAT",
    heading=opt.COST, rare=True,
    help="When the context is full: drop the oldest turns, or stop with an error; or, lossy, slide: the "
    "oldest tokens leave the cache; or speckv: those that a draft of what follows attends to least.",
)  # fmt: skip
@option(
    "--history", is_flag=True, heading=opt.OUTPUT, rare=True,
    help="Keep text of prompts and replies on this disk for the next start: prompts that were typed, and "
    "what drafters learned. `edgedec clean history` removes it.",
)  # fmt: skip
@option(
    "--mcp", type=click.Path(path_type=Path), metavar="FILE", heading=opt.REPLY, rare=True,
    help="Offer the tools of local servers that this JSON file names (mcpServers) and that are started here; "
    "each call is shown and confirmed.",
)  # fmt: skip
@option(
    "--server", metavar="URL", heading=opt.MODEL,
    help="Talk with a model of this running server, EdgeDec's or any other with OpenAI's interface.",
)  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    words: tuple[str, ...],
    mcp: Path | None,
    server: str | None,
    history: bool,
    session_file: Path | None,
    when_full: WhenFull,
    reply: opt.ReplyOptions,
    sampling: SamplingOptions,
    size: opt.SizeOptions,
) -> None:
    """Talk with a model: a name that `edgedec list --all` shows, owner/repo of the model hub, or a path.

    Enter sends, Alt-Enter begins a new line. Ctrl-C stops a reply and keeps the conversation; Ctrl-D quits;
    /help lists the commands. With PROMPT that alone is answered. In a pipe every line is one turn; with
    PROMPT all of it comes before PROMPT.
    \f

    With --server nothing is loaded here, and no server is ever started for you: the messages go to the one
    named, which has the model. EDGEDEC_REMOTE_KEY holds its key.

    With --session the next chat with that file goes on at once: no token is read again. How
    replies are drawn is kept too; what the command line says of it comes first.

    A base model has no chat template. With --raw it continues the lines that you type; --template gives it,
    or any other model, a template from a file.

    When the conversation no longer fits the context, its oldest turns are dropped, until three quarters are
    filled; the system message stays. The turns that stay are read again: they stand elsewhere now.

    With --when-full slide nothing is read again: the oldest tokens leave the cache, a quarter of it at a
    time, but for the first ones and the system message (attention sinks and a window). Replies go on, and are
    not those of a model that sees the whole conversation; a file then keeps the texts, without the cache.
    Where the model's own context ends, turns are dropped. With speckv every head of the model keeps what the
    newest tokens and a draft of what follows attend to (a model that drafts says what follows, see --draft,
    or else what followed before), in place of what is newest.
    """
    if server:
        from edgedec.cli import server_chat

        if mcp:
            raise UsageError("--mcp is for a model that runs here", hint="leave out --server")
        given = ctx.get_parameter_source("model") is ParameterSource.COMMANDLINE
        named = model if given or model == ctx.params["named"] else None
        server_chat.converse(ctx, server, named, words, reply, sampling)
        return
    if session_file:
        session_file = session_file.expanduser()
        check_place(session_file)
        ctx.with_resource(kept_alone(session_file))
    config = replace(
        run_config(size, sampling.named()),
        when_full=when_full,
        template=NO_TEMPLATE if reply.raw else reply.template,
        thinking=reply.thinking,
        think_tokens=reply.think_tokens,
        history=history,
    )
    interactive = not words and services(ctx).interactive()
    calls = _tool_calls(ctx, mcp, interactive=interactive) if mcp else None
    prepare = _Opening(ctx, config, reply, calls).prepare
    window = ChatWindow(model, prepare, interactive=interactive, calls=calls)
    ctx.call_on_close(window.close)
    if session_file:
        window.keep(session_file, sampling.named())
    with window.saved_at_the_end():
        if words:
            _answer(window, [read_prompt(" ".join(words), window.chat.prompts, after_input=True)])
        elif window.interactive:
            _converse(window, ctx)
        else:
            _answer(window, piped_turns(window.chat.prompts))


@dataclass(frozen=True, slots=True)
class _Opening:
    """Opens a model by name, and begins a chat, as the options of this command say."""

    ctx: click.Context
    config: RunConfig
    reply: opt.ReplyOptions
    calls: ToolCalls | None = None

    def prepare(self, name: str) -> Callable[[], tuple[Model, Chat]]:
        """Fetch a model if it is missing; return the function that opens it and begins a chat."""
        return partial(self._begin, prepare_model(self.ctx, name, self.config, to_chat=True))

    def _begin(self, open_it: Callable[[], Model]) -> tuple[Model, Chat]:
        model = open_it()
        if model.loaded.template:
            model.loaded.template.compile()  # a broken one shows now, not after the first turn was typed
        reply = self.reply
        tools = self.calls.tools if self.calls else ()
        chat = model.chat(system=reply.system, max_tokens=reply.max_tokens, stop=reply.stops, tools=tools)
        if self.calls:
            self.calls.bind(model, chat)
        if self.ctx.params["seed"] is None:
            chat.adjust(params=replace(chat.settings.params, seed=secrets.randbelow(SEEDS)))
        return model, chat


def _tool_calls(ctx: click.Context, file: Path, *, interactive: bool) -> ToolCalls:
    from edgedec.cli.tool_calls import ToolCalls, asked_on_terminal, start_servers

    servers = start_servers(file.expanduser())
    ctx.call_on_close(servers.close)
    return ToolCalls(servers, asked_on_terminal if interactive else None)


def _converse(window: ChatWindow, ctx: click.Context) -> None:
    from edgedec.cli.terminal import converse, typed_turns

    def stopped() -> None:
        window.chat.recover()
        screen.dim("stopped at once; the next reply reads the conversation again")

    window.greet()
    home = services(ctx).store().home if window.model.config.history else None
    converse(typed_turns(home, window.take_draft), partial(_turn, window), stopped)


def _answer(window: ChatWindow, turns: Iterable[str]) -> None:
    try:
        for text in turns:
            _turn(window, text)
            if window.chat.last is not None and window.chat.last.finish_reason == "interrupted":
                raise KeyboardInterrupt
    except Quit:
        return


def _turn(window: ChatWindow, text: str) -> None:
    """Carry out a command, or stream the answer. Raises EdgeDecError, and Quit to leave."""
    if text.startswith("/"):
        table.run(text, Context(window, screen.aside))
    else:
        window.answer(text)
    window.end_turn()
