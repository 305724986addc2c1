"""``edgedec web``: serves a folder that runs a model in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from edgedec.cli.command import new_command, option
from edgedec.cli.serve import check_installed
from edgedec.core.errors import NotFoundError


@new_command(
    "web",
    "edgedec export smollm2-135m --for web -o page",
    "edgedec web page",
    "edgedec web page --port 0",
)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@option("--port", type=click.IntRange(0, 65535), default=8081, show_default=True, metavar="N",
        help="Port to listen on; 0 takes a free one.")  # fmt: skip
def command(folder: Path, port: int) -> None:
    """Serve a folder of `edgedec export --for web` to browsers on this machine.

    The page runs the model itself, on the GPU by WebGPU or on the CPU by WebAssembly; nothing that is typed
    there leaves the browser. Any server of static files can serve the folder instead. Ctrl-C ends this one.
    \f

    Only this machine reaches the server, and only files that the folder lists are read.
    """
    from edgedec.bundle.web_folder import CONTENTS, WebFolder

    try:
        contents = WebFolder.load(folder)
    except NotFoundError as error:
        hint = f"{error.hint}; `edgedec export NAME --for web -o {folder}` makes one"
        raise NotFoundError(error.message, hint=hint) from error
    check_installed()
    from edgedec.server.http.ending import address_of, listen
    from edgedec.server.http.files import FileServer

    with listen("127.0.0.1", port) as listening:
        said = f"Chat with {contents.name} at {address_of(listening)}, Ctrl-C ends the server."
        server = FileServer(folder, [*contents.files, CONTENTS])
        server.serve_on(listening, lambda: click.echo(said))
