from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedec.backends.fake import MarkovForward
from edgedec.core.cache_config import CacheConfig
from edgedec.text.template import ChatTemplate
from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.ready import ready_of
from tests.fixtures.tiny_gguf import write_tiny
from tests.fixtures.tiny_models import run_tiny, tiny_bundle
from tests.session.parrot import CAPACITY, END


def test_the_answer_goes_to_standard_output(home: Home) -> None:
    result = run(home.services(home.parrot("Because.")), "generate", "-p", "Why?")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Because.\n", "")


def test_a_final_newline_is_not_doubled(home: Home) -> None:
    assert run(home.services(home.parrot("A line.\n")), "generate", "-p", "Why?").stdout == "A line.\n"


def test_json_has_all_that_is_promised(home: Home) -> None:
    model = home.parrot("Because.")
    result = run(home.services(model), "generate", "-p", "Why?", "--json")
    report = json.loads(result.stdout)
    assert report["text"] == "Because."
    assert report["tokens"] == [*model.tokenizer.encode("Because.", add_bos=False), END]
    assert (report["finish_reason"], report["model"]) == ("stop", "parrot")
    stats = report["stats"]
    assert stats["completion_tokens"] == len(report["tokens"])
    assert stats["prompt_tokens"] > 4
    assert stats["load_s"] == 0.25
    assert stats["time_to_first_token_s"] > 0
    assert stats["peak_rss_bytes"] > 10_000_000
    assert (stats["isa"], stats["threads"], stats["context"]) == ("scalar", 2, CAPACITY)
    assert stats["prefill_tokens_per_s"] > 0
    assert stats["decode_tokens_per_s"] > 0


@pytest.mark.parametrize("args", [("-p", "-"), ()])
def test_the_prompt_can_come_from_standard_input(home: Home, args: tuple[str, ...]) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", *args, stdin="A\nlong\nprompt\n")
    assert (result.exit_code, result.stdout) == (0, "Yes.\n")


def test_with_a_prompt_standard_input_is_left_alone(home: Home) -> None:
    model = home.parrot("Yes.")
    result = run(home.services(model), "generate", "-p", "Why?", "--json", stdin="something else")
    alone = run(home.services(model), "generate", "-p", "Why?", "--json", stdin="")
    counts = [json.loads(one.stdout)["stats"]["prompt_tokens"] for one in (result, alone)]
    assert counts[0] == counts[1]


def test_a_raw_prompt_is_continued_as_it_stands(home: Home) -> None:
    model = home.parrot(speak=lambda context: context[-1])
    asked = ("--raw", "-p", "<|im_start|>z", "--max-tokens", "3", "--json")
    result = run(home.services(model), "generate", *asked)
    report = json.loads(result.stdout)
    assert (report["text"], report["finish_reason"]) == ("zzz", "length")
    ids = model.tokenizer.encode("<|im_start|>z", parse_special=True)
    assert report["stats"]["prompt_tokens"] == len(ids)


def test_a_base_model_takes_the_prompt_raw_and_says_so(home: Home) -> None:
    model = home.parrot(chat=False, speak=lambda context: context[-1])
    result = run(home.services(model), "generate", "-p", "z", "--max-tokens", "2")
    assert result.stdout == "zz\n"
    assert result.stderr.splitlines() == [
        "note: parrot is a base model without a chat template; it continues text",
        "note: --max-tokens cut the reply after 2 tokens;"
        " a higher one gives more, and none the whole context",
    ]


def test_stop_strings_end_the_answer(home: Home) -> None:
    services = home.services(home.parrot("one, two; three"))
    result = run(services, "generate", "-p", "Count", "--stop", ";", "--stop", "three", "--json")
    report = json.loads(result.stdout)
    assert (report["text"], report["finish_reason"]) == ("one, two", "stop")


def test_a_full_context_is_a_reason_of_its_own(home: Home) -> None:
    model = home.parrot(speak=lambda context: context[-1])
    result = run(home.services(model), "generate", "--raw", "-p", "z", "--max-tokens", "9999", "--json")
    report = json.loads(result.stdout)
    assert report["finish_reason"] == "context"
    assert len(report["tokens"]) == CAPACITY - 1


