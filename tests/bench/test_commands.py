"""``edgedec bench`` from the command line, on a model of random weights."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from edgedec.bench.harness import runtimes
from edgedec.bench.studies.weights import PassWeights, pass_weights
from edgedec.cli.bench.options import PeerOptions
from edgedec.cli.services import Services
from edgedec.export import export_gguf
from edgedec.metrics.mbsu import Weights
from edgedec.models import Store
from tests.bench.support import Fakes, estimated
from tests.cli.support import assert_one_line, run
from tests.fixtures.tiny_gguf import write_tiny

MATRICES = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3)
"""Elements of the matrices of the layers of the tiny model; q8_0 takes 34 bytes for 32 of them."""


def bench(folder: Path, *args: str) -> Result:
    services = Services(store=lambda: Store(folder / "home"), bandwidth=lambda size, threads: 10.0)
    return run(services, "bench", *args)


def report(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert isinstance(facts, dict)
    return facts


def test_kernels(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEDEC_ISA", "scalar")
    model = ["-m", str(folder / "bundle"), "--threads", "1", "--resident", "8", "--repeat", "3"]
    facts = report(bench(folder, "kernels", *model, "--tokens", "4,2", "--json"))
    assert (facts["isa"], facts["threads"], facts["bandwidth_gb_s"]) == ("scalar", 1, 10.0)
    assert [cost["tokens"] for cost in facts["passes"]] == [1, 2, 4]
    assert facts["passes"][0]["relative"] == 1.0
    for cost in facts["passes"]:
        assert 0 < cost["ms_low"] <= cost["ms"] <= cost["ms_high"]
    expected = facts["weight_bytes"] / (facts["passes"][0]["ms"] * 1e-3) / 10e9
    assert facts["bandwidth_fraction"] == pytest.approx(expected, rel=1e-4)
    table = bench(folder, "kernels", *model, "--tokens", "1,2").stdout
    assert "relative" in table
    assert "of 10.0 GB/s" in table


def test_kernels_behind_several_numbers_of_tokens(folder: Path) -> None:
    """Each pass names its own, and is relative to that over one token behind as many."""
    model = ["-m", str(folder / "bundle"), "--threads", "1", "--repeat", "2", "--tokens", "1,2"]
    facts = report(bench(folder, "kernels", *model, "--resident", "40,0", "--json"))
    assert facts["resident_tokens"] == [0, 40]
    named = [(cost["resident_tokens"], cost["tokens"]) for cost in facts["passes"]]
    assert named == [(0, 1), (0, 2), (40, 1), (40, 2)]
    assert [facts["passes"][at]["relative"] for at in (0, 2)] == [1.0, 1.0]
    assert set(facts["energy"]["sides"]) == {"1 behind 0", "2 behind 0", "1 behind 40", "2 behind 40"}
    one = report(bench(folder, "kernels", *model, "--resident", "40", "--json"))
    assert one["resident_tokens"] == 40
    assert set(facts["passes"][0]) - set(one["passes"][0]) == {"resident_tokens"}
    assert set(facts) == set(one)
    table = bench(folder, "kernels", *model, "--resident", "0,40").stdout
    assert "resident" in table
    assert "40 tokens resident" in bench(folder, "kernels", *model, "--resident", "40").stdout


@pytest.mark.parametrize("given", ["-1", "0,x", "", "4,,8"])
def test_numbers_of_resident_tokens_that_are_none_are_refused(folder: Path, given: str) -> None:
    refused = bench(folder, "kernels", "-m", str(folder / "bundle"), "--resident", given)
    assert refused.exit_code != 0
    assert "is not a list of numbers from 0 on" in refused.output


def test_weights_read_leave_out_an_embedding_that_is_only_looked_up(folder: Path, tmp_path: Path) -> None:
    export_gguf(write_tiny(tmp_path / "untied.gguf", tied=False), tmp_path / "untied")
    tied, untied = pass_weights(folder / "bundle"), pass_weights(tmp_path / "untied")
    assert tied.streamed == untied.streamed
    assert tied.streamed > MATRICES * 34 // 32
    assert tied.lookup == 0
    assert untied.lookup == untied.head == tied.head > 0


def test_a_trimmed_head_reads_less_and_has_as_many_parameters_where_it_is_the_embedding() -> None:
    tied, untied = PassWeights(100, 60), PassWeights(100, 60, 50)
    assert tied.trimmed(0.25) == Weights(55.0, 45.0)
    assert tied.trimmed(0.25).parameters == tied.trimmed(1.0).parameters == 100.0
    assert untied.trimmed(0.25) == Weights(55.0, 50.0)


def test_run_alone(folder: Path) -> None:
    args = ["-m", str(folder / "bundle"), "--threads", "1", "--repeat", "2", "--max-tokens", "4"]
    (folder / "prompt.txt").write_text("The cat sat on the mat.\n", encoding="utf-8")
    args += ["--input", str(folder / "prompt.txt")]
    facts = report(bench(folder, "speed", *args, "--json"))
    (length,) = facts["prompt_tokens"]
    ours = facts["sides"]["edgedec"]
    assert ours["decode_tokens_per_s"]["median"] > 0
    assert ours["prefill_tokens_per_s"]["median"] > 0
    assert ours["load_s"]["median"] > 0
    assert ours["peak_rss_bytes"] > 10 << 20
    table = bench(folder, "speed", *args).stdout
    assert "decode tok/s" in table
    assert f"KV cache in fp16, 1 prompts of {length} to {length} tokens" in table


def test_run_alone_with_keys_and_values_in_int8(folder: Path) -> None:
    args = ["-m", str(folder / "bundle"), "--threads", "1", "--repeat", "1", "--max-tokens", "4"]
    exact, smaller = (report(bench(folder, "speed", *args, "--kv", kv, "--json")) for kv in ("fp16", "int8"))
    assert [exact["kv"], smaller["kv"]] == ["fp16", "int8"]
    planned = [facts["sides"]["edgedec"]["memory_bytes"]["kv_cache"] for facts in (exact, smaller)]
    assert planned[1] < planned[0]
    reads = [facts["roof"]["edgedec"]["bytes_per_token"] for facts in (exact, smaller)]
    assert reads[1] < reads[0]
    assert "KV cache in int8" in bench(folder, "speed", *args, "--kv", "int8").stdout


@pytest.fixture
def fake_peers(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Every peer of the commands is a fake that takes 1 s for everything."""
    monkeypatch.setattr(runtimes, "peer_side", lambda name, run: fakes.side(name))
    return fakes


