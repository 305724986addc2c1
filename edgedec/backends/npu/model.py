"""A bundle for an NPU, loaded: a session for each length of a pass, and the embedding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgedec.backends.backend import DEFAULT_CACHE, Backend
from edgedec.backends.npu.forward import NpuForward
from edgedec.backends.npu.plugins import CPU, SHARED, Plugin, open_session, plugin_for
from edgedec.backends.npu.same_bits import same_bits
from edgedec.backends.npu.session import Feeds, Session
from edgedec.backends.onnx.graph_guard import check_graph
from edgedec.bundle.manifest import WEIGHTS, Manifest
from edgedec.bundle.npu_facts import AGAIN, CACHES, MASKS, NpuFacts, context_name, graph_name
from edgedec.core.cache_config import CacheConfig, Device
from edgedec.core.errors import BadFileError
from edgedec.core.forward import Capabilities
from edgedec.core.ledger import Ledger
from edgedec.core.rows import FloatArray
from edgedec.memory import CacheBook


class NpuModel(Backend):
    """The ``Backend`` of a bundle for an NPU.

    ``device``: "npu", or "cpu" to run the same passes by ONNX Runtime's own ops; ``plugin``: another device.
    Whether it is exact is asked of the device: see ``same_bits``. The device allocates what it needs, so no
    memory is reserved. Raises BadFileError, BackendError, and as ``plugin_for``.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        *,
        threads: int | None = None,
        drafting: bool = False,
        device: Device = "cpu",
        plugin: Plugin | None = None,
    ) -> None:
        self.plugin = plugin or plugin_for(device)
        self.facts = NpuFacts.load(bundle, manifest)
        lengths = self.facts.lengths
        caps = Capabilities(max_pass=lengths[-1], trees=True, exact=False)
        super().__init__(manifest.spec, caps, threads)
        self.weight_bytes = manifest.files[WEIGHTS].bytes
        self._table, self._scales = _embedding(bundle, manifest, self.facts)
        self._sessions = {
            length: _session(bundle, manifest, length, self.plugin, self.threads) for length in lengths
        }
        for length, session in self._sessions.items():
            _check_inputs(session, self.facts, length)
        self._settle()

    @staticmethod
    def runtime_name() -> str:
        """See ``BackendClass.runtime_name``."""
        return CPU.title

    @property
    def runtime(self) -> str:
        """The device that runs."""
        return self._sessions[self.lengths[-1]].title

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of passes in use."""
        return tuple(self._sessions)

    def forward(self, cache: CacheConfig = DEFAULT_CACHE, ledger: Ledger | None = None) -> NpuForward:
        """See ``Backend.forward``."""
        capacity, _, caps = self._limits(cache)
        return NpuForward(self, caps, CacheBook(capacity), ledger)

    def run(self, length: int, feeds: Feeds, wanted: list[str]) -> dict[str, NDArray[Any]]:
        """Run the pass over ``length`` tokens. Raises BackendError."""
        return dict(zip(wanted, self._sessions[length].run(wanted, feeds), strict=True))

    def embedded(self, tokens: list[int]) -> FloatArray:
        """Return the embeddings f32[T, hidden]."""
        scales = self._scales[tokens] * np.float32(self.facts.embedding.factor)
        return self._table[tokens].astype(np.float32) * scales[:, None]

    def _settle(self) -> None:
        """Use the lengths among which the device is exact, as many as there are; all where there are none."""
        if not self.plugin.asked:
            return
        every = dict(self._sessions)
        for first in range(len(every)):
            self._sessions = dict(list(every.items())[first:])
            if same_bits(NpuForward(self, self.caps, CacheBook(self.facts.capacity), None), self.lengths):
                self.caps = replace(self.caps, exact=True)
                return
        self._sessions = every


def _session(bundle: Path, manifest: Manifest, length: int, plugin: Plugin, threads: int) -> Session:
    check_graph(bundle, graph_name(length), standard=True)
    compiled = plugin.compiled and context_name(length) in manifest.files
    if compiled:
        return open_session(plugin, bundle / context_name(length), threads, SHARED)
    return open_session(plugin, bundle / graph_name(length), threads)


def _embedding(
    bundle: Path, manifest: Manifest, facts: NpuFacts
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Map the table; only rows that are looked up are read."""
    spec, place = manifest.spec, facts.embedding
    try:
        table = np.memmap(bundle / WEIGHTS, np.int8, "r", place.offset, (spec.vocab_size, spec.hidden_size))
        scales = np.fromfile(bundle / WEIGHTS, "<f4", spec.vocab_size, offset=place.scales)
    except (OSError, ValueError) as error:
        raise BadFileError(f"{WEIGHTS} of the bundle cannot be read", hint=AGAIN) from error
    return table, scales


def _check_inputs(session: Session, facts: NpuFacts, length: int) -> None:
    """Raises BadFileError unless the graph takes and gives what ``facts`` says, for passes of ``length``."""
    inputs, outputs = session.inputs, session.outputs
    stated = {name: f"uint{one.bits}" for name, one in facts.formats.items()}
    stated |= {"embedding": "float32", "slots": "int64"}
    stated |= {name.replace(".", "_new."): stated[name] for name in stated if name.startswith(CACHES)}
    given = {name: port.dtype for name, port in (inputs | outputs).items()}
    masks = [port.shape for name, port in inputs.items() if name in MASKS]
    if (
        given != stated
        or not masks
        or any(shape != (1, facts.group * length, facts.slots) for shape in masks)
        or inputs["embedding"].shape[0] != length
    ):
        raise BadFileError(
            f"{graph_name(length)} of the bundle is not the pass that its manifest describes", hint=AGAIN
        )
