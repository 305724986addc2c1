"""Whole models in the aarch64 build of ONNX Runtime, in qemu: the tokens, and every bit of the head, of x86.

Needs that build: unpack the wheel for Arm and point EDGEDEC_ORT_AARCH64 at its libonnxruntime.so.*
(CONTRIBUTING.md has the commands). Real models come from the store (EDGEDEC_HOME).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from edgedec.backends.onnx import model as onnx
from edgedec.backends.onnx.forward import OnnxForward
from edgedec.backends.onnx.model import OnnxModel
from edgedec.bundle.manifest import MODEL, Manifest
from edgedec.core.cache_config import CacheConfig
from edgedec.core.rows import LAST_ROW, HeadRows, Rows
from edgedec.decode.engine import Engine
from edgedec.models import Store
from edgedec.sampling import DrawParams
from edgedec.text.tokenizer import Tokenizer
from tests.conftest import ROOT
from tests.integration.test_instruction_sets import bundle, check_tree
from tests.kernels.arm import ArmLibrary, needs_arm, sysroot
from tests.kernels.arm_build import BUILD, COMPILER, build, run
from tests.kernels.float_rows import pointer

__all__ = ["bundle"]  # a fixture

pytestmark = [needs_arm, pytest.mark.slow]

INPUTS = (
    "tokens", "positions", "parents", "length", "rows", "want_logits", "kv_cache", "temperature", "kv_window",
)  # fmt: skip
CORES = {"max": "neon_i8mm", "cortex-a76": "neon_dotprod", "cortex-a53": "scalar"}
"""Emulated CPU -> the row that its capabilities lead to."""
REAL = {"smollm2-135m": 32, "gemma3-270m": 8}
"""Recipe -> length of a reply. A pass takes seconds in qemu."""
OUTPUTS = ("values", "ids", "logsumexp", "entropy", "logits")
CPUINFO = """processor : {0}
BogoMIPS : 50.00
Features : fp asimd
CPU implementer : 0x41
CPU architecture: 8
CPU variant : 0x0
CPU part : 0xd0c
CPU revision : 1

"""


def runtime() -> Path:
    """ONNX Runtime's library for Arm, of the version that is installed here."""
    path = Path(os.environ.get("EDGEDEC_ORT_AARCH64", ""))
    if path.is_file():
        return path
    wheel = f"--platform manylinux_2_28_aarch64 --only-binary=:all: onnxruntime=={onnxruntime.__version__}"
    pytest.fail(
        "this test needs EDGEDEC_ORT_AARCH64=FOLDER/onnxruntime/capi/libonnxruntime.so.*, from the wheel that"
        f" `pip download --no-deps {wheel}` fetches, unpacked",
        pytrace=False,
    )


