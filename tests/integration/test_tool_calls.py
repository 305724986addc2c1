"""Qwen2.5-Coder calls tools: one call and its answer, and a loop of calls, with and without drafts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import edgedec
from tests.fixtures.real_models import installed

MODEL = "qwen2.5-coder-1.5b"
PEOPLE = {"Rome": 2755000, "Paris": 2048000}
MOST_CALLS = 4

pytestmark = pytest.mark.slow


def weather(town: str) -> str:
    """Tell the weather of a town."""
    return f"Rain and 12 degrees in {town}."


def population(town: str) -> int:
    """Look up how many people live in a town."""
    return PEOPLE.get(town, 1000)


TOOLS = {"weather": weather, "population": population}


@pytest.fixture(scope="module", params=["off", "lookup"])
def model(request: pytest.FixtureRequest) -> Iterator[edgedec.Model]:
    installed(MODEL)
    greedy = edgedec.SamplingParams.greedy()
    with edgedec.open(MODEL, context=2048, sampling=greedy, draft=request.param) as model:
        yield model


def loop(chat: edgedec.Chat, question: str) -> list[tuple[str, str]]:
    """Answer every call until the model answers, or has called often; return the calls."""
    called = []
    chat.reply(question, max_tokens=120).read()
    while chat.last and chat.last.tool_calls and len(called) < MOST_CALLS:
        for call in chat.last.tool_calls:
            called.append((call.name, call.values()["town"]))
            chat.tool_result(call, str(TOOLS[call.name](**call.values())))
        chat.reply(max_tokens=120).read()
    return called


def test_a_call_and_the_answer_to_its_result(model: edgedec.Model) -> None:
    system = "Use the tools to find facts. Then answer in plain words."
    chat = model.chat(tools=[weather], system=system)
    assert loop(chat, "What is the weather in Rome?") == [("weather", "Rome")]
    answer = chat.messages[-1].content.lower()
    assert "rain" in answer
    assert "12 degrees" in answer


def test_two_calls_in_a_row(model: edgedec.Model) -> None:
    chat = model.chat(tools=TOOLS.values(), system="You are a helpful assistant.")
    called = loop(chat, "How many people live in Rome and Paris together?")
    assert called[:2] == [("population", "Rome"), ("population", "Paris")]
    results = [message.content for message in chat.messages if message.role == "tool"]
    assert results[:2] == ["2755000", "2048000"]
    assert chat.last is not None
    assert chat.last.reused > 0
