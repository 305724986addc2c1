"""Presets and sampling options: the model says what the user did not; greedy is one option away."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from math import isqrt
from pathlib import Path
from typing import Any

import pytest

from edgedec.assemble.runner import Runner
from edgedec.bundle.preset import Preset
from edgedec.cli.cut import Limits
from edgedec.cli.sampling_options import NAMED, SamplingOptions
from edgedec.sampling.named import SamplingParams
from edgedec.session.loops import TAIL_TOKENS
from tests.cli.support import Home, assert_one_line, run
from tests.cli.test_chat_session import document
from tests.conftest import ROOT
from tests.fixtures.ready import Ready, prepared_of
from tests.session.parrot import CAPACITY

PRESET = Preset(temperature=0.7, top_k=20, top_p=0.8, repetition_penalty=1.05)
GREEDY = {
    "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "top_n_sigma": 0.0,
    "typical": 1.0, "eta": 0.0, "top_h": 1.0, "mirostat": 0.0, "mirostat_eta": 0.1, "edt": 0.0,
    "repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "seed": 0, "logit_bias": [],
}  # fmt: skip
TAKEN = GREEDY | {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05}


def with_preset(model: Ready, preset: Preset = PRESET) -> Ready:
    """The same model with a preset in its manifest."""
    manifest = replace(model.loaded.manifest, preset=preset)
    prepared = prepared_of(replace(model.model, manifest=manifest), model.runner.prepared.config)
    return Ready(Runner(prepared), model.codec)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], TAKEN),
        (["--seed", "4"], TAKEN | {"seed": 4}),
        (["--temperature", "1.5", "--sampling", "top-k=0"], TAKEN | {"temperature": 1.5, "top_k": 0}),
        (["--temperature", "0"], GREEDY),
        (
            ["--temperature", "0", "--sampling", "repetition-penalty=1.2"],
            GREEDY | {"repetition_penalty": 1.2},
        ),
        (
            ["--temperature", "0", "--sampling", "top_p=0.5", "--seed", "3"],
            GREEDY | {"top_p": 0.5, "seed": 3},
        ),
        (
            ["--sampling", "typical=0.9", "--sampling", "Frequency_Penalty=-1"],
            TAKEN | {"typical": 0.9, "frequency_penalty": -1.0},
        ),
        (["--temperature", "0", "--sampling", "presence-penalty=0.5"], GREEDY | {"presence_penalty": 0.5}),
    ],
)
def test_what_is_not_named_comes_from_the_preset(
    home: Home, options: list[str], expected: dict[str, float]
) -> None:
    services = home.services(with_preset(home.parrot("Hello.")))
    result = run(services, "generate", "-p", "Hi", "--json", *options)
    assert json.loads(result.stdout)["stats"]["sampling"] == expected


@pytest.mark.parametrize(
    ("command", "given", "instead"),
    [
        ("generate", ("--greedy",), "(give --temperature 0)"),
        ("chat", ("--top-p", "0.5"), "(give --sampling top-p=0.9)"),
        ("generate", ("--presence_penalty=1",), "(give --sampling presence-penalty=0.5)"),
        ("rm", ("--top-p", "0.5"), "(see `edgedec rm --help`)"),
    ],
)
def test_a_value_that_is_given_as_an_option_is_one_line_with_the_option_that_takes_it(
    home: Home, command: str, given: tuple[str, ...], instead: str
) -> None:
    assert_one_line(run(home.services(), command, *given), 2, given[0].partition("=")[0], instead)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("typcal=1", "--sampling knows no 'typcal' (did you mean typical?)"),
        ("seed=4", "seed has an option of its own (give --seed)"),
        ("quality=9", "--sampling knows no 'quality' (there are top-k, top-p, min-p, repetition-penalty,"),
        ("top-k=2.5", "top-k is a whole number, not '2.5' (as in --sampling top-k=40)"),
        ("top-p=7", "top-p cannot be 7"),
        ("eta", "eta is a number, not nothing (as in --sampling eta=0.01)"),
        ("eta=x", "eta is a number, not 'x' (as in --sampling eta=0.01)"),
        ("eta=1", "eta cannot be 1.0 (it must be from 0 (off) to below 1)"),
    ],
)
def test_a_rare_value_that_is_none_is_one_line(home: Home, given: str, line: str) -> None:
    home.install()
    assert_one_line(run(home.services(), "generate", "-p", "Hi", "--sampling", given), 2, line)
    twice = run(home.services(), "chat", "--sampling", "edt=1", "--sampling", "edt=2")
    assert_one_line(twice, 2, "--sampling names edt twice")
    assert home.opened == []


def test_every_value_of_the_sampler_can_be_given_on_the_command_line() -> None:
    own = {one.name for one in fields(SamplingOptions)} - {"values"}
    others = {name.replace("-", "_") for name in NAMED}
    assert own | others == {one.name for one in fields(SamplingParams)} - {"logit_bias"}
    assert not own & others
    page = (ROOT / "docs" / "guide" / "sampling.md").read_text(encoding="utf-8")
    assert [name for name in NAMED if f"`{name}`" not in page] == []
    assert f"there are {', '.join(NAMED)}" in run(None, "generate", "--sampling", "x=1").stderr


def test_a_chat_sets_rare_values_shows_those_that_are_on_and_keeps_them(home: Home) -> None:
    services = home.services(with_preset(home.parrot("Hello.")))
    talk = home.path / "talk"
    typed = "/set typical 0.8\n/set\n/set mirostat\n/set typcal 1\nHi\n"
    result = run(services, "chat", "--session", str(talk), "--sampling", "eta=0.01", stdin=typed)
    lines = [line.split() for line in result.stderr.splitlines()]
    assert ["typical", "0.8"] in lines
    assert ["eta", "0.01"] in lines
    assert not [line for line in lines if line[:2] == ["top-h", "1"]]
    assert "did you mean typical?" in result.stderr
    assert document(talk)["params"]["typical"] == 0.8
    assert document(talk)["params"]["eta"] == 0.01


def test_a_chat_draws_a_seed_and_shows_it(home: Home) -> None:
    services = home.services(with_preset(home.parrot("Hello.")))
    shown = {run(services, "chat", stdin="/stats\n").stderr.splitlines()[0] for _ in range(4)}
    assert len(shown) > 1
    start = "sampling  temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05, seed "
    assert all(line.startswith(start) and int(line.removeprefix(start)) < 10**6 for line in shown)
    assert run(services, "chat", "--seed", "7", stdin="/stats\n").stderr.splitlines()[0] == f"{start}7"


def test_a_saved_chat_keeps_the_seed_that_was_drawn(home: Home) -> None:
    talk = home.path / "talk"
    services = home.services(with_preset(home.parrot("Hello.", "Again.", "Bye.")))
    run(services, "chat", "--session", str(talk), stdin="Hi\n")
    drawn = document(talk)["params"]
    assert {**drawn, "seed": 0} == TAKEN
    run(services, "chat", "--session", str(talk), stdin="More\n")
    assert document(talk)["params"] == drawn
    run(services, "chat", "--session", str(talk), "--temperature", "0", stdin="More\n")
    assert document(talk)["params"] == GREEDY | {"seed": drawn["seed"]}


def test_the_preset_brings_a_system_message_and_stop_strings(home: Home) -> None:
    preset = Preset(system="Be brief.", stops=("STOP",))
    model = with_preset(home.parrot("one STOP two", "three END"), preset)
    assert run(home.services(model), "generate", "-p", "Hi", "--stop", "END").stdout == "one \n"
    talk = home.path / "talk"
    run(home.services(model), "chat", "--session", str(talk), stdin="Hi\n")
    assert document(talk)["messages"][0] == {"role": "system", "content": "Be brief."}
    other = home.path / "other"
    run(home.services(model), "chat", "--session", str(other), "--system", "Be long.", stdin="Hi\n")
    assert document(other)["messages"][0]["content"] == "Be long."


def test_a_base_model_gets_no_system_message_of_a_preset(home: Home) -> None:
    preset = Preset(system="Be brief.")
    model = with_preset(home.parrot(chat=False, speak=lambda context: context[-1]), preset)
    talk = home.path / "talk"
    run(home.services(model), "chat", "--session", str(talk), "--max-tokens", "2", "--raw", stdin="z\n")
    assert [message["role"] for message in document(talk)["messages"]] == ["user", "assistant"]


def restless(home: Home) -> Ready:
    """A model that never stops and never repeats itself: squares differ."""
    ids = home.parrot().tokenizer.encode("ab", add_bos=False)
    return home.parrot(speak=lambda context: ids[isqrt(len(context)) ** 2 == len(context)])


def test_a_reply_that_goes_round_in_circles_is_cut_and_one_line_says_so(home: Home) -> None:
    model = home.parrot(speak=lambda context: context[-1])
    result = run(home.services(model), "generate", "--raw", "-p", "z")
    assert result.stdout == "z" * TAIL_TOKENS + "\n"
    assert result.stderr == (
        f"note: the reply repeats itself, and was cut after {TAIL_TOKENS} tokens;"
        " with --max-tokens replies go on to that limit\n"
    )
    (several,) = Limits(CAPACITY, CAPACITY).of_several({"loop": [1, 2]})
    assert several.startswith("note: replies that repeat themselves were cut: lines 1, 2; with --max-tokens")
    limited = run(home.services(model), "generate", "--raw", "-p", "z", "--max-tokens", "300", "--json")
    assert json.loads(limited.stdout)["finish_reason"] == "length"


def test_a_reply_may_fill_the_context_and_one_line_says_so(home: Home) -> None:
    model = restless(home)
    result = run(home.services(model), "generate", "--raw", "-p", "z")
    assert len(result.stdout) == CAPACITY
    assert result.stderr == (
        f"note: the context of {CAPACITY} tokens is full, and cut the reply after {CAPACITY - 1};"
        " --context, up to 1000 or --when-full slide gives more\n"
    )
    report = json.loads(run(home.services(model), "generate", "--raw", "-p", "z", "--json").stdout)
    assert report["finish_reason"] == "context"


def test_a_turn_of_generate_may_fill_the_context_too(home: Home) -> None:
    model = restless(home)
    report = json.loads(run(home.services(model), "generate", "-p", "z", "--json").stdout)
    assert report["finish_reason"] == "context"
    assert report["stats"]["prompt_tokens"] + report["stats"]["completion_tokens"] == CAPACITY
    chat = run(home.services(model), "chat", stdin="z\n")
    assert len(chat.stdout.strip()) == CAPACITY * 3 // 4 - report["stats"]["prompt_tokens"]


def test_list_shows_presets(home: Home, tmp_path: Path) -> None:
    from edgedec.export import ModelCard, export_gguf
    from tests.fixtures.tiny_gguf import write_tiny

    bundle = home.path / "models" / "mine"
    bundle.parent.mkdir(parents=True)
    export_gguf(write_tiny(tmp_path / "m.gguf"), bundle, card=ModelCard(preset=PRESET))
    shown = run(home.services(), "show", "mine").stdout
    assert "temperature 0.7, top-k 20, top-p 0.8, repetition penalty 1.05" in shown
    found: dict[str, Any] = json.loads(run(home.services(), "list", "--json").stdout)
    assert found["installed"][0]["preset"] == PRESET.as_json()
    assert all("preset" in one for one in found["available"])
