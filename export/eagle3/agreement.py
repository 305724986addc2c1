"""Measures how often a head agrees with its target as it reads its layers, and others.

Layers are counted in two ways that differ by one, so the neighbours of the layers are measured too, in the
same passes of the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgedec.backends.onnx.head_forward import HeadModel
from edgedec.core.errors import BadFileError
from edgedec.core.quick_dataclass import dataclass
from edgedec.export.drafters.agreement import LEAST, TokenAgreement
from edgedec.export.own_texts import CONTEXT, OwnText, layer_agreement

_MARGIN = 0.05
"""Other layers are taken for the right ones if the head agrees with so many tokens more."""


@dataclass(frozen=True)
class HeadAgreement(TokenAgreement):
    """The agreement of a head as it reads ``taps``, and the shares of tokens as it reads other layers."""

    taps: tuple[int, ...] = ()
    others: tuple[tuple[tuple[int, ...], float], ...] = ()

    def check(self, what: str, name: str, least: float = LEAST) -> None:
        """Raise BadFileError for a head that agrees too seldom, or more often with other layers."""
        rate = self.rate
        best, other = max(((rate, taps) for taps, rate in self.others), default=(0.0, ()))
        if rate >= max(least, best - _MARGIN):
            return
        beside = ""
        if best > rate + _MARGIN:
            beside = f", and with {best:.0%} reading layers {_list(other)}"
        raise BadFileError(
            f"{self.found(what, name)}, reading the outputs of layers {_list(self.taps)}{beside}",
            hint="it was made for another model, or its config.json does not name the layers that it reads "
            "(eagle_aux_hidden_state_layer_ids)",
        )


def layers_to_measure(taps: Sequence[int], layers: int) -> tuple[tuple[int, ...], ...]:
    """Return ``taps`` and, behind them, the layers one below and one above, where the target has them."""
    around = (tuple(tap + step for tap in taps) for step in (0, -1, 1))
    return tuple(one for one in around if min(one) >= 0 and max(one) < layers)


def agreement(
    head: HeadModel, texts: Sequence[OwnText], readings: Sequence[tuple[int, ...]]
) -> HeadAgreement:
    """Return how often ``head`` agrees as it reads the first of ``readings``, and as it reads the others."""
    found = [layer_agreement([head.forward(CONTEXT) for _ in texts], texts, taps) for taps in readings]
    others = tuple((taps, one.rate) for taps, one in zip(readings[1:], found[1:], strict=True))
    return HeadAgreement(found[0].hits, found[0].tokens, readings[0], others)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
