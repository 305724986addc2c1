"""``edgedec embed``: texts become vectors."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from edgedec.cli import options as opt
from edgedec.cli import screen
from edgedec.cli.command import TEXT, new_command, option
from edgedec.cli.progress import notice
from edgedec.cli.services import services
from edgedec.core.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgedec.embed.encoder import Encoder

_TOGETHER = 256
"""Texts that are read before vectors of them are shown."""
_HELP = """Turn each text into a vector: texts are arguments, or the lines of standard input.

A vector is a line of numbers; with --json a line is an object with the text and its vector; with --out all
vectors are a matrix in a file that NumPy reads.

\f
Every line of standard input is a text, also an empty one, so that row N is line N. A text's vector is the
same alone and among others. A text that is longer than the model's context is cut, and a line says so.

Some models want to know what a text is: --as query is for questions and --as document for texts that may
answer them. The model's own words for that go in front of the text.
"""


@new_command(
    "embed",
    'edgedec embed -m all-minilm-l6-v2 "A text" "Another one" --json',
    "edgedec embed -m all-minilm-l6-v2 --out vectors.npy < lines.txt",
    help=_HELP,
)
@option(
    "-m", "--model", required=True, metavar="NAME", heading=opt.MODEL, shell_complete=opt.complete_model,
    help="A model that makes vectors: its name, owner/repo of the model hub, or a path.",
)  # fmt: skip
@click.argument("texts", nargs=-1, type=TEXT, metavar="[TEXT]...")
@option(
    "--as", "kind", type=click.Choice(["query", "document"]), metavar="KIND", heading=opt.MODEL,
    help="Put the model's words for a query or a document in front of each text, where it has some.",
)  # fmt: skip
@opt.memory_option
@opt.threads_option
@option(
    "--out", type=click.Path(path_type=Path), metavar="FILE.npy", heading=opt.OUTPUT,
    help="Write all vectors into one file, as a matrix of float32.",
)  # fmt: skip
@option("--json", "as_json", is_flag=True, heading=opt.OUTPUT, help="Print one JSON object a text.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    texts: tuple[str, ...],
    kind: Literal["query", "document"] | None,
    memory: int | None,
    threads: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    if out is not None and as_json:
        raise UsageError("--json goes without --out", hint="leave one out")
    if not texts and sys.stdin.isatty():
        raise UsageError("no text", hint='as in `edgedec embed -m NAME "A text"`, or pipe lines to it')
    services_of = services(ctx)
    encoder = services_of.encoder(model, services_of.store(), threads=threads, memory=memory)
    lines = iter(texts) if texts else _lines()
    with ExitStack() as stack:
        show: Callable[[list[str], NDArray], None] = _json if as_json else _plain  # type: ignore[type-arg]
        if out is not None:
            from edgedec.embed.matrix_file import matrix_file

            made = stack.enter_context(matrix_file(out, encoder.size))
            show = lambda _texts, vectors: made.add(vectors)  # noqa: E731
        count, cut = _run(encoder, lines, kind, show)
    if cut:
        which = "a text was" if cut == 1 else f"{cut} texts were"
        notice(f"note: {which} longer than the model's context of {encoder.context} tokens and cut")
    if out is not None:
        notice(f"{out}: {count} vectors of {encoder.size} numbers")


def _run(
    encoder: Encoder,
    lines: Iterator[str],
    kind: str | None,
    show: Callable[[list[str], NDArray], None],  # type: ignore[type-arg]
) -> tuple[int, int]:
    """Show the vectors of all texts; return how many there are, and how many texts were cut."""
    count = cut = 0
    while some := list(itertools.islice(lines, _TOGETHER)):
        found = encoder.embed(some, kind=kind)
        show(some, found.vectors)
        count, cut = count + len(some), cut + found.cut
    if not count:
        raise UsageError("there is no text", hint="put one on each line of standard input")
    return count, cut


def _lines() -> Iterator[str]:
    """Yield the lines of standard input. Raises UsageError for one that is not UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UsageError(f"line {number} of standard input is not UTF-8 text") from error


def _json(texts: list[str], vectors: NDArray) -> None:  # type: ignore[type-arg]
    for text, vector in zip(texts, vectors, strict=True):
        screen.show_json({"text": text, "embedding": [float(str(number)) for number in vector]})


def _plain(texts: list[str], vectors: NDArray) -> None:  # type: ignore[type-arg]
    for vector in vectors:
        click.echo(" ".join(str(number) for number in vector))
