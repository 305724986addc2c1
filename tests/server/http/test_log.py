"""The log and the metrics: times and tokens of each request, and no text of any."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
import time

import httpx
import pytest

from edgedec.server.http.exchange import Exchange
from edgedec.server.http.log import Log
from edgedec.server.work.request import Usage
from tests.server.fakes import MODEL, Running, eventually
from tests.server.http.test_chat import HELLO, post


def test_a_request_is_a_line_without_any_text(client: httpx.Client, served: Running) -> None:
    answer = post(client, messages=[{"role": "user", "content": "a secret"}], user="another secret")
    line = served.line_of(answer)
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/chat/completions", 200)
    assert (line["model"], line["prompt_tokens"], line["completion_tokens"]) == (MODEL, 9, 4)
    assert (line["cached_tokens"], line["drafted_tokens"], line["finish_reasons"]) == (4, 1, ["stop"])
    assert line["ms"] >= line["first_token_ms"] >= 0
    assert "secret" not in served.lines.getvalue()
    assert "Hello" not in served.lines.getvalue()


def test_a_path_cannot_forge_lines(client: httpx.Client, served: Running) -> None:
    answer = client.get('/a%0a{"level":"error"}' + "x" * 1000, params={"key": "secret"})
    assert served.line_of(answer)["path"].startswith('/a\n{"level"')
    assert all(line["event"] == "request" for line in served.log())
    assert max(map(len, served.lines.getvalue().splitlines())) < 800
    assert "secret" not in served.lines.getvalue()


@pytest.mark.parametrize(
    ("level", "kept"), [("info", [200, 404, 429, 500]), ("warning", [404, 429, 500]), ("error", [500])]
)
def test_a_level_keeps_what_matters(level: str, kept: list[int]) -> None:
    lines = io.StringIO()
    log = Log(lines.write, level)
    for status in (200, 404, 429, 500):
        log.request(Exchange("GET", "/x", status=status))
    log.close()
    assert [json.loads(line)["status"] for line in lines.getvalue().splitlines()] == kept


def words_of(*exchanges: Exchange) -> list[str]:
    """The lines of requests in words, without their times of day."""
    lines = io.StringIO()
    log = Log(lines.write, words=True)
    for one in exchanges:
        log.request(one)
    log.notice("closed tiny to make room")
    log.notice("measuring: 8%")
    log.close()
    found = lines.getvalue().splitlines()
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d .+", line) for line in found)
    return [line[9:] for line in found]


def test_a_terminal_gets_short_lines_and_none_for_polls() -> None:
    polls = [
        Exchange("GET", path, status=200) for path in ("/health", "/metrics", "/v1/models", "/page/js/app.js")
    ]
    usage = Usage(prompt_tokens=35, completion_tokens=128)
    chat = Exchange("POST", "/v1/chat/completions", status=200, model=MODEL, usage=usage, reasons=["length"])
    bad = Exchange("POST", "/v1/chat/completions", status=400)
    lost = Exchange("GET", "/\x1b[31mx", status=404)
    failed = Exchange("POST", "/v1/completions", status=500, cause="ValueError")
    preflight = Exchange("OPTIONS", "/v1/chat/completions", status=200)
    assert words_of(*polls, chat, preflight, bad, lost, failed) == [
        "tiny: 35 + 128 tokens in 0.0 s, length",
        "POST /v1/chat/completions: status 400 in 0.0 s",
        "GET /\ufffd[31mx: status 404 in 0.0 s",
        "POST /v1/completions: status 500 in 0.0 s, ValueError",
        "closed tiny to make room",
    ]


def test_flushed_lines_are_written() -> None:
    lines: list[str] = []

    def write(line: str) -> None:
        time.sleep(0.05)
        lines.append(line)

    log = Log(write)
    for _ in range(3):
        log.notice("x")
    log.flush()
    assert len(lines) == 3
    log.close()


def test_errors_of_libraries_are_lines_without_tracebacks() -> None:
    lines = io.StringIO()
    log = Log(lines.write)
    with log.of_libraries():
        try:
            raise ValueError("secret")
        except ValueError:
            logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
        logging.getLogger("uvicorn.error").warning("not an error")
    log.close()
    (line,) = map(json.loads, lines.getvalue().splitlines())
    assert (line["event"], line["logger"], line["cause"]) == ("library", "uvicorn.error", "ValueError")
    assert "secret" not in lines.getvalue()


def test_a_reader_that_stands_still_costs_lines_and_no_time() -> None:
    reads, lines = threading.Event(), []

    def write(line: str) -> None:
        reads.wait(20)
        lines.append(json.loads(line))

    log = Log(write)
    for _ in range(1500):
        log.line("info", "x")
    reads.set()
    assert eventually(lambda: len(lines) > 900)
    log.line("info", "last")
    log.close()
    lost = sum(line.get("lost_lines", 0) for line in lines)
    assert len(lines) + lost == 1501
    assert lost > 400


def test_metrics_count_requests_tokens_and_times(client: httpx.Client) -> None:
    post(client)
    client.post("/v1/chat/completions", json={**HELLO, "n": 0})
    client.get("/nowhere")

    def value(name: str) -> float | None:
        lines = client.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), None)

    assert eventually(lambda: value('edgedec_requests_total{route="other",status="404"}'))
    assert value('edgedec_requests_total{route="chat",status="200"}')
    assert value('edgedec_requests_total{route="chat",status="400"}')
    assert value('edgedec_tokens_total{kind="completion"}') == 4
    assert value("edgedec_memory_bytes") == 1000
    assert value("edgedec_cache_hit_ratio") == pytest.approx(4 / 9)
    assert value("edgedec_acceptance_rate") == pytest.approx(1 / 4)
    assert value("edgedec_requests_waiting") == 0
    assert value("edgedec_first_token_seconds_count")
    assert value("edgedec_tokens_per_second_count")
    assert value("edgedec_memory_budget_bytes") is None