def test_all_peers_in_one_run(folder: Path, tmp_path: Path, fake_peers: Fakes) -> None:
    args = ["-m", str(folder / "tiny.gguf"), "--threads", "1"]
    args += ["--repeat", "1", "--max-tokens", "3", "--peer", ",".join(runtimes.OTHERS)]
    facts = report(bench(folder, "speed", *args, "--json"))
    assert list(facts["sides"]) == ["edgedec", *runtimes.OTHERS]
    assert list(facts["ratios"]) == list(runtimes.OTHERS)
    for name in runtimes.OTHERS:
        assert facts["sides"][name]["decode_tokens_per_s"]["median"] == 2.0
        assert set(facts["ratios"][name]) == {"decode", "prefill", "load", "peak_rss"}
        assert "memory_bytes" not in facts["sides"][name]
    memory = facts["sides"]["edgedec"]["memory_bytes"]
    assert memory["weights"] >= (folder / "bundle" / "weights.bin").stat().st_size  # whole pages
    assert sum(memory.values()) == facts["sides"]["edgedec"]["peak_rss_bytes"]
    assert len(fake_peers.asked("generate")) == (1 + 4) * len(runtimes.OTHERS)
    table = bench(folder, "speed", *args).stdout
    assert all(f"ratio to {name}" in table for name in runtimes.OTHERS)
    assert re.search(
        r"^edgedec: peak [0-9.]+ MB = weights 0\.. MB \+ kv cache 0\.. MB \+ [0-9.]+ MB$", table, re.M
    )
    assert "peak RSS: VmHWM of each side's process" in table


def test_passes_beside_a_peer(folder: Path, tmp_path: Path, fake_peers: Fakes) -> None:
    args = ["-m", str(folder / "tiny.gguf"), "--threads", "1"]
    args += ["--repeat", "2", "--resident", "8", "--tokens", "2", "--peer", "llama.cpp"]
    facts = report(bench(folder, "kernels", *args, "--json"))
    theirs = facts["peers"]["llama.cpp"]
    assert [(cost["tokens"], cost["ms"], cost["relative"]) for cost in theirs] == [(1, 1e3, 1), (2, 1e3, 1)]
    assert theirs[0]["ratio"] > 1
    assert facts["versions"] == {"llama.cpp": "fake 1.0"}
    table = bench(folder, "kernels", *args).stdout
    assert "llama.cpp ms" in table
    assert "llama.cpp: fake 1.0" in table


