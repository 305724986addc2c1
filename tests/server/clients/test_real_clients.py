"""Programs that people use, against a server with a real model: OpenAI's clients, LangChain, llm.

Each is skipped where it is not installed. They need `qwen2.5-coder-1.5b`, which calls tools.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.soak.server_load import ServerProcess

pytestmark = pytest.mark.slow

MODEL = "qwen2.5-coder-1.5b"
QUESTION = "What is 2+2? Answer briefly."
TASK = "Use the tool add for 3 and 4. Then use the tool multiply for that sum and 5."
_MOST_TURNS = 5


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ServerProcess(MODEL, "--parallel", "2", "--context", "4096", env=os.environ)
    server.wait()
    try:
        yield f"{server.url}/v1"
    finally:
        status, said = server.stop()
    assert status == 0, said


@pytest.fixture(scope="module")
def openai(url: str) -> Any:
    return pytest.importorskip("openai", reason="the client is not installed").OpenAI(
        base_url=url, api_key="none", max_retries=0
    )


def test_openai_for_python_talks_and_streams(openai: Any) -> None:
    asked = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 40}
    whole = openai.chat.completions.create(**asked, temperature=0)
    assert "4" in whole.choices[0].message.content
    assert whole.usage.completion_tokens > 0
    pieces = openai.chat.completions.create(**asked, temperature=0, stream=True)
    text = "".join(one.choices[0].delta.content or "" for one in pieces if one.choices)
    assert text == whole.choices[0].message.content


def test_openai_for_python_gets_an_object_of_a_schema(openai: Any) -> None:
    pydantic = pytest.importorskip("pydantic", reason="schemas are pydantic's here")
    place = pydantic.create_model("Place", city=(str, ...), inhabitants=(int, ...))
    asked = [{"role": "user", "content": "Describe Paris as JSON with city and inhabitants."}]
    found = openai.chat.completions.parse(model=MODEL, messages=asked, response_format=place, temperature=0)
    assert isinstance(found.choices[0].message.parsed, place)


def test_openai_for_python_has_responses(openai: Any) -> None:
    whole = openai.responses.create(model=MODEL, input=QUESTION, temperature=0, max_output_tokens=40)
    assert "4" in whole.output_text
    events = openai.responses.create(
        model=MODEL, input=QUESTION, temperature=0, max_output_tokens=40, stream=True
    )
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text


@pytest.mark.skipif(shutil.which("npm") is None, reason="Node and npm are not installed")
def test_openai_for_node_talks_streams_keeps_a_schema_and_calls_tools(url: str, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("agent.mjs"), tmp_path)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tmp_path), "openai"]
    if subprocess.run(npm, check=False, capture_output=True, timeout=240).returncode:
        pytest.skip("the package openai cannot be had from the npm registry")
    run = ["node", str(tmp_path / "agent.mjs"), url, MODEL]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "4" in found["plain"]
    assert found["streamed"] == found["plain"]
    assert set(found["shaped"]) == {"city", "country"}
    assert [name for name, _ in found["calls"]] == ["add", "multiply"]
    assert [result for _, result in found["calls"]] == [7, 35]


def test_an_agent_of_langchain_calls_two_tools_in_a_row(url: str) -> None:
    chat_models = pytest.importorskip("langchain_openai", reason="LangChain is not installed")
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool

    @tool
    def add(a: float, b: float) -> float:
        """Add two numbers."""
        return a + b

    @tool
    def multiply(a: float, b: float) -> float:
        """Multiply two numbers."""
        return a * b

    tools = {"add": add, "multiply": multiply}
    model = chat_models.ChatOpenAI(base_url=url, api_key="none", model=MODEL, temperature=0, max_tokens=200)
    agent = model.bind_tools(list(tools.values()))
    messages: list[Any] = [HumanMessage(TASK)]
    called, results = [], []
    for _ in range(_MOST_TURNS):
        reply = agent.invoke(messages)
        messages.append(reply)
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            called.append(call["name"])
            messages.append(tools[call["name"]].invoke(call))
            results.append(float(messages[-1].content))
    assert called == ["add", "multiply"]
    assert results == [7, 35]


def test_langchain_streams(url: str) -> None:
    chat_models = pytest.importorskip("langchain_openai", reason="LangChain is not installed")
    model = chat_models.ChatOpenAI(base_url=url, api_key="none", model=MODEL, temperature=0, max_tokens=40)
    whole = model.invoke(QUESTION).content
    assert "".join(piece.content for piece in model.stream(QUESTION)) == whole


def test_llm_talks_through_its_openai_models(url: str, tmp_path: Path) -> None:
    pytest.importorskip("llm", reason="llm is not installed")
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: edgedec\n  model_name: {MODEL}\n  api_base: {url}\n", encoding="utf-8"
    )
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    run = [sys.executable, "-m", "llm", "-m", "edgedec", "-o", "temperature", "0", QUESTION]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "4" in done.stdout