def root() -> Path:
    """Where qemu looks first: the C library, and CPUs in /proc and /sys: the runtime crashes without."""
    folder = BUILD / "root"
    cpus = folder / "sys" / "devices" / "system" / "cpu"
    for path, text in (
        (folder / "proc" / "cpuinfo", CPUINFO.format(0) + CPUINFO.format(1)),
        *((cpus / name, "0-1\n") for name in ("possible", "present", "online")),
        (cpus / "kernel_max", "1\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not (folder / "lib").is_symlink():
        (folder / "lib").symlink_to(sysroot() / "lib")
    return folder


def host() -> Path:
    build()
    source, library = ROOT / "tests" / "integration" / "arm_model.cc", BUILD / "libarm_model.so"
    flags = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", ROOT / "kernels")
    run(COMPILER, *flags, source, "-o", library, "-ldl")
    return library


class ArmBinding:
    """Stands for onnxruntime.IOBinding: which memory belongs to which name."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._iobinding = self  # of which a pass is a call, without the checks for other devices

    def bind_input(
        self, name: str, device: str, index: int, kind: type, shape: tuple[int, ...], at: int
    ) -> None:
        kind_of = np.dtype(kind)
        size = int(np.prod(shape)) * kind_of.itemsize
        memory = (ctypes.c_char * size).from_address(at) if size else b""
        self.arrays[name] = np.frombuffer(memory, kind_of).reshape(shape)

    bind_output = bind_input


class ArmSession:
    """Stands for onnxruntime.InferenceSession: the same graph, run on the emulated CPU."""

    def __init__(self, library: ArmLibrary, model: Path) -> None:
        self.library, self._sess = library, self
        for function in (library.edgedec_model_open, library.edgedec_model_run):
            function.restype = ctypes.c_char_p
        self.check(library.edgedec_model_open(bytes(runtime()), bytes(build()[0]), bytes(model), 2))

    def row(self) -> str:
        """The kernel row that runs."""
        function = self.library.edgedec_model_row
        function.restype = ctypes.c_char_p
        return str(function().decode())

    def check(self, problem: bytes | None) -> None:
        assert problem is None, problem

    def io_binding(self) -> ArmBinding:
        return ArmBinding()

    def run_with_iobinding(self, binding: ArmBinding, options: None = None) -> None:
        arrays = {"kv_window": np.zeros((0, 2, 1, 1, 1), np.float16), **binding.arrays}
        sizes = (len(arrays["tokens"]), *arrays["values"].shape, *arrays["logits"].shape)
        shapes = np.array([*sizes, *arrays["kv_cache"].shape, *arrays["kv_window"].shape], np.int64)
        every = [pointer(arrays[name]) for name in INPUTS + OUTPUTS]
        self.check(self.library.edgedec_model_run(pointer(shapes), *every))


@pytest.fixture(params=CORES)
def on_arm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Calling it lets every later OnnxForward run on an emulated CPU, which chooses its own row."""
    opened: list[ArmLibrary] = []

    def open_session(folder: Path, *_: object, **__: object) -> ArmSession:
        opened.append(ArmLibrary(request.param, path=host(), root=root()))
        session = ArmSession(opened[-1], folder / MODEL)
        assert session.row() == CORES[request.param]
        return session

    def switch() -> None:
        monkeypatch.setattr(onnx, "open_session", open_session)
        monkeypatch.setattr(onnx, "check_shapes", lambda *_: None)

    yield switch
    for library in opened:
        library.close()


def bits(rows: HeadRows) -> bytes:
    """All that the head returned."""
    parts = (rows.values, rows.ids, rows.logsumexp, rows.entropy, rows.logits)
    return b"".join(part.tobytes() for part in parts if part is not None)


class Recorder(OnnxForward):
    """Keeps the bits of every pass."""

    seen: list[bytes]

    @classmethod
    def of(cls, folder: Path, capacity: int) -> Recorder:
        made = OnnxModel(folder, Manifest.load(folder), threads=2, spin=False).forward(CacheConfig(capacity))
        made.__class__ = cls
        assert isinstance(made, Recorder)
        made.seen = []
        return made

    def extend(
        self, tokens: Sequence[int], *, parents: Sequence[int] | None = None, rows: Rows = LAST_ROW
    ) -> HeadRows:
        found = super().extend(tokens, parents=parents, rows=rows)
        self.seen.append(bits(found))
        return found


def replies(folder: Path, prompt: list[int], tokens: int) -> list[tuple[list[int], list[bytes]]]:
    """A greedy and a sampled reply, and the bits of the passes that they took."""
    found = []
    for params in (DrawParams(), DrawParams(temperature=0.9, top_k=40, seed=11)):
        forward = Recorder.of(folder, len(prompt) + tokens)
        steps = Engine(forward).generate(prompt, params, max_tokens=tokens, stop_ids=())
        found.append(([step.token for step in steps], forward.seen))
        assert len(forward.seen) >= tokens
    return found


def tree(folder: Path) -> bytes:
    """Every bit that the head returns for a tree of tokens, all logits among them."""
    forward = Recorder.of(folder, 32)
    forward.extend(list(range(20)))
    out = forward.extend([1, 2, 3, 4, 5], parents=[-1, 0, 0, -1, 3], rows=Rows(full=True))
    assert out.logits is not None
    return forward.seen[-1]


def test_whole_generations_have_the_tokens_of_x86(bundle: Path, on_arm: Callable[[], None]) -> None:
    prompt = list(range(5, 60))
    expected, logits = replies(bundle, prompt, 60), tree(bundle)
    on_arm()
    assert replies(bundle, prompt, 60) == expected
    assert tree(bundle) == logits
    check_tree(bundle, list(range(5, 40)), 250)


@pytest.mark.parametrize("on_arm", ["max", "cortex-a76"], indirect=True)
@pytest.mark.parametrize("name", REAL)
def test_real_models_have_the_tokens_of_x86(name: str, on_arm: Callable[[], None]) -> None:
    """Pulls the model when it is missing. Takes minutes; on the scalar row it would take hours."""
    folder = Store().ensure(name)
    text = "The capital of France is"
    prompt = Tokenizer.load(folder, Manifest.load(folder).tokenizer).encode(text)
    expected, logits = replies(folder, prompt, REAL[name]), tree(folder)
    assert expected[0][0] != expected[1][0]
    on_arm()
    assert replies(folder, prompt, REAL[name]) == expected
    assert tree(folder) == logits


def test_a_row_that_the_cpu_lacks_is_refused_in_one_line(bundle: Path) -> None:
    refusal = "EDGEDEC_ISA=neon_i8mm is not a kernel row that this library has and this CPU can run"
    library = ArmLibrary("neoverse-n1", isa="neon_i8mm", path=host(), root=root())
    with library, pytest.raises(AssertionError, match=refusal):
        ArmSession(library, bundle / MODEL)
