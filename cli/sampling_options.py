"""The options that say how tokens are drawn, and the names of the rare values behind ``--sampling``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from difflib import get_close_matches

import click

from edgedec.cli.command import declared, option
from edgedec.cli.options import REPLY
from edgedec.core.errors import UsageError
from edgedec.sampling.named import SamplingParams

RARE = {
    "top-n-sigma": ("N", "keep logits within N deviations of the best (0: all)"),
    "typical": ("P", "keep tokens nearest to the entropy, up to P (1: all)"),
    "eta": ("E", "keep tokens above E, or less where unsure (0: all)"),
    "top-h": ("A", "keep the best that have A of the entropy (1: all)"),
    "mirostat": ("B", "hold the surprise near B bits (0: off)"),
    "mirostat-eta": ("R", "how fast mirostat follows: 0.1, up to 1"),
    "edt": ("X", "temperature * 0.8^(X / entropy) (0: off)"),
    "frequency-penalty": ("F", "lower tokens of the reply by F each time (-2 to 2)"),
    "presence-penalty": ("F", "lower tokens of the reply by F (-2 to 2, 0: off)"),
}
"""By name: the letter of the value in help, and its meaning."""
_OWN = ("temperature", "top-k", "top-p", "min-p", "repetition-penalty", "seed")
"""Values that have an option each."""


def read_values(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """Return the values by field of ``SamplingParams``. Raises UsageError."""
    found: dict[str, float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().lower().replace("_", "-")
        if name not in RARE:
            raise _unknown(name)
        if (of := name.replace("-", "_")) in found:
            raise UsageError(f"--sampling names {name} twice", hint="give it once")
        try:
            found[of] = float(value)
        except ValueError as error:
            given_value = f"{value[:40]!r}" if equals else "nothing"
            raise UsageError(
                f"{name} is a number, not {given_value}", hint=f"as in --sampling {name}={_example(name)}"
            ) from error
    return found


def _unknown(name: str) -> UsageError:
    if name in _OWN:
        return UsageError(f"{name} has an option of its own", hint=f"give --{name}")
    near = get_close_matches(name, RARE, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(RARE)}"
    return UsageError(f"--sampling knows no {name[:40]!r}", hint=hint)


def _example(name: str) -> str:
    return "0.5" if RARE[name][0] in "PFRXA" else "2" if name != "eta" else "0.01"


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}=" for name in RARE if name.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the tokens of a reply are drawn; None: as the model's preset says."""

    # fmt: off
    temperature: float | None = declared(option(
        "--temperature", type=float, metavar="T", heading=REPLY,
        help="0 always takes the most probable token, 1 draws from the model's own distribution (default: as "
        "the model's preset says).",
    ))
    seed: int | None = declared(option(
        "--seed", type=int, metavar="S", heading=REPLY,
        help="Same seed, prompt and settings: same reply (default: 0; a chat draws one).",
    ))
    greedy: bool = declared(option(
        "--greedy", is_flag=True, heading=REPLY, rare=True,
        help="Always take the most probable token; the same as --temperature 0.",
    ))
    top_k: int | None = declared(option(
        "--top-k", type=int, metavar="K", heading=REPLY, rare=True, help="Keep the K most probable (0: all)."
    ))
    top_p: float | None = declared(option(
        "--top-p", type=float, metavar="P", heading=REPLY, rare=True,
        help="Keep the most probable tokens that together reach P (1: all).",
    ))
    min_p: float | None = declared(option(
        "--min-p", type=float, metavar="P", heading=REPLY, rare=True,
        help="Keep tokens at least P times as probable as the best one (0: all).",
    ))
    repetition_penalty: float | None = declared(option(
        "--repetition-penalty", type=float, metavar="R", heading=REPLY, rare=True,
        help="Above 1, tokens that have occurred become less probable (1: off).",
    ))
    values: dict[str, float] = declared(option(
        "--sampling", "values", multiple=True, callback=read_values, shell_complete=_names,
        metavar="NAME=VALUE", heading="Rarely used sampling", rare=True,
        help="One of the values below; may be given several times.",
        rows={f"{name}={letter}": text for name, (letter, text) in RARE.items()},
    ))
    # fmt: on

    def named(self) -> SamplingParams:
        """Return the values that are named; greedy decoding is temperature 0.

        Raises UsageError for options that contradict each other, and for a value out of range.
        """
        if self.greedy and self.temperature:
            raise UsageError(
                f"--greedy contradicts --temperature {self.temperature:g}", hint="leave one of them out"
            )
        known = {one.name for one in fields(SamplingParams)}
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name in known}
        values |= self.values
        return SamplingParams(**(values | {"temperature": 0.0} if self.greedy else values))
