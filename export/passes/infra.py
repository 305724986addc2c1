"""The interface of graph passes, and their runner.

A pass changes the graph in place, reports whether it changed anything, and checks its pre- and
post-condition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from edgedec.core.errors import EdgeDecError
from edgedec.export.model import ExportModel


class PassError(EdgeDecError):
    """A graph pass found or left an invalid graph: a fault of the exporter, not of the model file."""


class Pass(ABC):
    """One rewrite of the graph. ``requires`` and ``ensures`` raise PassError."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def requires(self, model: ExportModel) -> None:
        """Check the pre-condition; by default, that the graph is well formed."""
        check_well_formed(model)

    @abstractmethod
    def call(self, model: ExportModel) -> bool:
        """Rewrite ``model`` in place; return True if something changed."""

    def ensures(self, model: ExportModel) -> None:
        """Check the post-condition; by default, that the graph is well formed."""
        check_well_formed(model)


def run_passes(model: ExportModel, passes: Sequence[Pass]) -> list[str]:
    """Run ``passes`` in order and return the names of those that modified the model.

    Raises PassError, which names the pass, whether it failed before or after, and the passes run earlier.
    """
    modified: list[str] = []
    for position, step in enumerate(passes):
        stage = "before"
        try:
            step.requires(model)
            changed = step.call(model)
            stage = "after"
            step.ensures(model)
        except PassError as error:
            done = ", ".join(p.name for p in passes[:position]) or "none"
            raise PassError(
                f"{stage} pass {step.name}: {error.message}", hint=f"passes already run: {done}"
            ) from error
        if changed:
            modified.append(step.name)
    return modified


def check_well_formed(model: ExportModel) -> None:
    """Check that inputs exist before their use, values are computed once, and all weights are used."""
    known = {value.name for value in model.inputs} | model.weights.keys() | {""}
    for node in model.nodes:
        for name in node.input:
            if name not in known:
                raise PassError(f"node {node.name} reads {name!r}, which nothing before it computes")
        for name in node.output:
            if name in known:
                raise PassError(f"value {name!r} is computed twice")
            known.add(name)
    for value in model.outputs:
        if value.name not in known:
            raise PassError(f"output {value.name!r} is not computed")
    if unused := model.weights.keys() - model.uses().keys():
        raise PassError(f"weight {min(unused)!r} is not used")
