"""Options for the form that a reply must have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli.command import TEXT, declared, option
from edgedec.cli.options import REPLY, read_text_file
from edgedec.cli.progress import notice
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.grammar import GrammarSpec
    from edgedec.sampling import DrawParams

_REGEX, _JSON = "regex:", ".json"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a reply as it was given: a regular expression, or the text of a file and its name."""

    text: str
    name: str = ""

    def spec(self) -> GrammarSpec:
        """Return the form. Raises UsageError for a wrong one."""
        from edgedec.grammar import GrammarSpec

        if not self.name:
            return GrammarSpec.regex(self.text)
        if self.name.endswith(_JSON):
            return GrammarSpec.json_schema(self.text)
        return GrammarSpec.lark(self.text)


def read_form(ctx: click.Context, param: click.Parameter, given: str | None) -> Form | None:
    """Return the form that an option names. Raises NotFoundError, BadFileError."""
    if given is None:
        return None
    if given.startswith(_REGEX):
        return Form(given.removeprefix(_REGEX))
    return Form(read_text_file(Path(given), "form of a reply"), given)


@dataclass(frozen=True, slots=True)
class FormOptions:
    """The form of replies."""

    # fmt: off
    form: Form | None = declared(option(
        "--form", type=TEXT, callback=read_form, metavar="FORM", heading=REPLY,
        help="The reply has this form, or the command fails: FILE.json, a JSON schema; regex:PATTERN, a text "
        "that the regular expression matches as a whole; another file, a grammar in Lark's form.",
    ))
    form_sampling: str | None = declared(option(
        "--form-sampling", type=click.Choice(["masked", "unbiased"]), metavar="LAW", heading=REPLY, rare=True,
        help="How a form is kept to. masked, the default: each token is drawn among those that it allows. "
        "unbiased: replies as likely as free ones that have the form, tried until one has it and drawn by "
        "temperature alone.",
    ))
    # fmt: on

    def spec(self) -> GrammarSpec | None:
        """Return the form; None for any text. Raises UsageError for a wrong one, or a law without one."""
        from edgedec.grammar import GrammarSpec

        if self.form is None and self.form_sampling is None:
            return None
        if self.form is None:
            raise UsageError("--form-sampling is given without --form", hint="add --form, or leave it out")
        return GrammarSpec.of(grammar=self.form.spec(), form_sampling=self.form_sampling)  # type: ignore[arg-type]


def say_law(form: GrammarSpec | None, params: DrawParams) -> None:
    """Tell of the settings that an unbiased form leaves out."""
    if form is None or form.sampling == "masked":
        return
    from edgedec.session.unbiased import left_out

    if names := [name.replace("_", "-") for name in left_out(params)]:
        drawn = f"replies are drawn at temperature {params.temperature:g} alone"
        notice(f"note: {drawn}, without {', '.join(names)}")
