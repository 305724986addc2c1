"""``edgedec serve``: an OpenAI-compatible server, and a page to chat on."""

from __future__ import annotations

import importlib.util
import os
import re
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli import options as opt
from edgedec.cli import progress
from edgedec.cli.command import declared, new_command, option, taking
from edgedec.cli.opening import fetch_bundles
from edgedec.cli.services import services
from edgedec.core.cache_config import MOST_SEQUENCES
from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.disk.installing import pip_install

if TYPE_CHECKING:
    from edgedec.assemble.config import RunConfig
    from edgedec.mcp.servers import ToolServers
    from edgedec.server.http.log import Log
    from edgedec.server.work.hub import Hub

KEY_VARIABLE = "EDGEDEC_KEY"
SERVER, LIMITS = "Server", "Limits"
_NEEDED = ("starlette", "uvicorn", "pydantic", "prometheus_client")
_KEY_CHARS = 8, 4096
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#]+/?")
_OTHERS = stat.S_IROTH | stat.S_IRGRP


@dataclass(frozen=True, slots=True)
class AddressOptions:
    """The place of the server, and who may ask it."""

    # fmt: off
    host: str = declared(option(
        "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", heading=SERVER,
        help="Address to listen on. Others than this machine's own need a key.",
    ))
    port: int = declared(option(
        "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, metavar="N", heading=SERVER,
        help="Port to listen on; 0 takes a free one.",
    ))
    allow_origin: tuple[str, ...] = declared(option(
        "--allow-origin", multiple=True, metavar="ORIGIN", heading=SERVER,
        help="Let pages of this site ask, as in https://example.org; `*`: of every site. May be repeated.",
    ))
    key_file: Path | None = declared(option(
        "--key-file", type=click.Path(path_type=Path), metavar="FILE", heading=SERVER,
        help=f"Ask clients for the key in this file. {KEY_VARIABLE} may hold it instead.",
    ))
    mcp: Path | None = declared(option(
        "--mcp", type=click.Path(path_type=Path), metavar="FILE", heading=SERVER, rare=True,
        help="Offer the page, on this machine alone, the tools of local servers that this JSON file names "
        "(mcpServers); each call is shown there and confirmed.",
    ))
    log_level: str = declared(option(
        "--log-level", type=click.Choice(["info", "warning", "error"]), default="info", show_default=True,
        metavar="LEVEL", heading=SERVER,
        help="Log every request (info), those that were refused or failed (warning), or failures (error).",
    ))
    # fmt: on

    def origins(self) -> tuple[str, ...]:
        """Return origins as browsers state them. Raises UsageError for one that is none."""
        for one in self.allow_origin:
            if one != "*" and not _ORIGIN.fullmatch(one):
                raise UsageError(
                    f"{one!r:.60} is no origin", hint="as in https://example.org, app://obsidian.md or `*`"
                )
        return tuple(one.rstrip("/") for one in self.allow_origin)


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """Settings that decide how much memory the server takes, and how quick it is."""

    # fmt: off
    memory: int | None = declared(opt.memory_option)
    context: int | None = declared(opt.context_option)
    parallel: int = declared(option(
        "--parallel", type=click.IntRange(1, MOST_SEQUENCES), default=4, show_default=True, metavar="N",
        heading=opt.COST, help="Replies of a model at once, each with a context of its own.",
    ))
    draft: str = declared(opt.draft_option)
    threads: int | None = declared(opt.threads_option)
    device: opt.DeviceChoice = declared(opt.device_choice_option)
    lora: tuple[str, ...] = declared(option(
        "--lora", multiple=True, metavar="NAME=FILE[:SCALE]", heading=opt.COST, rare=True,
        help="Serve the first MODEL with a LoRA adapter as the model NAME beside it; may be given several "
        "times.",
    ))
    prefixes: int | None = declared(opt.prefixes_option)
    # fmt: on

    def config(self) -> RunConfig:
        """Return the settings of every model. Raises UsageError."""
        from edgedec.assemble.config import RunConfig

        return RunConfig(
            memory=self.memory, context=self.context, conversations=self.parallel, draft=self.draft,
            threads=self.threads, prefixes=self.prefixes, **self.device.settings(),
        )  # fmt: skip


    def adapted(self) -> dict[str, str]:
        """Return adapters by the names that requests have for the changed model. Raises UsageError."""
        found: dict[str, str] = {}
        for one in self.lora:
            name, named, file = one.partition("=")
            if not (named and name and file) or name in found or "/" in name:
                raise UsageError(
                    f"{one!r:.60} is no name and file",
                    hint="write --lora lawyer=adapter.gguf, and each name once",
                )
            found[name] = file
        return found


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """Bounds of requests."""

    # fmt: off
    queue: int = declared(option(
        "--queue", type=click.IntRange(min=1), default=32, show_default=True, metavar="N", heading=LIMITS,
        help="Most requests that wait; further ones are told when to try again.",
    ))
    timeout: float = declared(option(
        "--timeout", type=click.FloatRange(min=1), default=600, show_default=True, metavar="SECONDS",
        heading=LIMITS, help="Longest time of a request; then its reply is cut.",
    ))
    max_tokens: int | None = declared(option(
        "--max-tokens", type=click.IntRange(min=1), metavar="N", heading=LIMITS,
        help="Longest reply, in tokens (default: as far as the context reaches).",
    ))
    finish: float = declared(option(
        "--finish", type=click.FloatRange(min=0), default=30, show_default=True, metavar="SECONDS",
        heading=LIMITS, help="Time for replies to end after Ctrl-C or SIGTERM.",
    ))
    # fmt: on


