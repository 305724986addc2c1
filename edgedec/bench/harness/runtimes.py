"""The runtimes that can be compared, and how a process of each is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Self

from edgedec.assemble.config import RunConfig
from edgedec.backends.llama_cpp.advice import REBUILD
from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.worker import Side
from edgedec.bundle.manifest import Manifest
from edgedec.core.cache_config import Device, WhenFull
from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.quick_dataclass import dataclass
from edgedec.core.version import __version__
from edgedec.disk.files import sha256_of
from edgedec.disk.installing import pip_install
from edgedec.export.gguf_parts import gguf_files
from edgedec.kernels.library import host_path
from edgedec.memory import KvType
from edgedec.native.library import runtime_path
from edgedec.native.ready import make_ready
from edgedec.sampling import DrawParams

PROGRAMS = Path(__file__).parents[1] / "peers"
EDGEDEC = "edgedec"
NATIVE = "native"
"""EdgeDec's engine in a process without Python, over the same bundle."""
OTHERS = ("llama.cpp", "onnxruntime-genai", "openvino-genai", "transformers")
PLAIN_PEERS = (NATIVE, *OTHERS)
"""Sides that decode plainly beside EdgeDec in Python."""
WITH_LOGITS = ("llama.cpp", "transformers")
"""Runtimes that give whole rows of logits."""
WITH_PASSES = ("llama.cpp",)
"""Runtimes that run a pass over given tokens and take them back."""
WITH_REPLIES = ("llama.cpp", "llama.cpp-ngram")
"""Runtimes that reply until an end token, plain or with drafts; see ``split_mode``."""
REFERENCES = ("numpy", "transformers")
_CONVERTING = ("onnxruntime-genai",)

_KV_NUMBERS: Mapping[KvType, int] = {"fp16": 0, "int8": 1}
"""Those of ``edgedec_kv`` in edgedec.h."""

_OR_ANOTHER = "or name a Python that has it"


def advice(name: str) -> str:
    """Return the hint for a user whose interpreter lacks a runtime, or whose runtime crashes."""
    installs = {
        "llama.cpp": pip_install("gguf"),
        "onnxruntime-genai": pip_install("bench", "onnxruntime-genai", "onnx_ir", "gguf"),
        "transformers": pip_install("bench"),
        "openvino-genai": "pip install openvino-genai",
    }
    needs = "it and the needs of its model builder" if name in _CONVERTING else "it"
    hint = f"install {needs} with `{installs[name]}`, {_OR_ANOTHER}"
    return f"{hint}; {REBUILD}" if name == "llama.cpp" else hint


