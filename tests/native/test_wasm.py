"""edgedec.wasm in Node has the replies, and the bits of all passes, of this machine's kernels."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from edgedec.api import Model
from edgedec.assemble.config import RunConfig
from edgedec.core.errors import NotFoundError
from edgedec.export import export_gguf
from edgedec.export.web.wasm import FAST, WASM, wasm_path
from edgedec.sampling import DrawParams
from tests.conftest import ROOT
from tests.fixtures.streamed import LAYERS, sparse_bundle
from tests.fixtures.tiny_gguf import TinyShape, write_tiny
from tests.fixtures.tiny_models import prepared_run, tiny_bundle
from tests.native.web import Pass, WebEngine
from tests.native.web_runs import CHEAP, with_program

SCRIPT = Path(__file__).with_name("wasm_runs.mjs")
TEXT = "hello world hello world hello"
PLAIN = {"context": 64, "draft": "off"}
DRAFTED = {"context": 64, "costs": CHEAP, "flat": True}
"""Passes differ from those without drafts."""
REQUESTS: list[dict[str, Any]] = [
    {"text": TEXT, "max_tokens": 25, "sampling": {"temperature": 0}},
    {"text": TEXT + " é", "max_tokens": 9, "sampling": {"temperature": 0.9, "min_p": 0.0}, "seed": 6},
    {"messages": [{"role": "user", "content": "héllo"}], "max_tokens": 9, "stop": ["xyz"]},
    {"text": TEXT, "max_tokens": 20, "schema": '{"properties": {"name": {"type": "string"}}}'},
]
FORMATS = (
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "MXFP4",
    "F16",
    "BF16",
    "F32",
    "IQ4_XS",
    "IQ3_XXS",
    "IQ3_S",
    "IQ2_XXS",
    "IQ2_XS",
    "IQ2_S",
    "IQ1_S",
    "IQ1_M",
    "TQ1_0",
    "TQ2_0",
    "NVFP4",
)
_FLAGS = ("--experimental-wasm-relaxed-simd", "--no-liftoff")
SHAPE = TinyShape(hidden=256, ffn=256, head_dim=64)
"""Rows that all formats divide."""


@pytest.fixture(scope="module", params=[WASM, FAST])
def wasm(request: pytest.FixtureRequest) -> Path:
    if not shutil.which("node"):
        pytest.skip("there is no node, which runs WebAssembly")
    if request.param == FAST and not runs_fast(*node()):
        pytest.skip("this node, or this processor, has no exact relaxed SIMD")
    try:
        return wasm_path(request.param)
    except NotFoundError as error:
        pytest.skip(f"{error.message}: {error.hint}")


@cache
def node() -> tuple[str, ...]:
    """The command of Node with relaxed SIMD, which early versions have behind a flag and in one compiler."""
    known = subprocess.run(["node", "--v8-options"], capture_output=True, text=True, check=True).stdout
    return ("node", *_FLAGS) if _FLAGS[0] in known else ("node",)


def runs_fast(*command: str) -> bool:
    """Whether the page would take the fast module in this Node."""
    module = ROOT / "export" / "web" / "run" / "fast.js"
    script = f"import {{ runsFast }} from 'data:text/javascript,{quote(module.read_text(encoding='utf-8'))}';"
    code = f"{script} console.log(runsFast())"
    done = subprocess.run(
        [*command, "--input-type=module", "-e", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip() == "true"


def test_a_compiler_whose_products_are_wrong_is_noticed() -> None:
    if not shutil.which("node") or _FLAGS[0] not in node():
        pytest.skip("the first compiler of V8 counts products twice in Node 20 alone")
    assert not runs_fast("node", _FLAGS[0])
    assert not runs_fast("node")


def in_node(
    wasm: Path, bundle: Path, options: dict[str, Any], requests: list[Any], most_s: float = 300
) -> list[dict[str, Any]]:
    """The answers of edgedec.wasm."""
    command = [*node(), str(SCRIPT), str(wasm), str(bundle), json.dumps(options), json.dumps(requests)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=most_s, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def here(bundle: Path, options: dict[str, Any], requests: list[Any]) -> list[dict[str, Any]]:
    """The answers of the same engine with this machine's kernels."""
    found = []

    def compute(engine: WebEngine, one: Pass) -> None:
        engine.call("compute")
        rows = one.rows * one.k
        sizes = rows, rows, one.rows, one.rows, one.rows * one.vocabulary if one.full else 0
        for name, count in zip(("values", "ids", "logsumexp", "entropy", "logits"), sizes, strict=True):
            if count:
                bits.update(ctypes.string_at(getattr(one, name), 4 * count))

    with WebEngine(bundle, compute, **options) as engine:
        engine.call("cpu")
        for request in requests:
            bits = hashlib.sha256()
            engine.reply(**request)
            found.append({"tokens": engine.tokens, "text": engine.text, "bits": bits.hexdigest()})
    return found


def compare(wasm: Path, bundle: Path) -> None:
    found = in_node(wasm, bundle, PLAIN, REQUESTS)
    for one, expected in zip(found, here(bundle, PLAIN, REQUESTS), strict=True):
        assert {name: one[name] for name in expected} == expected


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "phi3", "gemma4", "qwen35", "lfm2"])
def test_replies_and_passes_are_those_of_this_machine(wasm: Path, tmp_path: Path, architecture: str) -> None:
    bundle = with_program(tiny_bundle(tmp_path, architecture))
    compare(wasm, bundle)
    drafted = in_node(wasm, bundle, DRAFTED, REQUESTS)
    assert [one["tokens"] for one in drafted] == [one["tokens"] for one in here(bundle, PLAIN, REQUESTS)]
    assert any(one["figures"]["accepted_tokens"] for one in drafted)


@pytest.mark.parametrize("architecture", LAYERS)
def test_experts_say_what_this_machine_says(wasm: Path, tmp_path: Path, architecture: str) -> None:
    bundle = with_program(sparse_bundle(tmp_path, architecture))
    compare(wasm, bundle)
    found = in_node(wasm, bundle, DRAFTED, REQUESTS[:2])
    with Model(prepared_run(bundle, RunConfig(draft="off", threads=1, context=64))) as opened:
        sampled = DrawParams(temperature=0.9, min_p=0.0, seed=6)
        for one, request, params in zip(found, REQUESTS, (DrawParams(), sampled), strict=False):
            reply = opened.complete(request["text"], sampling=params, max_tokens=request["max_tokens"])
            reply.read()
            assert one["tokens"] == list(reply.tokens)


@pytest.mark.parametrize("threads", [2, 5])
def test_helpers_change_no_bit(wasm: Path, tmp_path: Path, threads: int) -> None:
    if wasm.name != FAST:
        pytest.skip("this module computes on one thread")
    shape = TinyShape(hidden=512, ffn=1024, head_dim=64)
    export_gguf(write_tiny(tmp_path / "tiny.gguf", formats="q4_0", shape=shape), tmp_path / "bundle")
    bundle = with_program(tmp_path / "bundle")
    found = in_node(wasm, bundle, PLAIN | {"threads": threads}, REQUESTS * 4)
    for one, expected in zip(found, here(bundle, PLAIN, REQUESTS * 4), strict=True):
        assert {name: one[name] for name in expected} == expected


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_has_the_same_bits(wasm: Path, tmp_path: Path, format_: str) -> None:
    export_gguf(write_tiny(tmp_path / "tiny.gguf", formats=format_.lower(), shape=SHAPE), tmp_path / "bundle")
    compare(wasm, with_program(tmp_path / "bundle"))