@new_command(
    "serve",
    "edgedec serve",
    "edgedec serve qwen2.5-coder-1.5b --memory 1.5GB --parallel 2",
    "edgedec serve --host 0.0.0.0 --key-file key.txt",
    "edgedec serve gemma3-1b 2> requests.jsonl",
)
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=opt.complete_model)
@taking(address=AddressOptions, slots=SlotOptions, limits=LimitOptions)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    models: tuple[str, ...],
    address: AddressOptions,
    slots: SlotOptions,
    limits: LimitOptions,
) -> None:
    """Serve models over HTTP, with OpenAI's interface, and with a page to chat on.

    Clients take http://127.0.0.1:8080/v1 as their address. Requests may name any installed model; the first
    MODEL answers those that name none. A model that is missing is pulled. Ctrl-C ends the server after the
    replies in progress.
    \f

    The server listens on this machine alone. With another --host it asks for a key, which clients send as
    `Authorization: Bearer KEY`. A log line for each request goes to standard error, without any text of
    prompts and replies: in words to a terminal, else as JSON.

    A second Ctrl-C ends the server at once.
    """
    check_installed()
    origins = address.origins()
    key = read_key(address.key_file)
    from edgedec.models.default_model import default_model
    from edgedec.remote.address import is_loopback
    from edgedec.server.http.ending import address_of, listen
    from edgedec.server.http.log import Log
    from edgedec.server.http.serving import HttpServer
    from edgedec.server.http.settings import ServerSettings

    if key is None and not is_loopback(address.host):
        raise UsageError(
            f"{address.host} can be reached by other machines, and there is no key",
            hint=f"--key-file FILE or {KEY_VARIABLE} gives one",
        )
    if address.mcp and not is_loopback(address.host):
        raise UsageError(
            f"{address.host} can be reached by other machines, and tools are for this one alone",
            hint="leave out --mcp or --host",
        )
    log = Log(level=address.log_level, words=sys.stderr.isatty())
    with listen(address.host, address.port) as listening:
        tools = _tools(ctx, address.mcp) if address.mcp else None
        hub = _hub(ctx, models or (default_model(services(ctx).store()),), slots, limits, log)
        settings = ServerSettings(
            key=key, loopback=is_loopback(address.host), origins=origins, finish_s=limits.finish
        )
        server = HttpServer(hub, settings, log, tools)

        def ready() -> None:
            log.flush()  # the address is the last line
            _announce(hub, address_of(listening))

        server.serve_on(listening, ready)


def _tools(ctx: click.Context, file: Path) -> ToolServers:
    """Start the tool servers of a file. Raises the errors of ``start_servers``."""
    from edgedec.cli.tool_calls import start_servers

    found = start_servers(file.expanduser())
    ctx.call_on_close(found.close)
    progress.notice(f"tools of the page: {', '.join(tool.name for tool in found.tools)}")
    return found


def _hub(
    ctx: click.Context, models: tuple[str, ...], slots: SlotOptions, limits: LimitOptions, log: Log
) -> Hub:
    """Return the hub of all models, with the first one open."""
    from edgedec.server.work.catalogue import Adapted
    from edgedec.server.work.hub import Hub
    from edgedec.server.work.request import QueueLimits

    config, adapted = slots.config(), slots.adapted()
    bounds = QueueLimits(waiting=limits.queue, request_s=limits.timeout, reply_tokens=limits.max_tokens)
    for name in models:
        fetch_bundles(ctx, name, config)
    store = services(ctx).store()
    _check_adapters(adapted, store.path(models[0]))
    named: list[str | Adapted] = [*models]
    named += [Adapted(name, models[0], file) for name, file in adapted.items()]
    hub = Hub(named, config, store=store, limits=bounds, notice=log.notice)
    ctx.call_on_close(lambda: hub.close(finish_s=0))
    with progress.reporter():
        hub.load()
    return hub


def _check_adapters(adapted: Mapping[str, str], bundle: Path) -> None:
    """Refuse adapters of another model now, not at the first request. Raises the errors of reading them."""
    if adapted:
        from edgedec.export.lora.reading import read_adapter

        for file in adapted.values():
            read_adapter(file, bundle)


def _announce(hub: Hub, url: str) -> None:
    """Say where the server is, and what it has."""
    named, slots = [one for one in hub.models() if one.loaded], hub.status().slots
    for one in named:
        replies = f"{slots} replies at once" if slots > 1 else "one reply at a time"
        if one.dimensions:
            replies = f"vectors of {one.dimensions} numbers" if one.dimensions > 1 else "scores of documents"
        click.echo(f"{one.name}: {one.context} tokens of context, {replies}")
    click.echo(f"Chat at {url}, clients at {url}/v1. Ctrl-C ends the server.")


def read_key(file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the key of a file, else of the environment. Raises NotFoundError, BadFileError, UsageError."""
    if file is None:
        given, place = environment.get(KEY_VARIABLE), KEY_VARIABLE
    else:
        given, place = _text_of(file), str(file)
    if given is None:
        return None
    key, (least, most) = given.strip(), _KEY_CHARS
    if not (least <= len(key) <= most and key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(
            f"{place} holds no key", hint=f"a key is one word of {least} to {most} ASCII characters"
        )
    return key


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_mode & _OTHERS:
                progress.notice(f"{file} can be read by other users of this machine; `chmod 600` ends that")
            return stream.read(_KEY_CHARS[1] + 3).decode("ascii")
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}", hint="name a text file") from error
    except UnicodeDecodeError as error:
        raise BadFileError(f"{file} holds no key", hint="a key is ASCII text") from error


def check_installed() -> None:
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise UsageError(f"serving needs {', '.join(missing)}", hint=f"`{pip_install('server')}`")
