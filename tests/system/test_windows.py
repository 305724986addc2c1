"""Windows' file of each module, on stand-ins for its calls."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgedec.system import (
    files,
    places,
    psutil_cores,
    psutil_memory,
    windows_endings,
    windows_limits,
    windows_locks,
    windows_memory,
    windows_processor,
    windows_terminal,
    windows_times,
)
from tests.patience import PATIENCE_S
from tests.system.standing_in import filled, library, module

MB = 1 << 20


def psutil(monkeypatch: pytest.MonkeyPatch, **more: Any) -> SimpleNamespace:
    """A process with a working set of 300 MB, 120 of them its own; 4 of 8 cores are its."""
    told = SimpleNamespace(rss=300 * MB, private=120 * MB, peak_wset=340 * MB)
    asked = list[int | None]()

    class Process:
        def __init__(self, pid: int | None = None) -> None:
            asked.append(pid)

        def memory_info(self) -> SimpleNamespace:
            return told

        def cpu_affinity(self) -> list[int]:
            return [0, 1, 4, 5]

    memory = SimpleNamespace(total=16 << 30, available=9 << 30)
    times = SimpleNamespace(user=7.0, system=2.0, idle=90.0)
    facts = {"virtual_memory": lambda: memory, "cpu_count": lambda logical: 3, "cpu_times": lambda: times}
    return module(monkeypatch, "psutil", Process=Process, asked=asked, **facts, **more)


def test_memory_is_private_bytes_and_its_peak_the_working_set(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = psutil(monkeypatch)
    assert windows_memory.rss_bytes() == 120 * MB
    assert windows_memory.peak_rss_bytes() == 340 * MB
    assert windows_memory.mapped_rss_bytes("weights.bin") == 0
    assert windows_memory.parts_of(77) == (180 * MB, 120 * MB)
    assert calls.asked[-1] == 77
    assert (psutil_memory.total_bytes(), psutil_memory.available_bytes()) == (16 << 30, 9 << 30)
    assert psutil_memory.ranges(Path("weights.bin")) == []
    assert "private bytes" in windows_memory.COUNTED


def test_cores_are_those_of_the_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    psutil(monkeypatch)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert list(psutil_cores.allowed()) == [0, 1, 4, 5]
    assert psutil_cores.physical() == 3
    assert psutil_cores.busy_s() == 9.0
    assert psutil_cores.load_average() is None
    assert psutil_cores.quota_cores() is None


def test_the_registry_names_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(root: int, path: str) -> Iterator[str]:
        assert root == 7
        assert path.endswith(r"CentralProcessor\0")
        yield "key"

    values = {("key", "ProcessorNameString"): ("  Imaginary CPU 9000  ", 1)}
    registry = module(monkeypatch, "winreg", HKEY_LOCAL_MACHINE=7, OpenKey=opened)
    registry.QueryValueEx = lambda key, name: values[key, name]
    assert windows_processor.cpu_name() == "Imaginary CPU 9000"

    def refused(root: int, path: str) -> None:
        raise OSError

    registry.OpenKey = refused
    assert windows_processor.cpu_name() == ""


def test_the_kernel_tells_features(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, "kernel32", IsProcessorFeaturePresent=lambda number: int(number in (39, 40)))
    wanted = ("sse4_2", "fma", "avx", "avx2", "avx512f", "asimddp")
    assert windows_processor.cpu_features(wanted) == ("avx", "avx2")


class Locks:
    """``msvcrt`` over one file whose bytes processes lock."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.held = dict[int, range]()

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        assert mode == self.LK_NBLCK
        start = os.lseek(descriptor, 0, os.SEEK_CUR)
        mine = range(start, start + count)
        for one, other in self.held.items():
            if one != descriptor and other.start < mine.stop and mine.start < other.stop:
                raise PermissionError
        self.held[descriptor] = mine


def test_locks_are_alone_or_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = Locks()
    monkeypatch.setitem(sys.modules, "msvcrt", locks)  # type: ignore[arg-type]
    places = iter([10, 20, 30])
    monkeypatch.setattr(windows_locks.secrets, "randbelow", lambda most: next(places))
    one, two, three = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3))
    try:
        assert windows_locks.lock(one, share=True)
        assert windows_locks.lock(two, share=True)
        assert not windows_locks.lock(three)
        del locks.held[one], locks.held[two]
        assert windows_locks.lock(three)
        assert not windows_locks.lock(one, share=True)
    finally:
        for descriptor in (one, two, three):
            os.close(descriptor)


def test_a_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = Locks()
    monkeypatch.setitem(sys.modules, "msvcrt", locks)  # type: ignore[arg-type]
    waited = list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            locks.held.clear()

    monkeypatch.setattr(windows_locks.time, "sleep", sleep)
    locks.held[-1] = range(1 << 16)
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        assert windows_locks.lock(descriptor, wait=True)
    finally:
        os.close(descriptor)
    assert len(waited) == 3
    assert not windows_locks.LOCKS_FOLDERS


