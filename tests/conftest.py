"""Before any test: is the package under test this checkout, with its kernels?"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.fixtures.skipped import lacked, summary

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

# A shell lets programs in the background ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three workers for two cores: a third of the time a worker waits for programs that it started."""
    return max(1, len(os.sched_getaffinity(0)) * 3 // 2)


_skipped: dict[str, str] = {}
"""Reasons by file. Workers tell theirs: of files skipped for one reason they report the first."""


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped[report.nodeid] = report.longrepr[2]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["skipped"] = _skipped


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _skipped.update(getattr(node, "workeroutput", {}).get("skipped", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which tools are missing, and how to run the tests that need them, which `.ci/again.py` reads."""
    reports = [one for one in terminalreporter.getreports("skipped") if isinstance(one.longrepr, tuple)]
    reasons = {one.nodeid: one.longrepr[2] for one in reports} | _skipped
    if cache := getattr(config, "cache", None):
        cache.set("edgedec/lacked", lacked(reasons))
    if lines := summary(reasons.values()):
        terminalreporter.section("Tools that are not installed")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="module", autouse=True)
def _kept_from_before() -> None:
    """Leave out of later garbage collections what is there before a module's tests.

    Programs collect where they give memory back. Beside thousands of tests, and what the libraries of earlier
    ones keep, that takes seconds each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def folder(_models: Path) -> Path:
    """Where ``tiny_bundle`` keeps the models that it made; a test that changes files takes a copy."""
    return _models


@pytest.fixture(scope="session")
def bundle(_models: Path) -> Path:
    """A tiny Llama with random weights, also for modules that have a ``folder`` of their own."""
    from tests.fixtures.tiny_models import tiny_bundle

    return tiny_bundle(_models)


USUAL_PROCESS_BYTES = 400_000_000


@pytest.fixture(autouse=True)
def _usual_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans see a process of usual size: drivers of GPUs keep what earlier tests compiled, a gigabyte.

    Tests of the server compare plans with the process as it is.
    """
    if request.path.is_relative_to(ROOT / "tests" / "server"):
        return
    from edgedec.assemble import budget

    measured = budget.rss_bytes
    monkeypatch.setattr(budget, "rss_bytes", lambda: min(measured() or 0, USUAL_PROCESS_BYTES))
