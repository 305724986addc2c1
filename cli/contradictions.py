"""Options that contradict each other: refused, because one of them would be ignored in silence.

A value that changes nothing is no contradiction: a seed beside the temperature 0, for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """An option by its parameter's name, and the other options that leave it no meaning."""

    given: str
    against: Callable[[Options], bool]
    message: str
    hint: str


def _no_drafts(options: Options) -> bool:
    return bool(options.get("draft") == "off")


def _nothing_to_trace(options: Options) -> bool:
    return _no_drafts(options) and not _two_models(options)


def _two_models(options: Options) -> bool:
    return bool(options.get("switch"))


def _raw(options: Options) -> bool:
    return bool(options.get("raw"))


def _gap(options: Options) -> bool:
    return options.get("suffix") is not None


def _no_thought(options: Options) -> bool:
    return options.get("thinking") is False


def _no_json(options: Options) -> bool:
    return not options["as_json"]


_ONE = "leave one out"
_TWO_MODELS = "structured output is for one model, and there are two"
RULES = (
    Rule("trace", _nothing_to_trace, "--trace shows drafts, and --draft off makes none", _ONE),
    Rule("system", _raw, "--system has no place in a raw prompt", "leave out --raw or --system"),
    Rule("template", _raw, "--template has no place in a raw prompt", "leave out --raw or --template"),
    Rule("thinking", _raw, "--think and --no-think have no place in a raw prompt", "leave one out"),
    Rule("prompt_keep", _raw, "--prompt-keep needs a question, and --raw has none", _ONE),
    Rule("prompt_keep", _gap, "--prompt-keep needs a question, and --suffix has none", _ONE),
    Rule("context_weight", _gap, "--context-weight needs a question, and --suffix has none", _ONE),
    Rule("context_weight", _two_models, "--context-weight is for one model, and there are two", _ONE),
    Rule("think_tokens", _raw, "--think-tokens has no place in a raw prompt", _ONE),
    Rule("think_tokens", _no_thought, "--no-think leaves no thought that --think-tokens could close", _ONE),
    Rule("think_tokens", _two_models, "--think-tokens is for one model, and there are two", _ONE),
    Rule("logprobs", _two_models, "--logprobs are those of one model, and there are two", _ONE),
    Rule("form", _two_models, _TWO_MODELS, _ONE),
    Rule("logprobs", _no_json, "--logprobs is for --json", "add --json"),
)


def refuse(ctx: click.Context) -> None:
    """Raise UsageError if options of this command line contradict each other."""
    for rule in RULES:
        if ctx.get_parameter_source(rule.given) is ParameterSource.COMMANDLINE and rule.against(ctx.params):
            raise UsageError(rule.message, hint=rule.hint)
