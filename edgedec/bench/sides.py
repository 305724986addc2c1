"""The runtimes that can be compared, and what to tell a user who lacks one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edgedec.backends.llama_cpp.advice import INSTALL, REBUILD
from edgedec.bench.levels import Level
from edgedec.bench.worker import Side
from edgedec.core.errors import BadFileError, NotFoundError, UsageError
from edgedec.core.files import sha256_of
from edgedec.core.manifest import Manifest
from edgedec.memory import KvType

_PROGRAMS = Path(__file__).parent / "peers"
PEERS = ("llama.cpp", "onnxruntime-genai", "openvino-genai", "transformers")
_CONVERTING = ("onnxruntime-genai",)
WITH_LOGITS = ("llama.cpp", "transformers")
"""The peers that show whole rows of logits."""
WITH_PASSES = ("llama.cpp",)
"""The peers that run a pass over given tokens and take them back."""
REFERENCES = ("numpy", "transformers")
DRAFTING_PEERS = ("llama.cpp", "llama.cpp-lookup", "llama.cpp-ngram", "transformers", "transformers-lookup")
"""The peers of runs with drafts. "llama.cpp-ngram:3:8" gives the sizes that llama.cpp's tools take."""

LLAMA_ADVICE = f"install it with `{INSTALL}`, or name a Python that has it with --peer-python; {REBUILD}"
_TRANSFORMERS_ADVICE = (
    "install it with `pip install 'edgedec[bench]'`, or name a Python that has it with --peer-python"
)
_OPENVINO_ADVICE = (
    "install it with `pip install openvino-genai`, or name a Python that has it with --peer-python"
)
_GENAI_ADVICE = (
    "install it and what its model builder needs with `pip install onnxruntime-genai onnx_ir gguf"
    " 'edgedec[bench]'`, or name a Python that has them with --peer-python"
)
_ADVICE = {
    "llama.cpp": LLAMA_ADVICE,
    "onnxruntime-genai": _GENAI_ADVICE,
    "transformers": _TRANSFORMERS_ADVICE,
    "openvino-genai": _OPENVINO_ADVICE,
}


def ours(
    bundle: Path,
    *,
    threads: int,
    context: int,
    isa: str | None = None,
    kv: KvType = "fp16",
    when_full: str | None = None,
) -> Side:
    """EdgeDec running the bundle here. ``isa`` forces a kernel row; ``when_full``: what is done
    where logits of more tokens are wanted than the cache holds, see ``policy_for``.
    """
    return Side(
        name="edgedec",
        program=_PROGRAMS / "edgedec_peer.py",
        model=bundle,
        settings={"threads": threads, "context": context, "kv": kv, "when_full": when_full},
        environment={"EDGEDEC_ISA": isa} if isa else {},
    )


def ours_drafting(
    bundle: Path,
    *,
    threads: int,
    context: int | None,
    costs: Path,
    draft_models: Mapping[str, Path],
    isa: str | None = None,
    kv: KvType = "fp16",
    when_full: str | None = None,
    sinks: int = 0,
) -> Side:
    """EdgeDec with any number of ways to draft; ``costs`` is the folder of measured costs of passes,
    ``draft_models`` the bundles of models that draft, by name. ``when_full``: see ``policy_for``; so
    many ``sinks`` at the beginning of the cache stay then.
    """
    models = {name: str(path) for name, path in draft_models.items()}
    return Side(
        name="edgedec",
        program=_PROGRAMS / "edgedec_drafts_peer.py",
        model=bundle,
        settings={
            "threads": threads,
            "context": context,
            "costs": str(costs),
            "draft_models": models,
            "kv": kv,
            "when_full": when_full,
            "sinks": sinks,
        },
        environment={"EDGEDEC_ISA": isa} if isa else {},
    )


