"""Opening sessions: runtimes that are too old are refused in one line."""

from __future__ import annotations

import onnxruntime as ort
import pytest

from edgedec.backends import onnx_session
from edgedec.core.errors import BackendError


def test_an_old_runtime_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(ort, "__version__", "1.15.1")
    with pytest.raises(BackendError, match=r"1\.15\.1 is too old"):
        onnx_session.open_session(tmp_path)  # type: ignore[arg-type]
