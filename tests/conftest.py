"""Before any test: is the package under test this checkout, with its kernels?"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
REMEDY = "install this checkout for its tests: pip install -e '.[test]'"


def problem() -> str | None:
    """What is wrong with the installed package, or None."""
    package = importlib.util.find_spec("edgedec")
    if package is None:
        return "edgedec is not installed"
    if package.origin is None or not Path(package.origin).resolve().is_relative_to(ROOT):
        return f"edgedec comes from {package.origin}, not from {ROOT}"
    # A regular install has every part, but from here the folder edgedec/ comes first and hides it.
    if importlib.util.find_spec("edgedec.kernels") is None:
        return "edgedec is found here without its parts (export, kernels, models, cli)"
    from edgedec.core.errors import BackendError
    from edgedec.kernels import library

    try:
        library.library_path()
    except BackendError as error:
        return error.message
    return None


# Not a fixture: the imports of the next conftest file would fail first, and say less.
if found := problem():
    raise SystemExit(f"{found}; {REMEDY}")

# A time limit on one example would measure the machine, which other work may share.
settings.register_profile("edgedec", deadline=None)
settings.load_profile("edgedec")