@dataclass(frozen=True, slots=True)
class OwnRun:
    """How a process of EdgeDec runs a model. Goes to it as JSON.

    - ``context``: tokens of the KV cache; None: the model's own limit, shorter within a budget.
    - ``device``: where the model runs.
    - ``always``: drafted tokens of every round, whether they pay or not; 0: as control decides.
    - ``level``: memory budget; None or "full": no limit, but a plan in the report for "full".
    - ``sinks``: tokens that eviction keeps at the beginning.
    - ``draft_models``: bundles of draft models by name.
    - ``modes``: further drafter sets that the process will be asked for, and the drafters of each.
    - ``sampling``: the memory plan has room for it.
    - ``conversations``: most sequences in a batch; None: no batch.
    - ``home``: folder that keeps pass costs.
    """

    threads: int
    home: str = ""
    context: int | None = None
    kv: KvType = "fp16"
    device: Device = "cpu"
    draft: str = "off"
    draft_models: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    always: int = 0
    level: Level | None = None
    when_full: WhenFull | None = None
    sinks: int = 0
    sampling: DrawParams = field(default_factory=DrawParams)
    max_tokens: int = 256
    conversations: int | None = None

    def side(self, bundle: Path, name: str = EDGEDEC) -> Side:
        """Return the side that runs the bundle so."""
        return Side(name, PROGRAMS / "edgedec_peer.py", bundle, settings={"run": asdict(self)})

    def native_side(self, bundle: Path, name: str = NATIVE) -> Side:
        """Return the side that runs the bundle plainly in a process without Python.

        Its ``level`` is a size or no limit. Raises BackendError.
        """
        make_ready(bundle)
        memory = int(self.level.amount) if self.level else 0
        numbers = [self.threads, self.context or 0, memory, _KV_NUMBERS[self.kv]]
        settings = {
            "host": str(host_path()), "runtime": runtime_path(), "version": __version__, "numbers": numbers,
        }  # fmt: skip
        return Side(name, PROGRAMS / "native_peer.py", bundle, settings=settings)

    @property
    def config(self) -> RunConfig:
        """The settings as ``RunConfig`` has them."""
        names = ("threads", "context", "kv", "device", "draft", "when_full", "conversations", "sampling")
        same = {name: getattr(self, name) for name in names}
        level = self.level
        # A size is known before the model is open, which decides where experts are.
        memory = int(level.amount) if level and level.kind == "size" else level.budget if level else None
        return RunConfig(memory=memory, **same)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Read what ``side`` wrote."""
        level = Level(**fields["level"]) if fields["level"] else None
        return cls(**{**fields, "level": level, "sampling": DrawParams(**fields["sampling"])})


@dataclass(frozen=True, slots=True)
class PeerRun:
    """How processes of other runtimes run a GGUF file.

    - ``pythons``: interpreters by runtime; this one for those without.
    - ``cache``: folder for models made of this file and no other.
    - ``all_rows``: whether logits of all tokens of a pass are needed.
    """

    gguf: Path
    threads: int
    context: int
    cache: Path
    pythons: Mapping[str, str] = field(default_factory=dict)
    all_rows: bool = False

    def python(self, name: str) -> str:
        return self.pythons.get(name, sys.executable)

    @property
    def settings(self) -> dict[str, Any]:
        return {"threads": self.threads, "context": self.context, "all_rows": self.all_rows}


def peer_side(name: str, run: PeerRun) -> Side:
    """Return the side of another runtime, one of ``OTHERS``."""
    return Side(
        name=name,
        program=PROGRAMS / f"{name.replace('.', '_').replace('-', '_')}_peer.py",
        model=run.gguf,
        python=run.python(name),
        settings=run.settings,
        advice=advice(name),
        environment={"HF_HUB_OFFLINE": "1"},
        cache=run.cache if name in _CONVERTING else None,
    )


def reference_side(name: str, run: PeerRun) -> Side:
    """Return the side of the float32 model: "transformers", or "numpy" in this interpreter."""
    if name == "transformers":
        side = peer_side(name, run)
        side.settings["exact"] = True
        return side
    return Side(name, PROGRAMS / "numpy_peer.py", run.gguf, settings=run.settings)


def split_mode(name: str) -> tuple[str, str]:
    """Split a name of ``WITH_REPLIES`` into the runtime and its drafter set, "off" for plain decoding."""
    runtime, _, mode = name.partition("-")
    return runtime, mode or "off"


def check_peers(names: list[str], able: tuple[str, ...], lack: str) -> None:
    """Raise UsageError for a name that is unknown, given twice, or not among those ``able``."""
    for index, name in enumerate(names):
        if name not in (*OTHERS, *able):
            raise UsageError(f"peer {name}: no such peer", hint=f"known: {', '.join(able)}")
        if name in names[:index]:
            raise UsageError(f"peer {name} is named twice")
        if name not in able:
            raise UsageError(f"{name} {lack}", hint=f"these do: {', '.join(able)}")


def check_source(manifest: Manifest, gguf: Path, progress: Callable[[int], None] | None = None) -> None:
    """Make sure that the bundle was made of exactly this file, or of the parts of which it is one.

    Raises NotFoundError when there is no such file, UsageError when it is another one.
    """
    files, wanted = gguf_files(gguf), manifest.source_hashes
    for file in files:
        if not file.is_file():
            raise NotFoundError(f"no such file: {file}")
    if not wanted:
        raise BadFileError(
            "the bundle does not say which GGUF file it was made of", hint="make one of that file: export it"
        )
    nbytes = sum(file.stat().st_size for file in files)
    unlike = nbytes != manifest.source.get("bytes", 0) or len(files) != len(wanted)
    if unlike or any(sha256_of(file, progress) != one for file, one in zip(files, wanted, strict=True)):
        raise UsageError(
            f"{gguf} is not the file that {manifest.name} was made of",
            hint=f"that was {manifest.source.get('file', 'a GGUF file')}, SHA-256 {wanted[0][:16]}...",
        )
