"""The commands inside a chat, in one table: names, functions, help."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from edgedec.cli import screen
from edgedec.cli.slash import settings, stats, turns
from edgedec.cli.slash.context import FILE, Context, Quit, SlashCommand
from edgedec.cli.window.recall import turns as turns_of
from edgedec.core.errors import UsageError

_KEYS = (
    'Enter sends, Alt-Enter begins a new line; text between """ and """ may have many lines. '
    "Tab completes commands and names. Ctrl-C stops a reply, Ctrl-D quits."
)


def run(line: str, context: Context) -> None:
    """Carry out a line that begins with a slash. Raises UsageError for an unknown command, Quit to leave."""
    name, _, argument = line[1:].partition(" ")
    command = find(name)
    if command is None:
        raise unknown(name, [*COMMANDS, *ALIASES])
    if command.argument == FILE and not argument.strip():
        raise UsageError(
            f"/{name} needs the name of a file", hint=f"{command.help}, as in /{name} {_FILES[name]}"
        )
    command.run(context, argument.strip())


def unknown(name: str, names: Sequence[str]) -> UsageError:
    """Return the error for a command that there is not, with those of ``names`` that are near."""
    near = get_close_matches(name.lower(), names, n=2)
    meant = f"did you mean {' or '.join(f'/{one}' for one in near)}? " if near else ""
    instead = _ELSEWHERE.get(name.lower(), meant)
    return UsageError(
        f"unknown command /{name}",
        hint=f"{instead}/help lists them; begin with a space to send the text as it is",
    )


def find(name: str) -> SlashCommand | None:
    """Return the command of that name, or None."""
    name = name.strip().lower()
    return COMMANDS.get(ALIASES.get(name, name))


def _help(context: Context, argument: str) -> None:
    screen.pairs([(f"/{name} {one.argument}".rstrip(), one.help) for name, one in COMMANDS.items()])
    screen.aside(_KEYS, indent=0)


def _reset(context: Context, argument: str) -> None:
    context.chat.reset()
    context.say("The conversation starts over.")


def _save(context: Context, argument: str) -> None:
    path = Path(argument).expanduser()
    context.chat.save(path)
    context.window.note_saved()
    context.say(f"Saved {turns_of(context.chat)} to {path}.")


def _load(context: Context, argument: str) -> None:
    path = Path(argument).expanduser()
    if context.window.kept_in is not None:
        hint = f"start another chat with --session {path}"
        raise UsageError(f"this chat is kept in {context.window.kept_in}, and would replace it", hint=hint)
    context.chat.restore(path)
    context.model.make_room_for(context.chat.settings.params)
    params = context.chat.settings.params
    drawn = f"temperature {params.temperature:g}, seed {params.seed}"
    context.say(f"Loaded {turns_of(context.chat)} from {path} ({drawn}).")
    context.window.note_saved()
    context.window.show_last_turn()


def _quit(context: Context, argument: str) -> None:
    if context.window.warns_of_loss():
        context.say("Not saved: /save FILE keeps the conversation, /quit once more leaves it.")
        return
    raise Quit


ALIASES = {
    "?": "help", "again": "retry", "bye": "quit", "clear": "reset", "continue": "more", "exit": "quit",
    "new": "reset", "q": "quit", "read": "file", "regen": "retry", "regenerate": "retry", "undo": "edit",
}  # fmt: skip
"""Other names, as people type them."""
_ELSEWHERE = {"copy": "the terminal copies what you mark, and /save FILE writes the conversation; "}
"""Commands of other programs that nothing here does, and what to do instead."""
_FILES = {"file": "notes.txt", "save": "talk", "load": "talk"}
"""Names of files for an example."""

COMMANDS = {
    "help": SlashCommand("", "show this list", _help),
    "more": SlashCommand("", "continue a reply that was cut", turns.more),
    "retry": SlashCommand("", "answer the last message again, with another seed", turns.retry),
    "edit": SlashCommand("", "change your last message and send it again", turns.edit),
    "file": SlashCommand(FILE, "put a text file into the next message (- takes all out)", turns.file),
    "think": SlashCommand(
        "[on|off]",
        "show the thinking part of the last reply; on or off: let the next ones think, or not",
        turns.think,
        lambda words: ("on", "off"),
    ),
    "set": SlashCommand(
        "[NAME VALUE]",
        f"show or change {', '.join(settings.SETTINGS)}",
        settings.command,
        settings.complete,
    ),
    "system": SlashCommand("[TEXT]", "show or set the system message (- removes it)", settings.system),
    "model": SlashCommand("[NAME]", "go on with another model", turns.model, turns.installed),
    "save": SlashCommand(FILE, "save the conversation and its cache", _save),
    "load": SlashCommand(FILE, "continue a saved conversation", _load),
    "reset": SlashCommand("", "forget the conversation, keep the system message; also /clear", _reset),
    "stats": SlashCommand(
        "[all]",
        "show tokens, speed and memory of this chat so far; all: every figure",
        stats.stats,
        lambda words: (stats.ALL,),
    ),
    "trace": SlashCommand(
        "on|off", "show which tokens were drafted, and by whom", stats.trace, lambda words: ("on", "off")
    ),
    "quit": SlashCommand("", "leave; also /exit, /bye, Ctrl-D", _quit),
}