def ours_within(
    bundle: Path,
    *,
    name: str,
    level: Level,
    draft: str,
    drawing: int,
    elastic: bool = False,
    **settings: Any,
) -> Side:
    """EdgeDec drafting as ``draft`` says within the memory of ``level``; the other settings are those of
    ``ours_drafting``. ``drawing``: see ``Known``. ``elastic``: the context may be as long as the budget
    allows.
    """
    side = ours_drafting(bundle, **settings)
    more = {"level": asdict(level), "draft": draft, "drawing": drawing, "elastic": elastic}
    program = _PROGRAMS / "edgedec_memory_peer.py"
    return replace(side, name=name, program=program, settings={**side.settings, **more})


def ours_chatting(bundle: Path, *, max_tokens: int, **settings: Any) -> Side:
    """EdgeDec in one chat, with replies of at most ``max_tokens``; see ``ours_within`` for the others."""
    side = ours_within(bundle, **settings)
    more = {"max_tokens": max_tokens}
    return replace(side, program=_PROGRAMS / "edgedec_chat_peer.py", settings={**side.settings, **more})


def split_peer(name: str) -> tuple[str, str]:
    """The runtime and the way it drafts there, "off" for plain decoding, of a name of ``DRAFTING_PEERS``."""
    base, _, sizes = name.partition(":")
    if base not in DRAFTING_PEERS or "-" not in base:
        return name, "off"
    runtime, _, mode = base.partition("-")
    return runtime, f"{mode}:{sizes}" if sizes else mode


def check_drafting_peer(name: str) -> None:
    """Raises UsageError for a peer that does not exist or takes no part in runs with drafts."""
    base, _, sizes = name.partition(":")
    known = f"known: {', '.join(DRAFTING_PEERS)}"
    if base not in DRAFTING_PEERS:
        what = "takes no part in runs with drafts or categories" if base in PEERS else "no such peer"
        raise UsageError(f"--peer {name}: {what}", hint=known)
    numbers = sizes.split(":")
    fine = len(numbers) == 2 and all(number.isdecimal() and 0 < int(number) <= 64 for number in numbers)
    if sizes and (base != "llama.cpp-ngram" or not fine):
        raise UsageError(f"--peer {name}: not understood", hint="for example llama.cpp-ngram:12:48")


def peer(
    name: str,
    gguf: Path,
    *,
    python: str | None,
    threads: int,
    context: int,
    cache: Path,
    all_rows: bool = False,
) -> Side:
    """Another runtime, one of ``PEERS``, on the GGUF file the bundle was made of; ``cache`` is a folder for
    what is made of this file and no other.
    """
    return Side(
        name=name,
        program=_PROGRAMS / f"{name.replace('.', '_').replace('-', '_')}_peer.py",
        model=gguf,
        python=python or sys.executable,
        settings={"threads": threads, "context": context, "all_rows": all_rows},
        advice=_ADVICE[name],
        environment={"HF_HUB_OFFLINE": "1"},
        cache=cache if name in _CONVERTING else None,
    )


def reference(name: str, gguf: Path, *, python: str | None, threads: int, context: int) -> Side:
    """The float32 model: "transformers", in its own interpreter, or "numpy", in ours."""
    other = name == "transformers"
    exact = {"exact": True} if other else {}
    return Side(
        name=name,
        program=_PROGRAMS / ("transformers_peer.py" if other else "numpy_peer.py"),
        model=gguf,
        python=(python if other else None) or sys.executable,
        settings={"threads": threads, "context": context, **exact},
        advice=_TRANSFORMERS_ADVICE if other else None,
    )


def check_source(manifest: Manifest, gguf: Path, progress: Callable[[int], None] | None = None) -> None:
    """Make sure that the bundle was made of exactly this file.

    Raises NotFoundError when there is no such file, UsageError when it is another one.
    """
    if not gguf.is_file():
        raise NotFoundError(f"no such file: {gguf}")
    wanted = manifest.source.get("sha256")
    if not isinstance(wanted, str):
        raise BadFileError("the bundle does not say which file it was made of", hint="export it again")
    if gguf.stat().st_size != manifest.source.get("bytes", 0) or sha256_of(gguf, progress) != wanted:
        raise UsageError(
            f"{gguf} is not the file that {manifest.name} was made of",
            hint=f"that was {manifest.source.get('file', 'a GGUF file')}, SHA-256 {wanted[:16]}...",
        )
