"""``bench speed --peer native``: a process without Python gives the same tokens, and tells its own memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgedec.bench.harness.memory_levels import Level
from edgedec.bench.harness.runtimes import NATIVE, OwnRun
from edgedec.bench.harness.worker import Worker
from edgedec.core.errors import BackendError
from edgedec.kernels.library import library_path
from tests.bench.test_commands import bench, report
from tests.cli.support import assert_one_line
from tests.fixtures.streamed import sparse_bundle

CONTEXT = 128
PROMPTS = ([5, 17, 3, 3, 42, 8], [5, 17, 9], [0, 0, 1], [7, 7, 8])
ENDS = {0, 2}
"""Tokens that end a text."""


@pytest.fixture
def workers(bundle: Path) -> Iterator[list[Worker]]:
    run = OwnRun(threads=1, context=CONTEXT)
    with Worker(run.side(bundle)) as python, Worker(run.native_side(bundle)) as without:
        yield [python, without]


def test_tokens_are_those_of_python_also_behind_a_token_that_ends_a_text(workers: list[Worker]) -> None:
    opened = [worker.open() for worker in workers]
    assert opened[0]["isa"] == opened[1]["isa"]
    assert opened[0]["planned_bytes"] == opened[1]["planned_bytes"]
    for prompt in PROMPTS:
        room = CONTEXT - len(prompt)
        found = [worker.request("generate", tokens=prompt, max_tokens=room) for worker in workers]
        assert found[0]["tokens"] == found[1]["tokens"]
        assert found[1].keys() == {"prefill_s", "decode_s", "tokens"}
        assert min(found[1]["prefill_s"], found[1]["decode_s"]) > 0
    assert ENDS & set(found[1]["tokens"])  # of the last prompt
    peaks = [worker.request("memory")["peak_rss_bytes"] for worker in workers]
    assert 0 < peaks[1] < peaks[0]


@pytest.mark.parametrize(("prompt", "words"), [([1 << 30], "outside the vocabulary"), ([3] * 200, "context")])
def test_a_prompt_that_cannot_be_ends_it_with_the_reason(
    prompt: list[int], words: str, bundle: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Worker(OwnRun(threads=1, context=CONTEXT).native_side(bundle)) as worker:
        worker.open()
        with pytest.raises(BackendError, match=f"native failed: .*{words}"):
            worker.request("generate", tokens=prompt, max_tokens=4)


def test_int8_keys_give_the_tokens_of_python_in_less_memory(bundle: Path) -> None:
    found, planned = [], []
    for kv in ("fp16", "int8"):
        run = OwnRun(threads=1, context=CONTEXT, kv=kv)
        for side in (run.side(bundle), run.native_side(bundle)):
            with Worker(side) as worker:
                planned.append(worker.open()["planned_bytes"])
                found.append(worker.request("generate", tokens=[5, 17, 3], max_tokens=CONTEXT - 3)["tokens"])
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert planned[0] == planned[1]
    assert planned[2] == planned[3]
    assert planned[2]["kv_cache"] < planned[0]["kv_cache"]


def test_it_is_a_peer_of_the_command_and_reads_no_gguf_file(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("hello world\n", encoding="utf-8")
    asked = ["speed", "-m", str(bundle), "--peer", NATIVE, "--threads", "1", "--repeat", "1"]
    asked += ["--max-tokens", "4", "--input", str(tmp_path / "prompt.txt")]
    facts = report(bench(tmp_path, *asked, "--json"))
    assert list(facts["sides"]) == ["edgedec", NATIVE]
    assert facts["ratios"][NATIVE].keys() == {"decode", "prefill", "load", "peak_rss"}
    assert facts["roof"].keys() == {"edgedec", NATIVE}
    assert "ratio to native" in bench(tmp_path, *asked).stdout


@pytest.mark.usefixtures("unmetered")
def test_peaks_of_memory_are_those_of_its_program_also_within_a_budget(bundle: Path, tmp_path: Path) -> None:
    asked = ["memory", "-m", str(bundle), "--threads", "1", "--memory", "300MB", "--memory", "-30%"]
    facts = report(bench(tmp_path, *asked, "--peer", NATIVE, "--json"))
    found = facts["sides"]
    within = f"{NATIVE} at 300MB"
    assert list(found)[-2:] == [NATIVE, within]  # a share is of memory that Python plans
    assert facts["energy"]["sides"].keys() == found.keys()
    for name in (NATIVE, within):
        side = found[name]
        assert 0 < side["private_bytes"] < found["edgedec"]["private_bytes"]
        assert side["mapped_bytes"] + side["private_bytes"] <= 1.01 * side["peak_rss_bytes"] < 300_000_000


def test_within_a_size_experts_come_from_the_disk_on_both_sides(tmp_path: Path) -> None:
    bundle = sparse_bundle(tmp_path)
    run = OwnRun(threads=1, context=CONTEXT, level=Level("size", 500_000_000))
    found = []
    for side in (run.side(bundle), run.native_side(bundle)):
        with Worker(side) as worker:
            facts = worker.open()
            found.append(worker.request("generate", tokens=[5, 17, 3], max_tokens=20)["tokens"])
            assert "native" in side.name or facts["memory"]["parts"]["experts"] > 0
    assert found[0] == found[1]


def test_a_budget_that_is_too_small_is_refused(bundle: Path) -> None:
    run = OwnRun(threads=1, context=CONTEXT, level=Level("size", 1_000_000))
    with Worker(run.native_side(bundle)) as worker:
        assert "does not fit 1.0 MB" in worker.open()["refused"]


def test_without_its_program_it_is_refused(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tmp_path / library_path().name
    alone.symlink_to(library_path())
    monkeypatch.setattr("edgedec.kernels.library.library_path", lambda: alone)
    result = bench(tmp_path, "speed", "-m", str(bundle), "--peer", NATIVE)
    assert_one_line(result, 9, "edgedec_host is missing", "install EdgeDec again")
