"""The model and the prompt as plain arguments, beside the options that name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from edgedec.cli import options as opt
from edgedec.core.errors import UsageError
from edgedec.models.catalogue import RECIPES
from edgedec.models.names import exists

MODEL = "[MODEL]"
PROMPT = "[PROMPT]"
_MOST_SHOWN = 60


def model_first(command: Callable[..., Any]) -> Callable[..., Any]:
    """Take the model as the first argument or with -m; the command receives it as ``model``."""

    @wraps(command)
    def with_model(*args: Any, named: str | None, model: str, **others: Any) -> Any:
        source = click.get_current_context().get_parameter_source("model")
        if named is not None and source is ParameterSource.COMMANDLINE and named != model:
            raise UsageError(f"two models are given, {named} and -m {model}", hint="leave one out")
        if named and any(map(str.isspace, named)) and not exists(named):
            raise UsageError(
                f"no model is named {named[:_MOST_SHOWN]!r}",
                hint='a prompt alone is for `edgedec generate "..."`; here the model comes first',
            )
        return command(*args, model=model if named is None else named, **others)

    return click.argument("named", required=False, metavar=MODEL)(opt.model_option(with_model))


def one_prompt(words: tuple[str, ...], option: str | None) -> str | None:
    """Return the prompt that is an argument or the value of -p; None without one.

    Raises UsageError for both, for several arguments, and for the name of a model.
    """
    if words and words[0].lower() in RECIPES:
        raise UsageError(
            f"{words[0]} is a model, not a prompt",
            hint=f'as in `edgedec generate -m {words[0]} "Hello"`; -p takes any prompt',
        )
    if len(words) > 1:
        raise UsageError(
            f"one prompt is expected, not {len(words)} arguments",
            hint="put the prompt in quotes; the model goes with -m",
        )
    if words and option is not None:
        raise UsageError("two prompts are given, one of them with -p", hint="leave one out")
    return words[0] if words else option
