"""Arguments of a reply that a call names one by one: values of sampling, and the form that it must have."""

from __future__ import annotations

from typing import Unpack

from edgedec.grammar.spec import GrammarChoice, GrammarSpec, chosen_grammar
from edgedec.sampling import DrawParams
from edgedec.sampling.named import Sampling, SamplingArguments, SamplingParams, params_of


class ReplyArguments(GrammarChoice, SamplingArguments, total=False):
    """Values of sampling as in ``SamplingParams``, and one of ``schema``, ``regex`` and ``grammar``."""


def read_arguments(
    sampling: Sampling | None, **named: Unpack[ReplyArguments]
) -> tuple[SamplingParams | DrawParams | None, GrammarSpec | None]:
    """Return how tokens are drawn, ``sampling`` with the values of ``named`` on top, and the form.

    None stands for what is not named. Raises UsageError as ``params_of`` and ``chosen_grammar`` do, and
    TypeError for a name that is no argument.
    """
    values = {name: value for name, value in named.items() if name in SamplingArguments.__annotations__}
    form = {name: value for name, value in named.items() if name not in values}
    return params_of(sampling, values), chosen_grammar(**form)