ENDS = """
import sys
from edgedec.system import windows_limits
windows_limits._BUSY = 1.0
print("begun", flush=True)
windows_limits.{}
while True:
    pass
"""


@pytest.mark.parametrize("call", ["end_after(0.2)", "end_when_idle(0.2)", "interrupt_after(0.2)"])
def test_the_watchdog_ends_a_process_and_writes_where_it_was(call: str) -> None:
    command = [sys.executable, "-c", ENDS.format(call)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == windows_limits.TIME_UP == windows_limits.IDLE
    assert done.stdout.startswith("begun\n")
    assert '<string>", line ' in done.stdout


def test_time_that_is_not_up_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda after, **more: asked.append(after))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: asked.append("cancelled"))
    windows_limits.end_after(1.5)
    windows_limits.end_after(0)
    assert asked == [12.0, "cancelled"]


@pytest.mark.parametrize("fault", ["", "joins no job", "sets no limit", "forgets it"])
def test_memory_is_limited_by_a_job_of_its_own(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """Its struct's places are those of winnt.h; ``tests/windows/test_jobs.py`` asks a compiler for them."""
    kept, joined = bytearray(144), list[tuple[int, int]]()

    def told(process: ctypes.c_void_p, place: Any, size: int) -> int:
        assert size == 72
        filled(place, windows_limits.Counters, committed=50 * MB)
        return 1

    def join(job: ctypes.c_void_p, process: ctypes.c_void_p) -> int:
        joined.append((job.value or 0, process.value or 0))
        return int(fault != "joins no job")

    def limit(job: ctypes.c_void_p, kind: int, place: Any, size: ctypes.c_uint32) -> int:
        assert (kind, size.value) == (9, 144)
        kept[:] = ctypes.string_at(ctypes.cast(place, ctypes.c_void_p), 144)
        return int(fault != "sets no limit")

    def ask(job: ctypes.c_void_p, kind: int, place: Any, size: ctypes.c_uint32, written: None) -> int:
        told = bytes(144) if fault == "forgets it" else bytes(kept)
        ctypes.memmove(ctypes.cast(place, ctypes.c_void_p), told, 144)
        return 1

    calls = {"CreateJobObjectW": lambda security, name: 30, "AssignProcessToJobObject": join}
    calls |= {"SetInformationJobObject": limit, "QueryInformationJobObject": ask}
    calls |= {"GetCurrentProcess": lambda: 7, "K32GetProcessMemoryInfo": told}
    library(monkeypatch, "kernel32", **calls)
    windows_limits._own_job.cache_clear()
    assert windows_limits.LIMITS_MEMORY
    assert windows_limits.address_space() == 50 * MB
    if fault:
        with pytest.raises(OSError, match=r"^Windows .* this process"):
            windows_limits.limit_address_space(64 * MB)
        return
    for nbytes in (64 * MB, 80 * MB):
        windows_limits.limit_address_space(nbytes)
        assert int.from_bytes(kept[112:120], "little") == nbytes
        assert kept[16:20] == b"\0\1\0\0"
    assert joined == [(30, 7)]


@pytest.mark.parametrize(
    ("status", "by", "killed"),
    [
        (0, None, False),
        (1, None, False),
        (0xC0000005, "access violation", False),
        (-1073741819, "access violation", False),  # as Python has it where a status is signed
        (0xC00000FD, "stack overflow", False),
        (0xC0000017, "no memory", True),
        (0xC0000999, "fault 0xc0000999", False),
    ],
)
def test_statuses_name_faults(status: int, by: str | None, killed: bool) -> None:
    assert windows_endings.ended_by(status) == by
    assert windows_endings.was_killed(status) == killed


def test_requests_to_end_are_signals_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = list[int]()
    monkeypatch.setattr("_thread.interrupt_main", sent.append)
    windows_endings.interrupt()
    windows_endings.terminate()
    assert sent == [signal.SIGINT, signal.SIGTERM]
    assert windows_endings.TERMINATIONS[0] == signal.SIGTERM
    assert windows_endings.own_group() == {"creationflags": 0x200}


def test_a_process_is_asked_to_end_by_the_end_of_its_input() -> None:
    reads, pipes = [sys.executable, "-c", "input()"], {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(reads, **pipes) as one:  # type: ignore[call-overload]
        windows_endings.ask_to_end(one)
        assert one.wait(PATIENCE_S) == 1  # EOFError, not a signal
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        windows_endings.ask_to_end(other)
        assert other.wait(PATIENCE_S) != 0


@pytest.mark.parametrize(
    ("mode", "takes", "obeys", "asked"),
    [(None, 1, False, []), (3, 1, True, [7]), (3, 0, False, [7]), (7, 1, True, [])],
)
def test_a_console_is_asked_to_obey_sequences(
    monkeypatch: pytest.MonkeyPatch, mode: int | None, takes: int, obeys: bool, asked: list[int]
) -> None:
    def told(console: ctypes.c_void_p, place: Any) -> int:
        assert console.value == 55
        if mode is not None:
            ctypes.cast(place, ctypes.POINTER(ctypes.c_uint32)).contents.value = mode
        return int(mode is not None)

    calls = library(
        monkeypatch, "kernel32", GetStdHandle=lambda which: 55, GetConsoleMode=told,
        SetConsoleMode=lambda console, wanted: takes,
    )  # fmt: skip
    assert windows_terminal.obeys_sequences() == obeys
    assert [wanted for _, wanted in calls.SetConsoleMode.calls] == asked
    assert calls.GetStdHandle.calls == [(-11,)]


def test_the_store_stays_on_this_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert places.cache_folder("win32") == tmp_path
    monkeypatch.delenv("LOCALAPPDATA")
    assert places.cache_folder("win32") == Path.home() / "AppData" / "Local"
    assert places.scripts_folder("win32").name == "Scripts"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("weights.bin", None),
        ("Größe 2.onnx", None),
        ("nul", "device"),
        ("COM1.txt", "device"),
        ("console", None),
        ("a:b", "':'"),
        ("a\\b", "character"),
        ("a\tb", "character"),
        ("end.", "dot or a space"),
        ("end ", "dot or a space"),
    ],
)
def test_names_that_files_may_have(name: str, wrong: str | None) -> None:
    found = files.wrong_with_name(name, "win32")
    assert (found is None) == (wrong is None)
    assert wrong is None or wrong in str(found)
    assert files.wrong_with_name(name, "linux") is None


