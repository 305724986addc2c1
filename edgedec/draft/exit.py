"""Drafting with the target itself, after some of its layers: kernels/core/draft/exit_drafter.h."""

from __future__ import annotations

from collections.abc import Collection
from ctypes import addressof, byref

from edgedec.core.forward import Forward
from edgedec.core.quick_dataclass import dataclass
from edgedec.core_lib import promises
from edgedec.core_lib.draft_room import ints
from edgedec.core_lib.drafters import DRAFTER, CExit, doubts
from edgedec.core_lib.host_forward import HostForward
from edgedec.draft.drafter import DrafterCapabilities
from edgedec.draft.in_core import CoreDrafter
from edgedec.draft.trimmed import TrimmedHead


@dataclass(frozen=True, slots=True)
class LayerSubset:
    """Layers that draft: the first ``exit``, and those behind the first ``resume`` if that is given."""

    exit: int
    resume: int | None = None

    @property
    def name(self) -> str:
        """The name of the drafter that has them."""
        if self.resume is None:
            return exit_name(self.exit)
        return f"skip-{self.exit}-{self.resume}"

    def count(self, last: int) -> int:
        """Return how many layers it runs in a model of ``last``."""
        if self.resume is None:
            return self.exit
        return self.exit + last - self.resume


class ExitDrafter(CoreDrafter):
    """Drafts after the first ``exit`` layers of ``forward``, the target's own.

    ``trimmed``: ids that the head computes while the text consists of them. ``ends``: tokens that nothing
    follows.
    """

    caps = DrafterCapabilities(peeks=True)

    def __init__(
        self,
        forward: Forward,
        exit: int,
        trimmed: TrimmedHead | None = None,
        ends: Collection[int] = (),
        resume: int | None = None,
    ) -> None:
        assert forward.peeking is not None, "a drafter of this kind is for forwards with exits"
        last, spec = forward.caps.exits[-1], forward.spec
        subset = LayerSubset(exit, resume)
        self.name = subset.name
        layer, head = read_bytes(forward)
        host = HostForward(forward, trimmed)
        given = CExit(
            addressof(host.struct), trimmed and trimmed.handle, doubts(), ints(ends), len(ends),
            spec.table_bytes, spec.vocab_size, subset.count(last) * layer, head, exit, resume or 0, last,
        )  # fmt: skip
        super().__init__(DRAFTER.exit_new(byref(given)), host, trimmed=trimmed)


def read_bytes(forward: Forward) -> tuple[float, float]:
    """Bytes that a token reads of a layer with its part of the KV cache, and of the head."""
    spec, held = forward.spec, forward.nbytes()
    heads = spec.head_dim * (2 * spec.n_heads + 2 * spec.n_kv_heads)
    return promises.read_bytes(
        spec.n_layers,
        spec.hidden_size * (heads + 3 * spec.taken / spec.n_layers),
        spec.hidden_size * spec.vocab_size,
        spec.read_bytes(held.get("weights", 0) - spec.table_bytes),
        held.get("kv_cache", 0),
    )


def promising(forward: Forward, trimmed: TrimmedHead | None) -> list[LayerSubset]:
    """Return the exits that can make decoding faster, the one that promises most first.

    Where all layers with a trimmed head promise more than fewer layers can, these are left out: to try
    them would only cost passes.
    """
    keep = trimmed.keep if trimmed else None
    kept = 1.0 if keep is None else keep.size / forward.spec.vocab_size
    chosen = promises.promising_exits(forward.caps.exits, read_bytes(forward), kept)
    return [LayerSubset(exit) for exit in chosen]


def exit_name(exit: int) -> str:
    """Return the name of the drafter after ``exit`` layers."""
    return f"exit-{exit}"
