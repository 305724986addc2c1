"""Parts that tests of the engine for Android share: a phone's folder, and this machine's ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime

from edgedec.models import Store
from tests.kernels.arm import run


def phone_folder(name: str, folder: Path) -> Path:
    """Export a model of the store (EDGEDEC_HOME) for Android; pulls it when it is missing."""
    Store().ensure(name)
    run(
        sys.executable,
        "-m",
        "edgedec",
        "export",
        name,
        "--for",
        "android",
        "--with-draft",
        "off",
        "-o",
        folder,
    )
    return folder


def runtime() -> Path:
    """ONNX Runtime's library in its wheel."""
    (path,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return path
