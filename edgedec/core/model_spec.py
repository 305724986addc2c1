"""The sizes and special tokens of a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgedec.core.cache_kinds import CacheKind, Keys, States, kinds_as_json
from edgedec.core.errors import UnsupportedError
from edgedec.core.experts import Experts
from edgedec.core.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The facts of a model that the runtime needs. Sizes are in elements; ids are token ids.

    A manifest states every field. The defaults are those of a model without the feature.
    """

    name: str
    architecture: str
    vocab_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_size: int
    context_length: int
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    head_k: int = 64
    """Entries per row that the head returns in ``HeadRows.values``."""
    ffn_size: int = 0
    """Width of the MLP; of an expert where no layer has one.

    0 where another runtime runs the model: nobody plans its memory.
    """
    n_window_layers: int = 0
    """Layers whose keys and values lie in rings, because they see only a window."""
    window: int = 0
    """Tokens that these layers see; 0 without such layers."""
    table_bytes: int = 0
    """Bytes of a table of embeddings that the head does not share; 0: the head shares it.

    On Linux passes read its rows from the file and keep none in memory.
    """
    caches: tuple[CacheKind, ...] = ()
    """The kinds of cache, where the fields above do not say it all: keys of different sizes, layers that
    share keys, or recurrent states. Empty: ask ``kinds``.
    """
    experts: Experts | None = None
    """The experts of its layers; None for a model without."""

    @property
    def kinds(self) -> tuple[CacheKind, ...]:
        """The kinds of cache, in the order of the graph's inputs."""
        if self.caches:
            return self.caches
        heads = self.n_kv_heads, self.head_dim
        whole = Keys("kv_cache", self.n_layers - self.n_window_layers, *heads)
        rings = Keys("kv_window", self.n_window_layers, *heads, self.window)
        return tuple(keys for keys in (whole, rings) if keys.layers)

    @property
    def keys(self) -> tuple[Keys, ...]:
        """The kinds that hold keys and values."""
        return tuple(kind for kind in self.kinds if isinstance(kind, Keys))

    @property
    def states(self) -> tuple[States, ...]:
        """The kinds that recurrent layers keep."""
        return tuple(kind for kind in self.kinds if isinstance(kind, States))

    @property
    def taken(self) -> int:
        """Rows of gates that a token takes of MLPs and experts, in all layers together."""
        if (experts := self.experts) is None:
            return self.n_layers * self.ffn_size
        mixed = experts.chosen * experts.width + experts.shared
        return (self.n_layers - experts.layers) * self.ffn_size + experts.layers * mixed

    def read_bytes(self, weights: int, tokens: float = 1) -> float:
        """Return the bytes that a pass over so many tokens reads of ``weights``, those of all matrices.

        Of experts a pass takes some, if each is as likely. ``weights`` may lack those that lie on a disk.
        """
        if self.experts is None:
            return weights
        return self.dense_bytes(weights) + self.experts.nbytes * self.experts.expected(tokens)

    def dense_bytes(self, weights: int) -> int:
        """Return the bytes of ``weights`` without experts, which may not be among them."""
        experts = self.experts.nbytes if self.experts else 0
        return weights - experts if weights > experts else weights

    def as_json(self) -> dict[str, Any]:
        """The form in a manifest, which lists kinds of cache only where other fields do not say them."""
        data = asdict(self)
        del data["caches"], data["experts"]
        data |= {"caches": kinds_as_json(self.caches)} if self.caches else {}
        return data | ({"experts": asdict(self.experts)} if self.experts else {})


def refuse_unlike(spec: ModelSpec, place: str, hint: str = "run it on the CPU") -> None:
    """Raise UnsupportedError for a model with what ``place`` does not have.

    That is recurrent states, short convolutions, keys of more than one size, and experts.
    """
    if spec.caches:
        kept = "keys of more than one size"
        if spec.states:
            states = any(kind.state for kind in spec.states)
            kept = "recurrent states" if states else "the newest inputs of short convolutions"
        raise UnsupportedError(f"{spec.name} keeps {kept}, which {place} does not have", hint=hint)
    refuse_experts(spec, place, hint)


def refuse_experts(spec: ModelSpec, place: str, hint: str) -> None:
    """Raise UnsupportedError for a model with experts, which ``place`` does not have."""
    if spec.experts:
        raise UnsupportedError(f"{spec.name} has experts, which {place} does not have", hint=hint)
