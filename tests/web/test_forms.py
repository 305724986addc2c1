"""Replies of a form that a script asks a browser's worker for: Python's text, on the CPU and on a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.native.cases import Case, PythonRuns
from tests.native.form_cases import form_cases
from tests.native.web_runs import asked_for
from tests.patience import PATIENCE_S
from tests.web.serving import serving
from tests.web.test_real import FLAT, FLAT_ON_CPU, _written

pytestmark = pytest.mark.slow

ASK = """async ([settings, requests]) => {
  const { worker } = window;
  const answers = [];
  const call = (call, given) => new Promise((resolve, reject) => {
    let text = "", drafted = 0;
    worker.onmessage = ({ data: { id, tokens, value, fault } }) => {
      if (id === undefined) return;
      if (fault) reject(Error(fault.message));
      for (const one of tokens ?? value?.pieces ?? []) text += one.text, drafted += Boolean(one.drafter);
      if (!tokens) resolve({ text, drafted, finish: value?.finish_reason });
    };
    worker.postMessage({ id: 1, call, given });
  });
  await call("look", settings);
  for (const request of requests) answers.push(await call("reply", { request, continues: null }));
  return answers;
}"""
START = """() => { window.worker = new Worker("run/worker.js", { type: "module" }); }"""


@pytest.fixture(scope="module")
def url(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(_written(tiny, tmp_path_factory.mktemp("forms"))) as address:
        yield address


@pytest.fixture(scope="module")
def expected(tiny: Path) -> list[tuple[Case, tuple[str, str]]]:
    """Some requests, and the replies of Python."""
    python = PythonRuns(tiny, context=512)
    found = [(case, python.run(case)) for case in form_cases(40)[:10]]
    python.close()
    return [(case, (one.text, one.finish)) for case, one in found]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_replies_of_a_form_are_those_of_python(
    opened: Any, url: str, expected: list[tuple[Case, tuple[str, str]]], device: str
) -> None:
    with opened(url, gpu=device == "gpu") as page:
        page.set_default_timeout(PATIENCE_S * 1000)
        with page.expect_worker() as started:
            page.evaluate(START)
        started.value.evaluate(FLAT if device == "gpu" else FLAT_ON_CPU)
        requests = [asked_for(case) for case, _ in expected]
        found = page.evaluate(ASK, [{"device": device}, requests])
    assert [(one["text"], one["finish"]) for one in found] == [told for _, told in expected]
    assert sum(one["drafted"] for one in found) > 0


def test_the_script_of_the_guide_names_a_colour(opened: Any, url: str) -> None:
    guide = (ROOT / "docs" / "guide" / "web.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```js\n(.*?)```", guide, re.DOTALL)
    with opened(url) as page:
        page.set_default_timeout(PATIENCE_S * 1000)
        page.evaluate(f"() => {{ {script} }}")
        page.wait_for_function("() => document.title.startsWith('{')")
        assert json.loads(page.title())["colour"] in ("red", "green")
