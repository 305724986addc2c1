"""``/more``, ``/retry``, ``/edit``, ``/think``, ``/file`` and ``/model``: turns that go on, or again."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

import click

from edgedec.cli.services import services
from edgedec.cli.slash.context import Context
from edgedec.cli.window.added_file import AddedFile
from edgedec.core.errors import ContextFullError, NotFoundError, UsageError
from edgedec.core.units import size

SEEDS = 1_000_000
"""A chat draws one of so many, short enough to type again."""
_MOST_FILE_BYTES = 4_000_000


def more(context: Context, argument: str) -> None:
    """Continue a reply that was cut."""
    chat = context.chat
    before = chat.messages[-1].content if chat.messages else ""
    context.window.show(chat.more, before=before)


def retry(context: Context, argument: str) -> None:
    """Answer the last turn once more, with another seed if chance plays a part."""
    window, chat = context.window, context.chat
    text = chat.take_back()
    if not chat.settings.params.greedy:
        window.draw_with({"seed": secrets.randbelow(SEEDS)})
    try:
        window.show(lambda: chat.reply(text))
    except BaseException:
        window.draft = text
        raise


def edit(context: Context, argument: str) -> None:
    """Take the last turn back into the editor."""
    if not context.window.interactive:
        raise UsageError("/edit needs a terminal")
    context.window.draft = context.chat.take_back()


def think(context: Context, argument: str) -> None:
    """Show the thinking part of the last reply, or turn thinking on or off for the next ones."""
    if argument:
        if argument not in ("on", "off"):
            raise UsageError(
                f"/think cannot be {argument}", hint="it is on or off, or alone shows the last one"
            )
        context.chat.think(argument == "on")
        context.say(f"Replies {'think first' if argument == 'on' else 'answer at once'} from now on.")
        return
    if (thought := context.window.thought) is None:
        raise UsageError("the last reply has no thinking part")
    for line in thought.text.strip().splitlines():
        context.say(line)


def file(context: Context, argument: str) -> None:
    """Add a text file to the next turn."""
    files = context.window.files
    if argument == "-":
        files.clear()
        context.say("The next message goes without files.")
        return
    path = Path(argument).expanduser()
    text = _text_of(path)
    tokens = _count(context, path, text)
    taken = sum(one.tokens for one in files) + tokens
    if taken >= context.model.context:
        raise _too_large(context, path, f"has {tokens} tokens")
    files.append(AddedFile(path.name, text, tokens))
    context.say(f"{path.name}, {tokens} tokens, goes with the next message.")


def _text_of(path: Path) -> str:
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise UsageError(f"{path} is a folder", hint="/file takes a text file")
        if not stat.S_ISREG(about.st_mode):
            raise UsageError(f"{path} is no file", hint="/file takes a text file")
        if about.st_size > _MOST_FILE_BYTES:
            raise UsageError(f"{path} has {size(about.st_size)}, too much for a turn")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8 (byte {error.start})") from error
    if "\0" in text:
        raise UsageError(f"{path} is no text: it has zero bytes")
    if not text.strip():
        raise UsageError(f"{path} is empty")
    return text


def _count(context: Context, path: Path, text: str) -> int:
    prompts = context.chat.prompts
    try:
        prompts.check(text)
        return len(context.chat.tokenizer.encode(text, add_bos=False, limits=prompts.limits))
    except ContextFullError as error:
        raise _too_large(context, path, "is too long") from error


def _too_large(context: Context, path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} {why}, and the context holds {context.model.context}",
        hint="name a shorter file, or start with a larger --context",
    )


def model(context: Context, argument: str) -> None:
    """Show the model, or go on with another one."""
    if not argument:
        context.say(f"{context.model.name}; installed: {', '.join(installed([])) or 'none'}")
        return
    context.window.switch(argument)
    window = context.window
    context.say(f"{window.model.name}, {window.model.context} tokens of context.")
    if window.chat.messages:
        context.say("The conversation goes on; it is read again with the next message.")


def installed(words: list[str]) -> Iterable[str]:
    """Return the names of installed models."""
    return [one.name for one in services(click.get_current_context()).store().list()]
