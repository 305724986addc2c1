"""The model and the prompt as plain arguments, beside the options that name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from edgedec.cli import options as opt
from edgedec.cli.command import is_utf8
from edgedec.core.errors import UsageError
from edgedec.models.names import exists, recipe_name

MODEL = "[MODEL]"
PROMPT = "[PROMPT]"
_MOST_SHOWN = 60


def model_first(command: Callable[..., Any]) -> Callable[..., Any]:
    """Take the model as the first argument or with -m; the command receives it as ``model``.

    Text with a space in that place begins the prompt, where the command takes one as ``words``.
    """

    @wraps(command)
    def with_model(*args: Any, named: str | None, model: str, **others: Any) -> Any:
        if named and any(map(str.isspace, named)) and not exists(named):
            if "words" not in others:
                raise UsageError(f"no model is named {named[:_MOST_SHOWN]!r}", hint="the model comes first")
            if not is_utf8(named):
                raise UsageError("the prompt is not UTF-8 text", hint="convert it, or give it in a file")
            named, others["words"] = None, (named, *others["words"])  # no model has such a name: a prompt
        source = click.get_current_context().get_parameter_source("model")
        if named is not None and source is ParameterSource.COMMANDLINE and named != model:
            raise UsageError(f"two models are given, {named} and -m {model}", hint="leave one out")
        return command(*args, model=model if named is None else named, **others)

    complete = opt.complete_model
    named = click.argument("named", required=False, metavar=MODEL, shell_complete=complete)
    return named(opt.model_option(with_model))


def one_prompt(words: tuple[str, ...], option: str | None) -> str | None:
    """Return the prompt that is an argument or the value of -p; None without one.

    Raises UsageError for both, for several arguments, and for the name of a model.
    """
    if words and recipe_name(words[0]):
        command = click.get_current_context().command
        any_prompt = "; -p takes any prompt" if any("-p" in one.opts for one in command.params) else ""
        raise UsageError(
            f"{words[0]} is a model, not a prompt",
            hint=f'as in `edgedec {command.name} -m {words[0]} "Hello"`{any_prompt}',
        )
    if len(words) > 1:
        raise UsageError(
            f"one prompt is expected, not {len(words)} arguments",
            hint="put the prompt in quotes; the model goes with -m",
        )
    if words and option is not None:
        raise UsageError("two prompts are given, one of them with -p", hint="leave one out")
    return words[0] if words else option
