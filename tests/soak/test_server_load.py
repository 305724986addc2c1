"""A server under mixed load for minutes: right replies, flat memory, the budget kept, a clean end.

EDGEDEC_SOAK_MINUTES is how long it lasts (default 2).
"""

from __future__ import annotations

import asyncio
import os

import pytest

import edgedec
from tests.soak.server_load import Question, ServerProcess, put_load

MODEL = "smollm2-135m"
MEMORY = 500_000_000
_SETTLED_MINUTES = 5
"""In fewer, half of the time is not enough for all slots and caches to have been used once."""
TEXTS = (
    "What is 2+2?",
    "Name three colours.",
    "Write one sentence about the sea.",
    "Count from one to ten.",
    "List five animals, one per line.",
    "Explain in two sentences why the sky is blue.",
)
SYSTEMS = ("", "You are a pirate.", "Answer in capital letters. " * 40)


def questions() -> list[Question]:
    """Requests of every kind, each with the reply that the Python API gives."""
    found = []
    with edgedec.open(MODEL, context=1024) as model:
        for number, text in enumerate(TEXTS):
            for system in SYSTEMS:
                warm = number % 2
                sampling = edgedec.SamplingParams(temperature=0.8 if warm else 0.0, seed=number)
                messages = [{"role": "system", "content": system}] if system else []
                messages.append({"role": "user", "content": text})
                most = 24 + 8 * number
                body = {"messages": messages, "seed": number, "max_tokens": most}
                body |= {"temperature": 0.8 if warm else 0.0}
                chat = model.chat(messages=messages, sampling=sampling, max_tokens=most)
                found.append(Question(body, chat.reply().read()))
    return found


@pytest.mark.slow
def test_a_server_holds_under_mixed_load() -> None:
    minutes = float(os.environ.get("EDGEDEC_SOAK_MINUTES", "2"))
    asked = questions()
    arguments = [MODEL, "--memory", str(MEMORY), "--parallel", "4", "--context", "1024", "--queue", "8"]
    server = ServerProcess(*arguments, env=os.environ)
    try:
        server.wait()
        report = asyncio.run(put_load(server, asked, 60 * minutes))
    finally:
        status, said = server.stop()
    print(dict(report.counts), f"{report.peak(0, 0.5) / 1e6:.0f} MB, then {report.peak(0.5, 1) / 1e6:.0f} MB")
    assert not report.wrong, report.wrong[:5]
    assert status == 0, said
    assert "Traceback" not in said
    for kind in ("right", "hung up", "garbage", "refused", "read slowly"):
        assert report.counts[kind] > 0, report.counts
    assert report.peak(0.5, 1.0) <= MEMORY
    grown = report.peak(0.5, 1.0) / report.peak(0.0, 0.5)
    assert grown <= (1.03 if minutes >= _SETTLED_MINUTES else 1.15), grown
