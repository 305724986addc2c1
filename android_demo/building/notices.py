"""The licences of the libraries of others in the APK, and the version of the app."""

from __future__ import annotations

from pathlib import Path

from building.tools import BuildError

ASSET = "assets/NOTICES.txt"
_HEAD = "This app contains ONNX Runtime. Its licence comes first, those of what it contains come after it.\n"


def runtime_licences() -> bytes:
    """Return the licences of ONNX Runtime and of its parts, as its Python package has them."""
    try:
        import onnxruntime
    except ImportError as error:
        raise BuildError(
            f"the licences of ONNX Runtime are those of its package: pip install . ({error})"
        ) from error
    folder = Path(onnxruntime.__file__).parent
    try:
        texts = [
            (folder / name).read_text(encoding="utf-8-sig") for name in ("LICENSE", "ThirdPartyNotices.txt")
        ]
    except OSError as error:
        raise BuildError(f"this package of ONNX Runtime has no licences: {error}") from error
    return "\n".join([_HEAD, *texts]).encode()


def version() -> tuple[str, int]:
    """Return the version of the app, as people and as stores count it."""
    from edgedec.core.version import __version__

    major, minor, patch = (int(part) for part in __version__.split(".")[:3])
    return __version__, major * 10_000 + minor * 100 + patch
