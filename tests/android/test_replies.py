"""The library as an app has it, in the aarch64 build of ONNX Runtime, in qemu: the tokens of x86.

The file is the one for Android; libraries named as Android's lead to those of glibc. EDGEDEC_ORT_AARCH64
names ONNX Runtime's library, as for tests/integration/test_arm_model.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedec.kernels.library import library_path
from tests.android.phone import host, phone_folder, runtime
from tests.integration.test_arm_model import root as machine
from tests.integration.test_arm_model import runtime as arm_runtime
from tests.kernels.arm import emulator, needs_arm, run
from tests.kernels.test_android import android_library, root

QUESTION = "Write the word apple three times."
TOKENS = "16"

pytestmark = [needs_arm, pytest.mark.slow]


def phone() -> Path:
    """The root of a phone for qemu: Android's names of libraries, and CPUs in /proc and /sys."""
    for name in ("proc", "sys"):
        link = root() / name
        if not link.is_symlink():
            link.symlink_to(machine() / name)
    return root()


@pytest.mark.parametrize("cpu", ["max", "cortex-a76"])
def test_replies_on_the_phones_library_have_the_tokens_of_x86(cpu: str, tmp_path: Path) -> None:
    model = phone_folder("smollm2-135m", tmp_path / "model")
    expected = run(host(tmp_path, arm=False), library_path(), runtime(), model, TOKENS, QUESTION)
    assert len(expected.split()) > 20
    emulated = [str(emulator()), "-cpu", cpu, "-L", phone(), host(tmp_path, arm=True)]
    assert run(*emulated, android_library(), arm_runtime(), model, TOKENS, QUESTION) == expected
