"""The options that say how tokens are drawn: three of their own, and ``--sampling`` with every other name."""

from __future__ import annotations

from collections.abc import Callable

import click

from edgedec.cli.command import declared, option
from edgedec.cli.options import REPLY
from edgedec.core.errors import UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.sampling.named import SamplingParams

COMMON = {
    "top-k": "keep so many of the most probable tokens (0: all)",
    "top-p": "keep the most probable tokens that together reach it (1: all)",
    "min-p": "keep tokens so probable beside the best one (0: all)",
    "repetition-penalty": "above 1, tokens that occurred come less (1: off)",
}
"""Values that a chat always shows, and their meaning."""
RARE = {
    "top-n-sigma": "keep logits within so many deviations of the best (0: all)",
    "typical": "keep tokens nearest to the entropy, up to this probability (1: all)",
    "eta": "keep tokens above it, or less where unsure (0: all)",
    "top-h": "keep the best that have this share of the entropy (1: all)",
    "mirostat": "hold the surprise near so many bits (0: off)",
    "mirostat-eta": "how fast mirostat follows: 0.1, up to 1",
    "edt": "temperature * 0.8^(edt / entropy) (0: off)",
    "frequency-penalty": "lower tokens of the reply by this each time (-2 to 2)",
    "presence-penalty": "lower tokens of the reply by this (-2 to 2, 0: off)",
}
"""Values that a chat shows while they are on, and their meaning."""
NAMED = COMMON | RARE
_OWN = ("temperature", "seed")
"""Values that have an option each."""


def kind_of(name: str) -> Callable[[str], float]:
    """Return the function that reads the value of a name."""
    return int if name in ("top-k", "seed") else float


def read_values(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """Return the values by field of ``SamplingParams``. Raises UsageError."""
    found: dict[str, float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().lower().replace("_", "-")
        if name not in NAMED:
            raise _unknown(name)
        if (of := name.replace("-", "_")) in found:
            raise UsageError(f"--sampling names {name} twice", hint="give it once")
        try:
            found[of] = kind_of(name)(value)
        except ValueError as error:
            given_value = f"{value[:40]!r}" if equals else "nothing"
            whole = "a whole number" if kind_of(name) is int else "a number"
            raise UsageError(
                f"{name} is {whole}, not {given_value}", hint=f"as in --sampling {name}={_example(name)}"
            ) from error
    return found


def in_place_of(option_name: str) -> str | None:
    """Return the option that does what one of this name would do; None where there is none."""
    name = option_name.lstrip("-").replace("_", "-")
    if name == "greedy":
        return "--temperature 0"
    return f"--sampling {name}={_example(name)}" if name in NAMED else None


def _unknown(name: str) -> UsageError:
    if name in _OWN:
        return UsageError(f"{name} has an option of its own", hint=f"give --{name}")
    from difflib import get_close_matches

    near = get_close_matches(name, NAMED, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMED)}"
    return UsageError(f"--sampling knows no {name[:40]!r}", hint=hint)


def _example(name: str) -> str:
    return {"top-k": "40", "top-p": "0.9", "min-p": "0.1", "repetition-penalty": "1.1"}.get(
        name, "0.01" if name == "eta" else "2" if name in ("top-n-sigma", "mirostat") else "0.5"
    )


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}=" for name in NAMED if name.startswith(incomplete)]


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
    values: dict[str, float] = declared(option(
        "--sampling", "values", multiple=True, callback=read_values, shell_complete=_names,
        metavar="NAME=VALUE", heading=REPLY, rare=True,
        help="Another value of how tokens are drawn, such as top-p=0.9 or min-p=0.1; may be given several "
        "times. The guide to sampling has all names.",
    ))
    # fmt: on

    def named(self) -> SamplingParams:
        """Return the values that are named. Raises UsageError for a value out of range."""
        return SamplingParams(temperature=self.temperature, seed=self.seed, **self.values)  # type: ignore[arg-type]
