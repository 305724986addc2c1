"""The remote side against a server on loopback that misbehaves. Every fault is one SideLost, in time."""

from __future__ import annotations

import gzip
import json
import logging
import time
import traceback
from collections.abc import Callable

import pytest

from edgedec.core.errors import SideLost
from edgedec.remote import KEY_VARIABLE, RemoteLimits, RemoteSide, ServerAddress
from edgedec.sampling import DrawParams
from edgedec.switch.side import TextSide
from edgedec.text.passage import Passage
from tests.remote.server import (
    DONE,
    GOOD,
    MODEL,
    Handler,
    Server,
    dies,
    drips,
    endless,
    event,
    says,
    serving,
    shuts,
    silent,
)

QUICK = RemoteLimits(connect_s=0.4, read_s=0.4, total_s=2.0)
PATIENT = RemoteLimits(connect_s=10, read_s=10, total_s=30)
"""For servers that answer at once, on a machine that may be busy."""
SECRET = "sk-0123456789abcdef"
PROMPT = "Four score and seven years ago our fathers brought forth on this continent a new nation, "
PASSAGE = Passage(PROMPT)
GREEDY = DrawParams()
TURNS = (("system", "Be brief."), ("user", "Recite."))
BEGUN = Passage(f"<user>Recite.<assistant>{PROMPT}", TURNS, PROMPT)
"""A reply of a conversation, in the middle."""


def side_of(
    server: Server, limits: RemoteLimits = PATIENT, *, model: str | None = MODEL, key: str = ""
) -> RemoteSide:
    return RemoteSide(ServerAddress.of(server.url, {KEY_VARIABLE: key}), model, limits)


def reason_of(side: RemoteSide, passage: Passage = PASSAGE) -> str:
    """Lose the side, and return the reason."""
    with pytest.raises(SideLost) as raised:
        list(side.continued(passage, 8, GREEDY))
    return raised.value.message


def lost(behave: Callable[[Handler], None], limits: RemoteLimits = PATIENT) -> tuple[str, str]:
    """Return the text that came before the side was lost, and the reason."""
    with serving(behave) as server, side_of(server, limits) as side:
        got = []
        with pytest.raises(SideLost) as raised:
            got.extend(side.continued(PASSAGE, 8, GREEDY))
        assert not side.ended
        side.close(1.0)
    return "".join(got), raised.value.message


def test_pieces_arrive_as_the_server_sends_them() -> None:
    with serving(says(event("four"), event(" score", "stop") + DONE, pause_s=1.0)) as server:
        side: TextSide = side_of(server)
        pieces = side.continued(PASSAGE, 8, GREEDY)
        began = time.monotonic()
        assert next(filter(None, pieces)) == "four"
        assert time.monotonic() - began < 1.0
        assert "".join(pieces) == " score"
        assert side.ended
        assert side.name == f"{MODEL} at 127.0.0.1"
    asked = {"prompt": PROMPT, "model": MODEL, "stream": True, "max_tokens": 8, "seed": 0, "temperature": 0.0}
    assert server.asked == [{**asked, "top_p": 1.0}]
    assert server.paths == ["/v1/completions"]


def test_a_reply_that_the_length_ended_is_not_at_its_end() -> None:
    with serving(says(event("four", "length"), DONE)) as server, side_of(server) as side:
        assert "".join(side.continued(PASSAGE, 1, GREEDY)) == "four"
        assert not side.ended


def test_sampling_is_told_to_the_server() -> None:
    with serving(says(GOOD)) as server, side_of(server) as side:
        list(side.continued(PASSAGE, 8, DrawParams(temperature=0.5, top_p=0.9, seed=7)))
    assert {"temperature": 0.5, "top_p": 0.9, "seed": 7}.items() <= server.asked[0].items()


