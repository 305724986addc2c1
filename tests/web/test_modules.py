"""Modules of the page without a browser: requests, faults in words, planned memory, the probe."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedec.backends.gpu.inputs import TrimmedIds
from edgedec.export.web import computing
from edgedec.export.web.index import write_page

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    """The page's files, as node takes them, with the program of a model."""
    folder = tmp_path_factory.mktemp("modules")
    write_page(folder)
    (folder / "model").mkdir()
    computing.write_gpu(folder, tiny)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return folder


def run(folder: Path, script: str) -> Any:
    """Run a script that ends with `out(value)`, and return the value."""
    head = 'import fs from "fs"; const out = (value) => console.log(JSON.stringify(value));'
    head += 'const read = (name) => JSON.parse(fs.readFileSync(name, "utf8"));'
    (folder / "test.js").write_text(f"{head}\n{script}", encoding="utf-8")
    done = subprocess.run(
        ["node", "test.js"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_request_names_the_values_of_the_body_and_no_others(modules: Path) -> None:
    script = """
    import { requestOf } from "./page/js/chunks.js";
    const body = (more) => ({ messages: [{ role: "user", content: "hi", extra: 1 }], seed: 3, ...more });
    const go = { role: "assistant", content: "so far" };
    const continued = { messages: [...body().messages, go], edgedec: { continue: true } };
    out([body({ temperature: 0, min_p: 0.1 }), body({ top_k: 5 }), body(continued)].map(requestOf));
    """
    greedy, sampled, continued = run(modules, script)
    assert greedy["request"]["sampling"] == {"temperature": 0, "min_p": 0.1}
    assert sampled["request"]["sampling"] == {"top_k": 5}
    assert sampled["request"]["messages"] == [{"role": "user", "content": "hi"}]
    assert (sampled["continues"], continued["continues"]) == (None, {"text": "so far", "thought": ""})
    assert continued["request"]["messages"] == sampled["request"]["messages"]


def test_thinking_is_apart_from_the_reply_also_at_its_end(modules: Path) -> None:
    script = """
    import { chunkOf, endOf } from "./page/js/chunks.js";
    const token = (text, thought) => ({ text, ...(thought ? { thought } : {}), drafter: null });
    const tokens = [token("", "So"), token("", "."), token("Two", "!"), token("")];
    out([chunkOf(tokens), chunkOf([token("x")]), ...endOf({ finish_reason: "stop", pieces: [token("<t")] })]);
    """
    both, plain, held, end = (one["choices"][0] for one in run(modules, script))
    assert both["delta"] == {"content": "Two", "reasoning_content": "So.!"}
    assert [one["text"] for one in both["edgedec"]["tokens"]] == ["Two", ""]
    assert plain["delta"] == {"content": "x"}
    assert held["delta"] == {"content": "<t"}
    assert end["finish_reason"] == "stop"


def test_a_reply_is_computed_again_up_to_its_thinking_and_text(modules: Path) -> None:
    script = """
    import { Replies } from "./run/replies.js";
    const parts = [["", "So"], ["", "."], ["Two", ""], ["!", ""]];
    const reply = async (request, heard) => {
      for (const [text, thought] of parts) heard([{ text, thought }]);
      return {};
    };
    const engine = { stop() {}, reply };
    const ask = async (continues) => {
      const heard = [];
      const given = { request: { messages: [] }, continues };
      const asked = new Replies().ask(async () => engine, 1, given, (more) => heard.push(...more));
      await asked.catch(() => heard.push("changed"));
      return heard.map((one) => one.text ?? one);
    };
    const cut = [["", "So"], ["Two", "So."], ["Two", "Other"]];
    out(await Promise.all(cut.map(([text, thought]) => ask({ text, thought }))));
    """
    within, behind, other = run(modules, script)
    assert within == ["", "Two", "!"]
    assert behind == ["!"]
    assert other[-1] == "changed"


def test_a_fault_is_a_sentence_and_names_of_files_stay(modules: Path) -> None:
    script = """
    import { sentence } from "./page/js/chunks.js";
    const one = { message: "this browser has no WebGPU", hint: "compute on the CPU" };
    out([one, { message: "weights.bin is cut", hint: "" }].map(sentence));
    """
    assert run(modules, script) == [
        "This browser has no WebGPU (compute on the CPU).",
        "weights.bin is cut.",
    ]


def test_the_memory_of_a_program_is_what_python_plans(modules: Path, tiny: Path) -> None:
    script = """
    import { planned } from "./run/gpu/memory.js";
    const sum = (values) => [...values].reduce((before, each) => before + each, 0);
    const plan = planned(read("model/program.json"), { maxBufferSize: 2 ** 20 });
    const places = plan.arenas.flatMap(({ size, places }) =>
      [...places.values()].map((one) => [one.offset, one.size, size]));
    out([sum(plan.own.values()) + sum(plan.shared.values()), places, plan.total]);
    """
    buffers, places, total = run(modules, script)
    program = computing.write_gpu(modules, tiny)
    assert buffers == program.cache_bytes() + program.scratch_bytes()
    assert sum(size for _, size, _ in places) >= program.weight_bytes()
    assert all(offset % 256 == 0 and offset + size <= arena for offset, size, arena in places)
    assert total >= buffers + program.weight_bytes()


def test_the_tiles_of_a_trimmed_head_are_those_of_python(modules: Path) -> None:
    ids = np.array([0, 3, 15, 16, 40, 41, 47, 300], np.int64)
    script = f"""
    import {{ tilesOf }} from "./run/gpu/peeks.js";
    out([...tilesOf(Uint32Array.from({ids.tolist()}))]);
    """
    assert run(modules, script) == TrimmedIds.of(ids).tiles.ravel().tolist()


def test_a_pass_goes_on_where_peeks_stopped(modules: Path) -> None:
    script = """
    import { partsOf } from "./run/gpu/peeks.js";
    const pass = (more) => ({ tokens: 5, rows: 5, done: 0, below: 0, above: 0, first: 0, ...more });
    const onward = [{ done: 2, below: 1 }, { done: 5, below: 1 }];
    const given = [{}, ...onward, { done: 4, below: 1, above: 3, rows: 1 }];
    const said = ({ tokens, first, rows, route }) => [tokens, first, rows, route ?? null];
    out(given.map((more) => partsOf(pass(more)).map(said)));
    """
    whole, some, every, peek = run(modules, script)
    onward = [5, 0, 5, {"below": 0, "above": 1, "source": 1}]
    assert whole == [[5, 0, 5, None]]
    assert some == [[3, 2, 0, {"below": 1, "above": 0}], onward]
    assert every == [onward]
    assert peek == [[1, 4, 1, {"below": 1, "above": 3}]]


def test_an_adapter_whose_compiler_is_slow_is_known_by_its_name(modules: Path) -> None:
    script = """
    import { fuses } from "./run/gpu/adapter.js";
    const slow = { vendor: "google", architecture: "swiftshader" };
    out([slow, { vendor: "intel", description: "Iris" }, undefined].map((info) => fuses({ info })));
    """
    assert run(modules, script) == [False, True, True]


def test_the_probe_compares_bits_and_takes_any_nan_for_another(modules: Path) -> None:
    script = """
    import { bytesOf, compared } from "./run/gpu/probe.js";
    const { results } = read("run/probe.json");
    const right = (one) => new Uint32Array(bytesOf(one.words).buffer);
    const verdicts = results.map((one) => compared(one, right(one)));
    const one = results.find(({ name }) => name === "product");
    const at = (kind) => one.kinds.indexOf(kind);
    const other = (index, word) => {
      const got = right(one);
      got[index] = word ?? got[index] ^ 1;
      const { wrong, flushed } = compared(one, got);
      return [wrong, flushed];
    };
    const nan = right(one).findIndex((word) => (word & 0x7fffffff) > 0x7f800000);
    const found = verdicts.some(({ wrong, flushed }) => wrong || flushed);
    out([found, other(at("2")), other(at("0")), other(nan, 0x7fc12345)]);
    """
    wrong, subnormal, usual, nan = run(modules, script)
    assert not wrong
    assert subnormal == [False, True]
    assert usual == [True, False]
    assert nan == [False, False]
