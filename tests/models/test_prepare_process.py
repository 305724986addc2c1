"""A model is prepared in a process of its own, which ends with this one and hands its errors over."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.core import errors
from edgedec.core.errors import DownloadError, EdgeDecError, NotFoundError, Remedy
from edgedec.models import Store, prepare_process
from edgedec.models.prepare_process import described, rebuilt
from tests.fixtures.tiny_gguf import write_tiny
from tests.patience import PATIENCE_S

SLOW = """
import sys, time
from edgedec.models import prepare_worker
from edgedec.models.store import Store

def pull(self, reference, *, progress, **options):
    try:
        progress("download", 1, 2)
        time.sleep(3600)
    finally:
        open(reference, "w").close()

Store.pull = pull
prepare_worker.main(prepare_worker.Order(**prepare_worker.json.loads(sys.argv[1])))
"""
"""A worker that works for an hour, and empties the file it was given when it is ended cleanly."""

REFUSED = """
import atexit, os, signal, sys
from edgedec.models import prepare_worker

atexit.register(os.kill, os.getpid(), signal.SIGTERM)
prepare_worker.main(prepare_worker.Order(**prepare_worker.json.loads(sys.argv[1])))
"""
"""A worker that is told to end while it ends."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "model.gguf", "llama")


def test_a_bundle_is_made_with_progress_and_notices_and_only_once(tmp_path: Path, source: Path) -> None:
    stages: list[str] = []
    store = Store(tmp_path / "home", in_subprocess=True)
    bundle = store.ensure(str(source), progress=lambda stage, done, total: stages.append(stage))
    assert Manifest.load(bundle, verify=True).files
    assert list(dict.fromkeys(stages)) == ["verify", "source", "weights"]
    stages.clear()
    assert store.ensure(str(source), progress=lambda stage, done, total: stages.append(stage)) == bundle
    assert stages == []


def test_this_process_imports_and_keeps_nothing_of_it(tmp_path: Path, source: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from edgedec.models import Store;"
        f"Store(Path({str(tmp_path / 'home')!r}), in_subprocess=True).ensure({str(source)!r});"
        "print([name for name in ('onnx', 'gguf', 'numpy', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_broken_file_is_the_same_error_as_in_this_process(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing else")
    told = []
    for one in (Store(tmp_path / "a"), Store(tmp_path / "b", in_subprocess=True)):
        with pytest.raises(EdgeDecError) as caught:
            one.ensure(str(broken))
        told.append((caught.value.message, caught.value.hint))
    assert told[0] == told[1]


def test_an_unknown_name_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_process, "WORKER", ("/nonexistent",))
    for reference in ("frobnicate", "./frobnicate.gguf"):
        with pytest.raises(NotFoundError):
            Store(tmp_path, in_subprocess=True).ensure(reference)


@pytest.mark.parametrize(
    "error",
    [
        DownloadError("no source", hint="try", remedy=(Remedy("memory", 3), Remedy("pull", "x"))),
        errors.TemplateError("line 3"),
        NotFoundError("no model named tooy", hint="use another", near=("toy", "tool")),
        OSError(28, "No space left on device", "/x"),
        OSError(5, "Input/output error"),
        MemoryError(),
    ],
)
def test_an_error_survives_the_way(error: Exception) -> None:
    again = rebuilt(described(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_an_error_of_another_kind_keeps_its_name() -> None:
    assert str(rebuilt(described(KeyError("x")))) == "KeyError: 'x'"


def test_a_worker_that_dies_is_one_line(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status, words in (("sys.exit(3)", "status 3"), ("os.kill(os.getpid(), 9)", "status -9")):
        monkeypatch.setattr(prepare_process, "WORKER", (sys.executable, "-c", f"import os, sys; {status}"))
        with pytest.raises(errors.BackendError, match=words):
            Store(tmp_path / "home", in_subprocess=True).ensure(str(source))


def test_an_interrupt_ends_the_worker_cleanly(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_process, "WORKER", (sys.executable, "-c", SLOW))

    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path / "home", in_subprocess=True).ensure(str(source), progress=interrupt)
    assert time.monotonic() - begun < PATIENCE_S
    assert source.stat().st_size == 0


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path, source: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from edgedec.models import Store, prepare_process;"
        "prepare_process.WORKER = (sys.executable, '-c', sys.argv[1]);"
        "Store(Path(sys.argv[2]), in_subprocess=True).ensure(sys.argv[3],"
        " progress=lambda stage, done, total: print('up', flush=True))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, SLOW, str(tmp_path / "home"), str(source)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while source.stat().st_size and time.monotonic() < deadline:
        time.sleep(0.02)
    assert source.stat().st_size == 0


def test_a_worker_that_is_ended_after_its_last_message_is_quiet(tmp_path: Path) -> None:
    order = prepare_process.Order(str(tmp_path / "home"), "no-such-model", False, False, None)
    command = [sys.executable, "-c", REFUSED, order.to_json()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stderr is not None
        told, errors_told = worker.stdout.read(), worker.stderr.read()
        assert (worker.wait(PATIENCE_S), errors_told) == (0, "")
    assert "no-such-model" in told
