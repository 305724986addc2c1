"""Options for the form that a reply must have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgedec.cli.command import TEXT, declared, option
from edgedec.cli.options import read_text_file
from edgedec.core.quick_dataclass import dataclass

if TYPE_CHECKING:
    from edgedec.grammar import GrammarSpec

FORM = "Form of the reply"
"""The heading of these options."""
_FILE = click.Path(path_type=Path)


def _read(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    return None if path is None else read_text_file(path, "form of a reply")


@dataclass(frozen=True, slots=True)
class FormOptions:
    """The form of replies; one of them at most."""

    # fmt: off
    json_schema: str | None = declared(option(
        "--json-schema", type=_FILE, callback=_read, metavar="FILE", heading=FORM,
        help="The reply is JSON that the schema in this file allows, or the command fails.",
    ))
    regex: str | None = declared(option(
        "--regex", type=TEXT, metavar="PATTERN", heading=FORM, rare=True,
        help="The reply is a text that this regular expression matches as a whole.",
    ))
    grammar: str | None = declared(option(
        "--grammar", type=_FILE, callback=_read, metavar="FILE", heading=FORM, rare=True,
        help="The reply is a text of the grammar in this file, in Lark's form.",
    ))
    # fmt: on

    def spec(self) -> GrammarSpec | None:
        """Return the form; None for any text. Raises UsageError for a wrong one."""
        from edgedec.grammar import GrammarSpec

        if self.json_schema is not None:
            return GrammarSpec.json_schema(self.json_schema)
        if self.regex is not None:
            return GrammarSpec.regex(self.regex)
        return None if self.grammar is None else GrammarSpec.lark(self.grammar)