@pytest.mark.usefixtures("unmetered")
def test_faithful(folder: Path) -> None:
    args = ["-m", str(folder / "tiny.gguf"), "--threads", "1"]
    args += ["--input", str(folder / "text.txt"), "--tokens", "50"]
    facts = report(bench(folder, "accuracy", *args, "--json"))
    assert "edgedec" in estimated(facts)
    ours = facts["sides"]["edgedec"]
    assert ours["positions"] == 50
    assert ours["top1_agreement"] == 1 - ours["disagreements"] / 50 > 0.8
    assert 0 < ours["kl_median"] <= ours["kl_p99"] <= ours["kl_max"]
    assert abs(ours["perplexity"] - ours["reference_perplexity"]) < 0.05 * ours["reference_perplexity"]
    told = bench(folder, "accuracy", *args).stdout
    assert "same top-1" in told
    assert "mJ/token read: an estimate with its bounds, not a measurement" in told


def test_faithful_to_the_cache_in_fp16(folder: Path) -> None:
    args = ["-m", str(folder / "bundle"), "--threads", "1", "--input", str(folder / "text.txt")]
    args += ["--tokens", "50", "--reference", "fp16"]
    exact, lossy = (report(bench(folder, "accuracy", *args, "--json", "--kv", kv)) for kv in ("fp16", "int8"))
    assert exact["sides"]["edgedec"]["kl_max"] == 0.0
    assert 0 < lossy["sides"]["edgedec"]["kl_mean"] < 0.1
    assert "KV cache in fp16, perplexity" in bench(folder, "accuracy", *args).stdout


def test_faithful_with_a_cache_that_is_too_small(folder: Path) -> None:
    """Of windows of 256 tokens the cache has room for half."""
    args = ["-m", str(folder / "bundle"), "--threads", "1", "--input", str(folder / "text.txt")]
    args += ["--tokens", "256", "--reference", "fp16", "--json"]
    means = []
    for policy in ("slide", "speckv"):
        facts = report(bench(folder, "accuracy", *args, "--when-full", policy))
        found = facts["sides"]["edgedec"]
        assert (facts["when_full"], facts["context"], found["positions"]) == (policy, 128, 256)
        assert 0 < found["kl_mean"] < found["kl_p99"]
        means.append(found["kl_mean"])
    assert means[0] != means[1]


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["kernels", "--tokens", "1,x"], 2, ["--tokens 1,x"]),
        (["kernels", "--tokens", "513"], 2, ["a context of 641 tokens"]),
        (["kernels", "--peer", "transformers"], 2, ["transformers cannot take tokens back", "llama.cpp"]),
        (["kernels", "--peer", "llama.cpp"], 2, ["--keep-source"]),
        (["speed", "--peer", "lama.cpp"], 2, ["lama.cpp", "known: ", "llama.cpp"]),
        (["speed", "--peer", "llama.cpp,llama.cpp"], 2, ["llama.cpp is named twice"]),
        (["speed", "--peer", "llama.cpp"], 2, ["--keep-source"]),
        (["speed", "--gguf", "none.gguf"], 2, ["no such option: --gguf", "give -m FILE"]),
        (["speed", "--input", "none.jsonl"], 3, ["no such file: none.jsonl"]),
        (["speed", "--max-tokens", "1000"], 2, ["context of 1", "at most 256"]),
        (["accuracy", "--input", "none.txt", "--peer", "openvino-genai"], 2, ["does not give its logits"]),
        (["accuracy", "--input", "none.txt"], 3, ["no such file: none.txt"]),
        (["accuracy", "--input", "none.txt", "--limit", "3"], 2, ["--limit does not belong to faithful"]),
        (["accuracy"], 2, ["name it with --input FILE"]),
    ],
)
def test_errors_are_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], status: int, words: list[str]
) -> None:
    assert_one_line(bench(folder, *args, "-m", str(folder / "bundle")), status, *words)


def test_too_little_text_is_one_line(folder: Path) -> None:
    args = ["--input", str(folder / "text.txt"), "--tokens", "100000"]
    assert_one_line(bench(folder, "accuracy", "-m", str(folder / "bundle"), *args), 2, "100000 are wanted")


def test_interpreters_of_peers() -> None:
    peers = ("llama.cpp, openvino-genai,transformers=/a=b/python",)
    options = PeerOptions(model="m", threads=None, as_json=False, peers=peers)
    run = runtimes.PeerRun(Path("m.gguf"), 1, 1, Path("cache"), options.pythons)
    names = options.peer_names(runtimes.OTHERS, "cannot")
    assert names == ["llama.cpp", "openvino-genai", "transformers"]
    assert [run.python(name) for name in names] == [sys.executable, sys.executable, "/a=b/python"]