def chat_event(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event of a message."""
    answer = {"model": MODEL, "choices": [{"delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(answer).encode() + b"\n\n"


MESSAGE = chat_event({"role": "assistant"}) + chat_event({"content": "four"}) + chat_event({}, "stop") + DONE


def listed(owner: str, *names: str) -> Callable[[Handler], None]:
    """Answer with a list of models."""
    rows = [{"id": name, "owned_by": owner} for name in names or (MODEL,)]
    return says(json.dumps({"data": rows}).encode(), kind="application/json")


def test_a_server_without_text_completions_is_asked_for_messages_only_when_the_user_says_so() -> None:
    with serving(says(MESSAGE)) as server, side_of(server) as side:
        side.chat = True
        assert "".join(side.continued(PASSAGE, 8, GREEDY)) == "four"
        assert side.ended
    assert server.paths == ["/v1/chat/completions"]
    assert server.asked[0]["messages"][0]["content"].endswith(PROMPT)


def test_a_reply_that_begins_is_asked_for_with_its_messages() -> None:
    with serving(says(MESSAGE)) as server, side_of(server) as side:
        assert "".join(side.continued(Passage("<user>Recite.<assistant>", TURNS), 8, GREEDY)) == "four"
    assert server.paths == ["/v1/chat/completions"]
    assert server.asked[0]["messages"] == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Recite."},
    ]  # fmt: skip
    assert "prompt" not in server.asked[0]
    assert "continue_final_message" not in server.asked[0]


@pytest.mark.parametrize(
    ("owner", "fields"),
    [("vllm", {"continue_final_message": True, "add_generation_prompt": False}), ("llamacpp", {})],
)
def test_servers_known_to_continue_a_message_get_the_reply_as_one(
    owner: str, fields: dict[str, bool]
) -> None:
    with serving(listed(owner), says(MESSAGE)) as server, side_of(server) as side:
        for _ in range(2):
            assert "".join(side.continued(BEGUN, 8, GREEDY)) == "four"
    assert server.paths == ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"]
    assert server.asked[0]["messages"][-1] == {"role": "assistant", "content": PROMPT}
    flags = {name: server.asked[0][name] for name in server.asked[0] if name.endswith(("message", "prompt"))}
    assert flags == fields


@pytest.mark.parametrize(
    "models", [listed("me"), says(status=404), says(b"<html>", kind="text/html"), says(b"{}")]
)
def test_other_servers_continue_a_reply_as_text(models: Callable[[Handler], None]) -> None:
    with serving(models, says(GOOD)) as server, side_of(server) as side:
        for _ in range(2):
            assert "".join(side.continued(BEGUN, 8, GREEDY)) == "four score"
    assert server.paths == ["/v1/models", "/v1/completions", "/v1/completions"]
    assert server.asked[0]["prompt"] == BEGUN.text


@pytest.mark.parametrize("status", [400, 404, 422])
@pytest.mark.parametrize("passage", [Passage("<user>Recite.", TURNS), BEGUN])
def test_a_server_that_refuses_messages_gets_texts(status: int, passage: Passage) -> None:
    refused = says(b'{"error": {"message": "no template"}}', status=status)
    script = [listed("vllm")] * bool(passage.reply) + [refused, says(GOOD)]
    with serving(*script) as server, side_of(server) as side:
        for _ in range(2):
            assert "".join(side.continued(passage, 8, GREEDY)) == "four score"
    paths = ["/v1/chat/completions", "/v1/completions", "/v1/completions"]
    assert server.paths == ["/v1/models"] * bool(passage.reply) + paths
    assert server.asked[-1]["prompt"] == passage.text


def test_a_server_that_refuses_texts_too_is_lost_with_its_reason() -> None:
    refused = says(b'{"error": {"message": "no model large"}}', status=404)
    with serving(refused) as server, side_of(server) as side:
        assert "no model large" in reason_of(side, Passage("<user>Recite.", TURNS))
    assert server.paths == ["/v1/chat/completions", "/v1/completions"]


def test_a_message_that_begins_anew_is_not_taken() -> None:
    anew = chat_event({"content": PROMPT}) + chat_event({}, "stop") + DONE
    with serving(listed("vllm"), says(anew)) as server, side_of(server) as side:
        assert "repeats the text" in reason_of(side, BEGUN)


@pytest.mark.parametrize("passage", [PASSAGE, BEGUN])
def test_a_reader_can_give_up_a_silent_server(passage: Passage) -> None:
    with serving(silent) as server, side_of(server) as side:
        began = time.monotonic()
        pieces = side.continued(passage, 8, GREEDY)
        assert [next(pieces), next(pieces)] == ["", ""]
        pieces.close()
        assert time.monotonic() - began < 2.0


def test_a_silent_list_of_models_loses_the_side_at_once() -> None:
    with serving(silent) as server, side_of(server, QUICK) as side:
        began = time.monotonic()
        with pytest.raises(SideLost, match="silent for"):
            list(side.continued(BEGUN, 8, GREEDY))
        assert time.monotonic() - began < 4.0
        assert server.paths == ["/v1/models"]


def test_a_list_of_one_model_names_it() -> None:
    models = says(json.dumps({"data": [{"id": MODEL}]}).encode(), kind="application/json")
    with serving(models, says(GOOD)) as server, side_of(server, model=None) as side:
        assert "".join(side.continued(PASSAGE, 8, GREEDY)) == "four score"
        assert side.name == f"{MODEL} at 127.0.0.1"
        list(side.continued(PASSAGE, 8, GREEDY))
    assert server.paths == ["/v1/models", "/v1/completions", "/v1/completions"]


def test_of_several_models_one_has_to_be_named() -> None:
    models = says(json.dumps({"data": [{"id": "a"}, {"id": "b"}]}).encode(), kind="application/json")
    with serving(models) as server, side_of(server, model=None) as side:
        assert "2 models: name one, such as 'a', 'b'" in reason_of(side)


BEFORE: dict[str, tuple[Callable[[Handler], None], str]] = {
    "HTML": (says(b"<html>hello</html>", kind="text/html; charset=utf-8"), "sends text/html, not text/event"),
    "JSON in one piece": (says(b"{}", kind="application/json"), "sends application/json, not text/event"),
    "not JSON": (says(b"data: hello\n\n"), "sent text that is not JSON"),
    "not an object": (says(b"data: [1]\n\n"), "sent JSON that is no completion"),
    "nested JSON": (says(b"data: " + b"[" * 60_000 + b"\n\n"), "sent text that is not JSON"),
    "a huge number": (says(b"data: " + b"9" * 60_000 + b"\n\n"), "sent text that is not JSON"),
    "no text": (says(b'data: {"model": "large", "choices": [{"text": 1}]}\n\n'), "that is no completion"),
    "no choice": (says(b'data: {"model": "large", "choices": 7}\n\n'), "that is no completion"),
    "not events": (says(b"hello\nworld\n"), "sent an empty reply"),
    "nothing": (says(), "sent an empty reply"),
    "a huge line": (says(b"data: " + b"x" * 70_000), "sent an empty reply"),
    "an endless event": (says(*[b"data: " + b"x" * 1000 + b"\n"] * 70), "sent an empty reply"),
    "comments for ever": (endless(b":\n"), "sends more than was asked for"),
    "empty pieces for ever": (endless(event("")), "sends more than was asked for"),
    "invalid UTF-8": (says(b"data: \xff\xfe\n\n"), "sent text that is not JSON"),
    "a line without an end": (endless(b"data: " + b"x" * 1000), "sends more than was asked for"),
    "lone surrogates": (says(event("\udc80")), "sent text that is not Unicode"),
    "another model": (says(event("four", model="larger")), "another model: 'larger', not 'large'"),
    "no model": (says(b'data: {"choices": [{"text": "x"}]}\n\n'), "text of a model that it does not name"),
    "an error": (says(b'data: {"error": {"message": "CUDA"}}\n\n'), "sent an error: CUDA"),
    "the prompt": (says(event(PROMPT[:50]), event(PROMPT[50:])), "repeats the text instead of continuing it"),
    "compressed": (says(gzip.compress(GOOD), content_encoding="gzip"), "sends compressed text"),
    "elsewhere": (says(status=307, location="http://evil.example/v1"), "sends us on to evil.example"),
    "wrong key": (says(status=401), f"refused the key (401); {KEY_VARIABLE} holds it"),
    "no model of the name": (
        says(b'{"error": {"message": "no model large"}}', status=404), "or endpoint (404): no model large"
    ),
    "busy for long": (says(status=429), "is too busy (429)"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BEFORE)
def test_a_fault_before_the_first_text_costs_nothing_but_the_reason(fault: str) -> None:
    behave, reason = BEFORE[fault]
    text, found = lost(behave)
    assert text == ""
    assert found.startswith("127.0.0.1 ")
    assert reason in found


def test_a_refused_request_is_not_tried_again() -> None:
    statuses = (400, 401, 403, 404, 422)
    with serving(*[says(status=status) for status in statuses]) as server, side_of(server) as side:
        for status in statuses:
            assert f"{status}" in reason_of(side)
    assert len(server.paths) == len(statuses)


SILENT: dict[str, tuple[Callable[[Handler], None], str]] = {
    "at once": (silent, ""),
    "in the middle": (says(event("four"), pause_s=10), "four"),
    "with pings": (says(event("four"), *[b": ping\n\n"] * 100, pause_s=0.05), "four"),
    "in a header without an end": (drips, ""),
}


@pytest.mark.parametrize("fault", SILENT)
def test_a_silent_server_is_left_in_time(fault: str) -> None:
    behave, before = SILENT[fault]
    began = time.monotonic()
    text, found = lost(behave, QUICK)
    assert time.monotonic() - began < 4.0
    assert (text, found) == (before, "127.0.0.1 was silent for 0.4 s")


AFTER: dict[str, tuple[Callable[[Handler], None], str]] = {
    "dies": (dies, "broke off in the middle of its reply"),
    "stops": (says(event("four")), "sent no end of its reply"),
    "turns to nonsense": (says(event("four"), b"data: <html>\n\n"), "sent text that is not JSON"),
    "turns to another model": (says(event("four"), event(" x", model="b")), "sent text of another model"),
}


@pytest.mark.parametrize("fault", AFTER)
def test_a_fault_in_the_middle_leaves_the_text_before_it(fault: str) -> None:
    behave, reason = AFTER[fault]
    text, found = lost(behave)
    assert text == "four"
    assert reason in found


def test_nothing_is_tried_again_after_the_first_byte() -> None:
    with serving(dies, says(GOOD)) as server, side_of(server) as side:
        assert reason_of(side)
    assert len(server.paths) == 1


def test_more_text_than_was_asked_for_is_not_taken() -> None:
    with serving(endless(event("x"))) as server, side_of(server) as side:
        got = []
        with pytest.raises(SideLost, match="sends more than was asked for"):
            got.extend(side.continued(PASSAGE, 8, GREEDY))
        assert len("".join(got)) <= 48
        assert server.left.wait(2.0)


def test_a_slow_stream_ends_with_the_time_for_all_of_it() -> None:
    slow = says(*[event("x")] * 60, pause_s=0.03)
    limits = RemoteLimits(connect_s=1.0, read_s=1.0, total_s=0.3)
    began = time.monotonic()
    text, found = lost(slow, limits)
    assert 0.25 < time.monotonic() - began < 3.0
    assert "took longer than 0.3 s" in found
    assert len(text) <= 11


def test_a_server_that_recovers_before_its_first_byte_is_asked_again() -> None:
    with serving(shuts, says(status=503), says(GOOD)) as server, side_of(server) as side:
        assert "".join(side.continued(PASSAGE, 8, GREEDY)) == "four score"
    assert len(server.paths) == 3


def test_attempts_end() -> None:
    with serving(says(status=500)) as server, side_of(server) as side:
        assert "answered 500" in reason_of(side)
    assert len(server.paths) == 3


def test_a_server_that_is_not_there_is_lost() -> None:
    with serving(silent) as server:
        pass
    with side_of(server) as side:
        assert reason_of(side) == "127.0.0.1 cannot be reached"


def test_nothing_is_sent_before_a_continuation_is_read() -> None:
    with serving(says(GOOD)) as server, side_of(server) as side:
        side.continued(PASSAGE, 8, GREEDY)
    assert server.paths == []


def test_a_reader_who_has_enough_ends_the_request() -> None:
    with serving(endless(event(" x"))) as server, side_of(server) as side:
        pieces = side.continued(PASSAGE, 500, GREEDY)
        next(filter(None, pieces))
        pieces.close()
        assert server.left.wait(2.0)
        assert not side.ended


def failing(text: str) -> Callable[[Handler], None]:
    """Refuse a request with this message."""
    return says(json.dumps({"error": {"message": text}}).encode(), status=400)


MODELS = {"data": [{"id": SECRET}, {"id": "b"}]}
QUOTING = {
    "message": failing(f"no key {SECRET}"),
    "message that is cut off in it": failing("x" * 192 + SECRET),
    "escaped message": says(b'{"error": "%s"}' % SECRET.replace("k", "\\u006b").encode(), status=400),
    "upper case": failing(SECRET.upper()),
    "event": says(b'data: {"error": {"message": "no key %s"}}\n\n' % SECRET.encode()),
    "name of a model that is cut off in it": says(event("x", model="m" * 70 + SECRET)),
    "redirect": says(status=307, location=f"http://{SECRET}.example/"),
    "content type that is cut off in it": says(kind="x" * 30 + SECRET),
    "models": says(json.dumps(MODELS).encode(), kind="application/json"),
}
"""Servers that show the key, each in another place."""


@pytest.mark.parametrize("place", QUOTING)
def test_the_key_goes_to_the_server_and_nowhere_else(place: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "edgedec")
    model = None if place == "models" else MODEL
    with serving(QUOTING[place]) as server, side_of(server, key=SECRET, model=model) as side:
        with pytest.raises(SideLost, match=r"\*\*\*") as raised:
            list(side.continued(PASSAGE, 8, GREEDY))
        told = [repr(side), repr(side.address), side.name, caplog.text]
    assert server.headers[0]["authorization"] == f"Bearer {SECRET}"
    told += traceback.format_exception(raised.value)
    assert not [text for text in told if SECRET[:6] in text.lower()]


@pytest.mark.parametrize("cut", [0, 4, len(SECRET)])
def test_a_key_in_a_reply_is_hidden(cut: int) -> None:
    pieces = event(f"My key is {SECRET[:cut]}") + event(f"{SECRET[cut:]}, and yours?", "stop")
    with serving(says(pieces + DONE)) as server, side_of(server, key=SECRET) as side:
        assert "".join(side.continued(PASSAGE, 8, GREEDY)) == "My key is ***, and yours?"


def test_a_redirect_does_not_get_the_key() -> None:
    with serving(says(GOOD)) as other:
        onward = says(status=307, location=f"{other.url}/completions")
        with serving(onward) as server, side_of(server, key=SECRET) as side:
            assert "sends us on to" in reason_of(side)
    assert other.paths == []


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    with serving(says(GOOD)) as server, side_of(server) as side:
        assert "".join(side.continued(PASSAGE, 8, GREEDY)) == "four score"