def test_threads_and_context_reach_the_model(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedec.telemetry.cores.usable_cores", lambda: 4)
    bundle = home.install()
    model = home.parrot("Yes.")
    run(home.services(model), "generate", "-p", "Why?", "--threads", "3", "--context", "50")
    assert home.opened == [{"bundle": bundle, "threads": 3}]
    assert model.backend.caches[-1] == CacheConfig(50, None, 50)  # no pass is longer than the context


@pytest.mark.parametrize("command", [("chat",), ("generate", "-p", "Why?"), ("plan",), ("bench", "kernels")])
def test_more_threads_than_cores_are_refused_before_anything_is_opened(
    home: Home, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("edgedec.telemetry.cores.usable_cores", lambda: 2)
    home.install()
    result = run(home.services(), *command, "--threads", "64")
    assert_one_line(result, 2, "64 threads", "2 cores", "use --threads 2 or fewer, or leave out --threads")
    assert home.opened == []
    assert not (home.path / "costs").exists()


def test_another_runtime_keeps_its_own_kind_of_cache(home: Home) -> None:
    model = home.parrot("Yes.")
    result = run(home.services(model), "generate", "-p", "Why?", "--json")
    stats = json.loads(result.stdout)["stats"]
    assert stats["kv"] is None
    assert stats["kv_cache_bytes"] == model.forward.nbytes()["kv_cache"]
    refused = run(home.services(model), "generate", "-p", "Why?", "--kv", "int8")
    assert_one_line(refused, 5, "int8", "leave out --kv")
    unknown = run(home.services(model), "generate", "-p", "x", "--kv", "int4")
    assert_one_line(unknown, 2, "int4", "fp16", "int8")


def test_the_kind_of_cache_is_reported(home: Home, tmp_path: Path) -> None:
    given = ("-p", "Why?", "--raw", "--max-tokens", "2", "--draft", "off", "--json")
    model = run_tiny(tiny_bundle(tmp_path))
    for kv in ("fp16", "int8"):
        stats = json.loads(run(home.services(model), "generate", *given, "--kv", kv).stdout)["stats"]
        assert stats["kv"] == kv


def test_the_system_message_reaches_the_prompt(home: Home) -> None:
    model = home.parrot("Yes.")
    run(home.services(model), "generate", "-p", "Why?", "--system", "Be brief.")
    cached = model.forward.cache  # type: ignore[attr-defined]
    assert cached[: len(model.tokenizer.encode("<|im_start|>system\nBe brief.", parse_special=True))] == (
        model.tokenizer.encode("<|im_start|>system\nBe brief.", parse_special=True)
    )


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (("-p", "x", "--threads", "0"), 2, ("--threads", "x>=1")),
        (("-p", "x", "--threads", "many"), 2, ("--threads", "integer")),
        (("-p", "x", "--max-tokens", "0"), 2, ("--max-tokens",)),
        (("-p", "x", "--context", "1"), 2, ("--context",)),
        (("-p", "x", "--seed", "-1"), 2, ("seed cannot be -1", "2^64 - 1")),
        (("-p", "x", "--seed", "18446744073709551616"), 2, ("seed cannot be",)),
        (("-p", "x", "--seed", "abc"), 2, ("--seed",)),
        (("-p", "x", "--temperature", "-0.5"), 2, ("temperature cannot be -0.5",)),
        (("-p", "x", "--temperature", "nan"), 2, ("temperature cannot be nan",)),
        (("-p", "x", "--sampling", "top-p=0"), 2, ("top-p cannot be 0",)),
        (("-p", "x", "--sampling", "top-k=-3"), 2, ("top-k cannot be -3",)),
        (("-p", "x", "--sampling", "repetition-penalty=0"), 2, ("repetition penalty cannot be 0",)),
        (("-p", "x", "--stop", ""), 2, ("a stop string must not be empty",)),
        (("-p", "x", "--raw", "--system", "s"), 2, ("--system has no place in a raw prompt",)),
        (("-p", "x", "--frobnicate"), 2, ("No such option", "edgedec generate --help")),
        (("-p", "x", "extra"), 2, ("two prompts are given",)),
        (("-p", ""), 2, ("the prompt is empty",)),
        (("-p", "x", "-m", "no-such-model"), 3, ("no-such-model", "`edgedec list --all` shows")),
        (("-p", "x", "-m", "./missing.gguf"), 3, ("missing.gguf",)),
        (("-p", "word " * 1000), 8, ("the context holds 400",)),
    ],
)
def test_bad_input_is_one_line(
    home: Home, args: tuple[str, ...], status: int, words: tuple[str, ...]
) -> None:
    assert_one_line(run(home.services(home.parrot("Yes.")), "generate", *args), status, *words)


def test_standard_input_that_is_no_text(home: Home) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", "-p", "-", stdin=b"abc\xff\xfe")
    assert_one_line(result, 2, "not UTF-8", "byte 3")
    assert_one_line(run(home.services(home.parrot("Yes.")), "generate", "-p", "-", stdin=""), 2, "empty")


def test_a_broken_template(home: Home) -> None:
    model = home.parrot("Yes.")
    broken = ChatTemplate("line one\n{{ messages[0]['nope'].x }}", bos="", eos="")
    result = run(home.services(model.with_template(broken)), "generate", "-p", "x")
    assert_one_line(result, 4, "chat template failed in line 2", "--raw")