@pytest.mark.parametrize(("holds", "fails"), [(0, False), (3, False), (99, True)])
def test_a_rename_waits_for_who_holds_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: int, fails: bool
) -> None:
    source, target, tries = tmp_path / "new", tmp_path / "old", list[float]()
    source.write_text("new")
    target.write_text("old")
    plain = os.replace

    def replace(one: Path, other: Path) -> None:
        if len(tries) < holds:
            raise PermissionError(13, "held")
        plain(one, other)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(files.time, "sleep", tries.append)
    if fails:
        with pytest.raises(PermissionError):
            files.replace(source, target, "win32")
        assert sum(tries) < 1.0
    else:
        files.replace(source, target, "win32")
        assert len(tries) == holds
    assert target.read_text() == ("old" if fails else "new")


def test_addresses_of_files_begin_with_the_drive() -> None:
    assert places.local_path("/C:/Users/Jörg Ä/edgedec", "win32") == Path("C:/Users/Jörg Ä/edgedec")
    assert places.local_path("/srv/edgedec", "win32") == Path("/srv/edgedec")
    assert places.local_path("/C:/odd", "linux") == Path("/C:/odd")


def test_libraries_and_programs_have_windows_names() -> None:
    assert places.library_name("edgedec_kernels", "win32") == "edgedec_kernels.dll"
    assert places.versioned_names("onnxruntime", "win32") == "onnxruntime.dll"
    assert places.program_name("edgedec_host", "win32") == "edgedec_host.exe"


@pytest.mark.parametrize("told", [True, False])
def test_the_time_of_a_change_is_asked_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: bool
) -> None:
    def tell(handle: ctypes.c_void_p, kind: int, place: Any, size: ctypes.c_uint32) -> int:
        assert (handle.value, kind, size.value) == (90, 0, 40)
        filled(place, windows_times.BasicInfo, created=1, written=2, changed=3)
        return int(told)

    module(monkeypatch, "msvcrt", get_osfhandle=lambda descriptor: 90)
    library(monkeypatch, "kernel32", GetFileInformationByHandleEx=tell)
    (tmp_path / "file").touch()
    if told:
        assert windows_times.changed(tmp_path / "file") == 3
        return
    with pytest.raises(OSError, match="does not tell the times"):
        windows_times.changed(tmp_path / "file")


@pytest.mark.parametrize(
    ("word", "typed"),
    [
        (".[gpu]", ".[gpu]"),
        (r"C:\wheels\edgedec_runtime-0.1.0-py3-none-win_amd64.whl[gpu]", None),
        (r"C:\Users\Jörg Ä\a.whl[gpu]", r'"C:\Users\Jörg Ä\a.whl[gpu]"'),
        ("wgpu>=0.32", '"wgpu>=0.32"'),
        ("edgedec-runtime[gpu] @ git+https://a/b", '"edgedec-runtime[gpu] @ git+https://a/b"'),
        ("a&calc", '"a&calc"'),
        ("it's", '"it\'s"'),
        ("D:\\my clone\\", '"D:\\my clone\\\\"'),
        ("", '""'),
    ],
)
def test_words_of_a_command_line_are_in_double_quotes(word: str, typed: str | None) -> None:
    assert places.quoted(word, "win32") == (typed or word)
    back = subprocess.list2cmdline([word])
    if "\\" in word and back.startswith('"'):
        assert places.quoted(word, "win32") == back
    assert places.quoted(word, "linux") == shlex.quote(word)
