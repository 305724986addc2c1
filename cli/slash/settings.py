"""``/set`` and ``/system``: how replies are drawn, how long they may be, how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches

from edgedec.cli import screen
from edgedec.cli.opening import no_system
from edgedec.cli.sampling_options import COMMON, RARE, kind_of
from edgedec.cli.slash.context import Context
from edgedec.cli.window.recall import count_turns
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling import DrawParams

_OFF = ("off", "none")
_LEAST_CELLS = 16
"""Most values are short."""


@dataclass(frozen=True)
class Setting:
    """A value with a name. ``change`` raises UsageError for a word that it cannot take."""

    help: str
    show: Callable[[Context], str]
    change: Callable[[Context, str], None]
    words: tuple[str, ...] = ()
    """Values that it takes, if they are few."""
    off: str = ""
    """The value that the list of all settings leaves out."""


def command(context: Context, argument: str) -> None:
    """Show all values, show one, or change one."""
    name, _, value = argument.partition(" ")
    name, value = name.lower().replace("_", "-"), value.strip()
    if not name:
        values = [(one, setting.show(context), setting.off) for one, setting in SETTINGS.items()]
        screen.pairs([(one, value) for one, value, off in values if value != off], least=_LEAST_CELLS)
        return
    if (found := SETTINGS.get(name)) is None:
        near = get_close_matches(name, SETTINGS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"/set knows {', '.join(SETTINGS)}"
        raise UsageError(f"there is no setting {name}", hint=hint)
    if value:
        found.change(context, value)
    if not value or name != "system":
        context.say(f"{name} {found.show(context)}" + ("" if value else f" ({found.help})"))


def complete(words: list[str]) -> Iterable[str]:
    """Return the names of settings, or the values of one."""
    if len(words) < 2:
        return SETTINGS
    return SETTINGS[words[0]].words if words[0] in SETTINGS else ()


def system(context: Context, argument: str) -> None:
    """Show, set or remove the system message."""
    if not argument:
        context.say(f"System message: {context.chat.system or 'none'}")
        return
    if context.model.loaded.template is None:
        raise no_system(context.model)
    context.chat.set_system(None if argument == "-" else argument)
    change = "removed" if argument == "-" else "set"
    kept = "; the conversation is read again with the next message" if count_turns(context.chat) else ""
    context.say(f"System message {change}{kept}.")


def _number(name: str, help_text: str) -> Setting:
    field, kind = name.replace("-", "_"), kind_of(name)

    def change(context: Context, word: str) -> None:
        try:
            value = kind(word)
        except ValueError as error:
            whole = "a whole number" if kind is int else "a number"
            raise UsageError(f"{name} cannot be {word}", hint=f"it is {whole}") from error
        context.window.draw_with({field: value})

    return Setting(help_text, lambda context: f"{getattr(context.chat.settings.params, field):g}", change)


def _rare(name: str, help_text: str) -> Setting:
    """Make a setting that few people use: the list of all settings has it while it is on."""
    off = getattr(DrawParams(), name.replace("-", "_"))
    return replace(_number(name, help_text), off=f"{off:g}")


def _seed(context: Context) -> str:
    params = context.chat.settings.params
    return str(params.seed) + (" (without effect at temperature 0)" if params.greedy else "")


def _max_tokens(context: Context, word: str) -> None:
    if word in _OFF:
        context.chat.adjust(max_tokens=None)
    elif word.isascii() and word.isdigit() and int(word):
        context.chat.adjust(max_tokens=int(word))
    else:
        raise UsageError(f"max-tokens cannot be {word}", hint="it is a whole number above 0, or off")


def _choice(field: str, yes: str, no: str, help_text: str) -> Setting:
    """Make a setting of ``Look`` with two values."""

    def change(context: Context, word: str) -> None:
        if word not in (yes, no):
            raise UsageError(f"{word} is not one of its values", hint=f"they are {yes} and {no}")
        setattr(context.window.look, field, word == yes)

    def show(context: Context) -> str:
        return yes if getattr(context.window.look, field) else no

    return Setting(help_text, show, change, (yes, no))


SETTINGS = {
    "temperature": _number("temperature", "0 always takes the most probable token"),
    **{name: _number(name, text) for name, text in COMMON.items()},
    **{name: _rare(name, text) for name, text in RARE.items()},
    "seed": replace(_number("seed", "same seed, same replies"), show=_seed),
    "max-tokens": Setting(
        "longest reply; off: as long as the context allows",
        lambda context: str(context.chat.settings.max_tokens or "off"),
        _max_tokens,
        ("off",),
    ),
    "system": Setting("- removes the message", lambda context: context.chat.system or "none", system),
    "markdown": _choice("markdown", "on", "off", "render replies, or show their text as it is"),
    "think": _choice("fold", "fold", "show", "a thinking part becomes one line when it ends, or stays"),
}
