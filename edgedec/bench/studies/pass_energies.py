"""Joules a token of passes over k tokens: measured where the machine has a meter, and else estimated."""

from __future__ import annotations

from collections.abc import Callable

from edgedec.bench.harness.energy import EnergyProbe, TokenEnergy
from edgedec.bench.studies.energies import Energies
from edgedec.metrics.traffic import Traffic, Work


class PassEnergies:
    """Reads the meter of ``probe`` around passes."""

    def __init__(self, probe: EnergyProbe) -> None:
        self._probe = probe
        self._joules: dict[int, list[float | None]] = {}

    def around(self, tokens: int, run: Callable[[], float]) -> float:
        """Run a pass over ``tokens``, which returns its seconds; so does this."""
        with self._probe.watch() as watch:
            seconds = run()
        self._joules.setdefault(tokens, []).append(watch.last(seconds))
        return seconds

    def found(self, traffic: Traffic, resident: int, window: int) -> Energies:
        """Return the joules a token by the tokens of a pass, behind ``resident`` slots of the KV cache.

        The first pass of each size warms up, and does not count. ``window``: see ``Work.plus``.
        """
        if (probe := self._probe).meter:
            joules = {tokens: self._mean(tokens) for tokens in self._joules}
            if all(one > 0.0 for one in joules.values()):
                each = {str(k): TokenEnergy(probe.source, False, one / k) for k, one in joules.items()}
                return Energies(each)
        each = {
            str(k): TokenEnergy.estimated_of(traffic, Work().plus(k, resident + k, window), k)
            for k in self._joules
        }
        return Energies(each, probe.reason or f"{probe.source} is too slow for single passes")

    def _mean(self, tokens: int) -> float:
        """Return the mean joules of a pass; 0 where some were not measured."""
        known = [one for one in self._joules[tokens][1:] if one is not None]
        whole = len(known) == len(self._joules[tokens]) - 1 > 0
        return sum(known) / len(known) if whole else 0.0
