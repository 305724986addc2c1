"""Replies on a GPU by the page's modules in a browser: Python's tokens, whoever drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgedec.bundle.manifest import Manifest
from edgedec.core.errors import NotFoundError
from edgedec.export.web.wasm import wasm_path
from edgedec.sampling import DrawParams
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.test_wasm_drafters import REQUESTS, TEXT, Case, layers
from tests.native.web_runs import CHEAP, request_of
from tests.web.serving import serving
from tests.web.test_folder import EXPERTS

pytestmark = pytest.mark.slow

MINUTES = 30
"""A software adapter compiles and computes for minutes, on a busy machine for many."""
SCRIPT = Path(__file__).with_name("on_gpu.js").read_text(encoding="utf-8")
RESTARTED = [{"text": f"{TEXT} world", "max_tokens": 20, **request_of(DrawParams())}]
"""A shorter reply behind a prompt that the cache holds in part."""


@pytest.fixture
def on_gpu(browsers: Callable[[bool], Any]) -> Iterator[Callable[..., Any]]:
    """Compute the replies to ``REQUESTS`` in a page of the folder's origin."""
    page = browsers(True).new_page()
    page.set_default_timeout(MINUTES * 60_000)

    def run(case: Case, *, waits: bool = True) -> Any:
        with serving(case.folder.parent) as url:
            page.goto(f"{url}web.json")
            requests = [*REQUESTS, *RESTARTED]
            given = {"draft": case.names, "costs": CHEAP, "requests": requests, "waits": waits}
            return page.evaluate(SCRIPT, given)

    yield run
    page.close()


@pytest.fixture(autouse=True)
def _compiled() -> None:
    try:
        wasm_path()
    except NotFoundError as error:
        pytest.skip(f"{error.message}: {error.hint}")


def check(found: Any, case: Case) -> None:
    assert found["exact"]
    *long, short = (one["tokens"] for one in found["replies"])
    assert long == case.python()
    assert len(short) == 20
    reused = found["replies"][2]["figures"]["reused_tokens"]
    assert bool(reused) == (not Manifest.load(case.bundle).spec.states)  # these have passed the place


@pytest.mark.parametrize("architecture", [*EXPERTS, "lfm2"])
def test_experts_and_convolutions(on_gpu: Callable[..., Any], tmp_path: Path, architecture: str) -> None:
    """Experts are chosen on the device."""
    case = Case(tiny_bundle(tmp_path, architecture), tmp_path / "home", tmp_path / "page", "auto")
    found = on_gpu(case)
    check(found, case)
    assert sum(one["proposed"] for one in found["drafted"].values()) > 0


def test_layers_of_the_model_draft_on_the_device(on_gpu: Callable[..., Any], tmp_path: Path) -> None:
    """Exits, skips and a trimmed head; a pass goes on where their peeks stopped."""
    case = layers(tmp_path)
    found = on_gpu(case)
    check(found, case)
    assert found["draft"] == case.names.split(",")
    assert found["drafted"]["exit-4"]["proposed"] > 0
    assert all(one["queries"] > 0 for one in found["drafted"].values())
    assert min(found["counts"].values()) > 0


def test_without_waiting_the_tables_alone_draft(on_gpu: Callable[..., Any], tmp_path: Path) -> None:
    case = layers(tmp_path)
    case.names = "auto"
    found = on_gpu(case, waits=False)
    check(found, case)
    assert found["draft"] == ["lookup", "recycling"]
    assert found["counts"]["peeks"] == 0