def test_a_template_that_is_no_jinja_stops_chats_at_the_start_and_raw_prompts_not_at_all(home: Home) -> None:
    services = home.services(home.parrot("Yes.").with_template(ChatTemplate("{% for", bos="", eos="")))
    for arguments in (("chat",), ("generate", "-p", "x")):
        assert_one_line(run(services, *arguments, stdin=""), 4, "chat template is broken in line 1", "--raw")
    result = run(services, "generate", "-p", "x", "--raw")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_truncated_gguf(home: Home) -> None:
    broken = home.path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x00" * 6)
    refused = run(home.services(), "generate", "-p", "x", "-m", str(broken))
    assert_one_line(refused, 4, "GGUF file", "cut short")


def test_drafts_change_no_token(home: Home) -> None:
    parrot = home.parrot()
    texts: list[str] = []
    for names in ("off", "auto", "recycling"):
        model = ready_of(MarkovForward(vocab_size=parrot.tokenizer.size, capacity=200), parrot.codec)
        result = run(
            home.services(model), "generate", "-p", "Why?", "--max-tokens", "60", "--draft", names, "--json"
        )
        report = json.loads(result.stdout)
        texts.append(report["text"])
        stats = report["stats"]
        assert (
            stats["draft"] == {"off": [], "auto": ["lookup", "recycling"], "recycling": ["recycling"]}[names]
        )
        if names != "off":
            assert stats["rounds"] <= 60
            assert stats["block_efficiency"] >= 1.0
            assert stats["draft_s"] > 0
            assert stats["verify_s"] > 0
            assert set(stats["drafted_by"]) == set(stats["draft"])
            for found in stats["drafted_by"].values():
                assert found["queries"] > 0
                assert found["accepted"] <= found["drafted"] <= found["proposed"]
                assert found["draft_s"] + found["learn_s"] <= stats["draft_s"] + 0.1
                assert found["bytes_read"] == 0
            assert stats["predicted_tokens_per_s"] > 0 < stats["predicted_speed_up"]
    assert texts[0] == texts[1] == texts[2] != ""
    assert len(list((home.path / "costs").iterdir())) == 1  # measured by the first that needed it


def test_what_drafters_learned_is_kept_only_on_request(home: Home) -> None:
    parrot = home.parrot()
    texts, kept = [], []
    for history in ((), ("--history",), ("--history",), ()):
        model = ready_of(MarkovForward(vocab_size=parrot.tokenizer.size, capacity=200), parrot.codec)
        args = ("--seed", "0", "--max-tokens", "60", "--draft", "auto", *history)
        texts.append(run(home.services(model), "chat", *args, stdin="Why?\n").stdout)
        kept.append([file.stat().st_mtime_ns for file in (home.path / "drafts").glob("*")])
    assert texts[0] == texts[1] == texts[2] == texts[3] != ""
    assert [len(times) for times in kept] == [0, 1, 1, 1]
    assert kept[1] < kept[2] == kept[3]


def test_an_unknown_drafter_is_refused_before_the_model_is_opened(home: Home) -> None:
    result = run(home.services(home.parrot("Hi.")), "generate", "-p", "Why?", "--draft", "oracle")
    assert_one_line(result, 2, "'oracle'", "lookup, recycling")
    assert home.opened == []


def test_a_model_without_trees_says_that_it_drafts_nothing(home: Home) -> None:
    result = run(home.services(home.parrot("Because.")), "generate", "-p", "Why?", "--draft", "lookup")
    assert (result.exit_code, result.stdout) == (0, "Because.\n")
    assert "without drafts" in result.stderr


def test_unasked_a_model_without_trees_drafts_nothing_and_says_nothing(home: Home) -> None:
    result = run(home.services(home.parrot("Because.")), "generate", "-p", "Why?", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["stats"]["draft"] == []


def test_a_suffix_asks_for_the_text_before_it(home: Home, tmp_path: Path) -> None:
    named = {f"tokenizer.ggml.fim_{one}_token_id": at for at, one in ((0, "pre"), (1, "suf"), (2, "mid"))}
    source = write_tiny(tmp_path / "gap.gguf", extra=named)
    asked = ("-m", str(source), "-p", "a cat", "--max-tokens", "5", "--temperature", "0", "--json")
    found = json.loads(run(home.real(), "generate", *asked, "--suffix", "dog").stdout)
    plain = json.loads(run(home.real(), "generate", *asked, "--raw").stdout)
    counted = [one["stats"]["prompt_tokens"] for one in (found, plain)]
    assert counted[0] > counted[1] + 3
    assert len(found["tokens"]) <= 5


def test_a_suffix_needs_a_model_with_tokens_for_it(home: Home) -> None:
    result = run(home.services(home.parrot("Yes.")), "generate", "-p", "a", "--suffix", "b")
    assert_one_line(result, 5, "no tokens for the text between two others")
