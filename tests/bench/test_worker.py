"""Workers: what they answer, and what the user reads when they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.bench.harness.runtimes import advice
from edgedec.bench.harness.worker import Side, Worker
from edgedec.core.errors import BackendError, EdgeDecError, UsageError
from tests.bench.support import PROGRAM, Fakes


def ask(side: Side) -> None:
    with Worker(side) as worker:
        worker.open()
        worker.request("generate", tokens=[1], max_tokens=2)


def test_answers_come_through_whatever_the_peer_prints(fakes: Fakes) -> None:
    with Worker(fakes.side("a", seconds=2.5)) as worker:
        assert worker.open()["version"] == "fake 1.0"
        for count in (2, 3):
            answer = worker.request("generate", tokens=[1, 2], max_tokens=count)
            assert answer == {"prefill_s": 2.5, "decode_s": 2.5, "tokens": [0] * count}
        assert worker.request("memory")["peak_rss_bytes"] > 1 << 20
    assert [line["op"] for line in fakes.asked()] == ["open", "generate", "generate"]


def test_the_process_ends_with_the_context(fakes: Fakes) -> None:
    with Worker(fakes.side("a")) as worker:
        worker.open()
        process = worker._process
        assert process.poll() is None
    assert process.returncode == 0
    interrupted = Worker(fakes.side("a"))
    interrupted.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert interrupted._process.returncode is not None


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        ("missing", UsageError, ["has no module llama_cpp", "name a Python", "CMAKE_ARGS="]),
        ("crash", BackendError, ["other crashed (SIGSEGV): the last words", "CMAKE_ARGS="]),
        ("killed", BackendError, ["other crashed (SIGKILL)", "too much memory"]),
        ("exit", BackendError, ["other ended with status 3"]),
        ("error", BackendError, ["other failed: RuntimeError: two lines"]),
    ],
)
def test_trouble_is_one_line(fakes: Fakes, trouble: str, kind: type[EdgeDecError], words: list[str]) -> None:
    with pytest.raises(kind) as caught:
        ask(fakes.side("other", trouble=trouble, advice=advice("llama.cpp")))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_an_interpreter_that_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot run .*no-python: No such file") as caught:
        Worker(Side("other", PROGRAM, Path("model"), python=str(tmp_path / "no-python")))
    assert "name another Python" in str(caught.value)


def test_unknown_requests_are_refused(fakes: Fakes) -> None:
    with Worker(fakes.side("a")) as worker, pytest.raises(BackendError, match="unknown request '__init__'"):
        worker.request("__init__")
