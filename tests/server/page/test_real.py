"""The page of the real server, with a real model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import edgedec
from tests.fixtures.real_models import installed
from tests.patience import PATIENCE_S
from tests.server.page.acting import ask, ended, last, replies

pytestmark = pytest.mark.slow

MODEL = "smollm2-135m"
QUESTION = "Name three colours."


@pytest.fixture(scope="module")
def alone() -> str:
    """The reply of the Python API."""
    installed(MODEL)
    messages = [{"role": "user", "content": QUESTION}]
    with edgedec.open(MODEL, context=1024) as model:
        return (
            model.chat(messages=messages, sampling=edgedec.SamplingParams.greedy(), max_tokens=60)
            .reply()
            .read()
        )


@pytest.fixture(scope="module")
def url(alone: str) -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [sys.executable, "-m", "edgedec", "serve", MODEL, "--port", "0", "--memory", "500MB"]
    process = subprocess.Popen(
        command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    guard = threading.Timer(PATIENCE_S, process.kill)
    guard.start()
    try:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
        assert said[0].startswith(MODEL), said
        yield said[1].split()[2].rstrip(",")
    finally:
        guard.cancel()
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def greedily(page: Any, most: int) -> None:
    page.set_default_timeout(PATIENCE_S * 1000)
    page.click("#open-settings")
    page.fill("#sampling-temperature", "0")
    page.fill("#sampling-max_tokens", str(most))
    page.keyboard.press("Enter")


def as_written(page: Any) -> str:
    """The last reply, before it was rendered."""
    with page.expect_download() as file:
        page.get_by_role("button", name="Export", exact=True).click()
    (conversation,) = json.loads(file.value.path().read_text(encoding="utf-8"))["conversations"]
    return str(conversation["messages"][conversation["tip"]]["text"])


def test_a_reply_on_the_page_is_that_of_the_python_api(page: Any, alone: str) -> None:
    greedily(page, 60)
    ask(page, QUESTION)
    page.wait_for_selector("#conversations .current")
    assert as_written(page) == alone
    assert "J/token (estimated)" in page.locator(".figures").inner_text()
    assert page.locator("#memory-words").inner_text().endswith("of 500 MB")


def test_a_cut_reply_goes_on(page: Any, alone: str) -> None:
    greedily(page, 5)
    ask(page, QUESTION)
    page.wait_for_selector("#conversations .current")
    first = as_written(page)
    assert alone.startswith(first)
    last(page, "More").click()
    ended(page)
    assert as_written(page).startswith(first)
    assert len(as_written(page)) > len(first)


def test_markdown_and_code_are_those_of_the_real_renderer(page: Any) -> None:
    """The page takes over the forms that the server sends."""
    html = page.evaluate(
        """async () => {
          const [{ Server }, { fragmentOf }] = await Promise.all(
            ["server", "markdown"].map((name) => import(`/page/js/${name}.js`)));
          const text = "# A\\n\\n|a|b|\\n|-|-:|\\n|1|2|\\n\\n```python\\ndef f(): 1\\n```\\n\\n<b onclick=x>";
          const box = document.createElement("div");
          box.append(fragmentOf(await new Server().markdown(text)));
          return box.innerHTML;
        }"""
    )
    assert '<h3 class="level-1">A</h3>' in html
    assert '<td class="align-right">2</td>' in html
    assert '<span class="k">def</span>' in html
    assert "&lt;b onclick=x&gt;" in html
    assert replies(page) == []
