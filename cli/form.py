"""Options for the form that a reply must have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli.command import TEXT, declared, option
from edgedec.cli.options import REPLY, read_text_file
from edgedec.cli.progress import notice
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.grammar import GrammarSpec
    from edgedec.sampling import DrawParams

_UNBIASED, _REGEX, _JSON = "unbiased:", "regex:", ".json"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a reply as it was given: a regular expression, or the text of a file and its name.

    ``unbiased``: replies have the model's own law, given that form.
    """

    text: str
    name: str = ""
    unbiased: bool = False

    def spec(self) -> GrammarSpec:
        """Return the form. Raises UsageError for a wrong one."""
        from edgedec.grammar import GrammarSpec

        form = self._form(GrammarSpec)
        return replace(form, sampling="unbiased") if self.unbiased else form

    def _form(self, kinds: type[GrammarSpec]) -> GrammarSpec:
        if not self.name:
            return kinds.regex(self.text)
        return kinds.json_schema(self.text) if self.name.endswith(_JSON) else kinds.lark(self.text)


def read_form(ctx: click.Context, param: click.Parameter, given: str | None) -> Form | None:
    """Return the form that an option names. Raises NotFoundError, BadFileError."""
    if given is None:
        return None
    unbiased, name = given.startswith(_UNBIASED), given.removeprefix(_UNBIASED)
    if name.startswith(_REGEX):
        return Form(name.removeprefix(_REGEX), unbiased=unbiased)
    return Form(read_text_file(Path(name), "form of a reply"), name, unbiased)


@dataclass(frozen=True, slots=True)
class FormOptions:
    """The form of replies."""

    # fmt: off
    form: Form | None = declared(option(
        "--form", type=TEXT, callback=read_form, metavar="FORM", heading=REPLY,
        help="The reply has this form, or the command fails: FILE.json, a JSON schema; regex:PATTERN, a text "
        "that the regular expression matches as a whole; another file, a grammar in Lark's form. Each token "
        "is drawn among those that it allows. With unbiased: before it, replies are as likely as free ones "
        "that have the form: tried until one has it, and drawn by temperature alone.",
    ))
    # fmt: on

    def spec(self) -> GrammarSpec | None:
        """Return the form; None for any text. Raises UsageError for a wrong one."""
        return None if self.form is None else self.form.spec()


def say_law(form: GrammarSpec | None, params: DrawParams) -> None:
    """Tell of the settings that an unbiased form leaves out."""
    if form is None or form.sampling == "masked":
        return
    from edgedec.session.unbiased import left_out

    if names := [name.replace("_", "-") for name in left_out(params)]:
        drawn = f"replies are drawn at temperature {params.temperature:g} alone"
        notice(f"note: {drawn}, without {', '.join(names)}")
