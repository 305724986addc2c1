"""Opening sessions: old runtimes are refused in one line, new ones are kept from reporting their use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

from edgedec.backends.onnx import session as onnx_session
from edgedec.core.errors import BackendError


def test_an_old_runtime_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(ort, "__version__", "1.15.1")
    with pytest.raises(BackendError, match=r"1\.15\.1 is too old"):
        onnx_session.open_session(tmp_path)  # type: ignore[arg-type]


def test_a_refusal_loses_its_code_and_nothing_else() -> None:
    what = "Load model failed: Input3 is absent, but not optional. Op : QuantLinear"
    with pytest.raises(BackendError) as caught, onnx_session.one_line_errors():
        raise RuntimeError(f"[ONNXRuntimeError] : 1 : FAIL : {what}\nmore")
    assert caught.value.message == f"ONNX Runtime refused the model: {what}"


def test_a_fault_of_a_disk_is_no_refusal() -> None:
    where = "Error in execution: Non-zero status code returned while running Region node. Name:'region.0'"
    what = "an expert cannot be read: Input/output error"
    with pytest.raises(BackendError) as caught, onnx_session.one_line_errors():
        raise RuntimeError(f"{where} Status Message: ai.edgedec.Experts: {what}")
    assert str(caught.value) == what


def test_the_runtime_keeps_no_record_of_its_use(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    subprocess.run(
        [sys.executable, "-c", "import edgedec.backends.onnx.session"],
        env={**environment, "HOME": str(tmp_path)},
        check=True,
    )
    assert list(tmp_path.rglob("*")) == []
