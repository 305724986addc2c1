"""Writes what a page computes with: a program and sources of kernels for GPUs; for the CPU a graph."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edgedec.backends.gpu import arithmetic, shaders
from edgedec.backends.gpu.build.build import build_program
from edgedec.backends.gpu.build.builder import BuildLimits
from edgedec.backends.gpu.model import wanted_exits
from edgedec.backends.gpu.program import KernelStep, Program
from edgedec.backends.onnx.graph import read_graph
from edgedec.bundle.device_folder import MODEL as SMALL
from edgedec.bundle.device_folder import DeviceFolder
from edgedec.bundle.manifest import Manifest
from edgedec.core.model_spec import ModelSpec
from edgedec.export.web import wasm
from edgedec.export.web.cpu import CPU_PROGRAM, write_cpu_program, write_drafter_programs
from edgedec.export.web.wasm import wasm_path

SHADERS, PROBE, PROGRAM = "run/shaders.json", "run/probe.json", "model/program.json"
APART = "model/program-apart.json"
"""The program for adapters that fuse nothing, where it is another one; see ``Adapter.fuses``."""
WASM, FAST, CPU = f"run/{wasm.WASM}", f"run/{wasm.FAST}", f"model/{CPU_PROGRAM}"
MAX_PASS = 128
_CONTEXT = 4096
_BINDING = 128 << 20
"""Bytes that every device of WebGPU binds at once."""
_PROBE = "wgsl/probe"


def page_context(spec: ModelSpec) -> int:
    """Return the tokens of a conversation on the page."""
    return min(spec.context_length, _CONTEXT)


def write_gpu(directory: Path, bundle: Path) -> Program:
    """Write what a GPU needs, and return the program. Raises UnsupportedError, BadFileError."""
    manifest = Manifest.load(bundle)
    spec, graph = manifest.spec, read_graph(bundle)
    exits = wanted_exits(bundle, manifest, graph, drafting=True)
    below = tuple(exit - 1 for exit in exits.exits)
    limits = BuildLimits(page_context(spec), MAX_PASS, _BINDING, drafting=replace(exits, taps=below))
    program = build_program(graph, spec, limits)
    apart = build_program(graph, spec, replace(limits, fused=False))
    _write(directory / PROGRAM, as_json(program))
    if apart != program:
        _write(directory / APART, as_json(apart))
    names = {_PROBE, *(step.kernel for one in (program, apart) for step in (*one.steps, *one.settling))}
    _write(directory / SHADERS, _sources(names))
    shutil.copyfile(arithmetic.DATA, directory / PROBE)
    return program


def as_json(program: Program) -> dict[str, Any]:
    """Return a program with the constants of its kernels as text, which has the bits of floats."""
    found: dict[tuple[str, str], int] = {}

    def step(one: KernelStep) -> dict[str, Any]:
        constants = "\n".join(shaders.constant(name, value) for name, value in one.consts.items())
        fields = asdict(one)
        del fields["consts"]
        return {**fields, "kernel": found.setdefault((one.kernel, constants), len(found))}

    steps, settling = ([step(one) for one in part] for part in (program.steps, program.settling))
    made = [{"kernel": name, "constants": constants} for name, constants in found]
    return {**json.loads(program.to_json()), "steps": steps, "settling": settling, "kernels": made}


def _sources(names: set[str]) -> dict[str, Any]:
    """Return the texts of kernels and of the prelude in all variants."""
    prelude = shaders.prelude({name: f"{{{name}}}" for name in shaders.PRIMITIVES})
    both = [
        shaders.prelude(dict.fromkeys(shaders.PRIMITIVES, variant))
        for variant in (shaders.NATIVE, shaders.EXACT)
    ]
    parts = {name: shaders.parts(name) for name in sorted(names)}
    needed = {name for files in (*both, *parts.values()) for name in files}
    texts = {name: shaders.text(name) for name in sorted(needed)}
    return {"primitives": shaders.PRIMITIVES, "prelude": prelude, "parts": parts, "texts": texts}


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8", newline="\n")


def write_cpu(directory: Path, bundle: Path, placed: DeviceFolder) -> None:
    """Write what the CPU needs into ``directory``: programs of the model in ``bundle`` and of its drafters.

    Raises NotFoundError where this installation has no ``edgedec.wasm``, UnsupportedError for a graph that
    the browser's CPU cannot run.
    """
    for name in (WASM, FAST, f"run/{wasm.NOTICES}"):
        shutil.copyfile(wasm_path(Path(name).name), directory / name)
    write_cpu_program(bundle, directory / CPU)
    write_drafter_programs(bundle)
    for one in placed.drafters:
        if one.kind == SMALL:
            write_cpu_program(bundle / one.path, bundle / one.path / CPU_PROGRAM)
