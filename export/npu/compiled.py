"""Compiles the graphs of a bundle for Qualcomm's HTP ahead of time, into one binary that shares weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from edgedec.backends.npu.plugins import QNN, SHARED, open_session
from edgedec.bundle.npu_facts import context_name, graph_name
from edgedec.core.errors import UnsupportedError


def check_compiler() -> None:
    """Raises UnsupportedError unless QNN is installed and can compile on this machine."""
    if not QNN.installed:
        raise UnsupportedError("compiling for an HTP takes QNN", hint=QNN.remedy)
    if not QNN.compiler:
        raise UnsupportedError("QNN compiles on x86-64 Linux only", hint="export there, or for npu")


def compile_graphs(folder: Path, lengths: Sequence[int], progress: Callable[[int, int], None]) -> list[str]:
    """Write a compiled graph beside each graph in ``folder``, and return the names of all files written.

    Raises BackendError when QNN refuses a graph: every op runs on the HTP, or none does.
    """
    before, sessions = {file.name for file in folder.iterdir()}, []
    for done, length in enumerate(lengths, start=1):
        entries = {
            "ep.context_enable": "1",
            "ep.context_embed_mode": "0",
            "ep.context_file_path": str(folder / context_name(length)),
            **SHARED,
            **({"ep.stop_share_ep_contexts": "1"} if done == len(lengths) else {}),
        }
        sessions.append(open_session(QNN, folder / graph_name(length), entries=entries))
        progress(done, len(lengths))
    return sorted({file.name for file in folder.iterdir()} - before)
