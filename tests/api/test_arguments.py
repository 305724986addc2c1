"""The arguments of calls by their names: values of sampling one by one, and all that an editor can offer."""

from __future__ import annotations

import pydoc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import edgedec
from edgedec.api import Model
from edgedec.assemble.settings import RunSettings
from edgedec.core.errors import UsageError
from edgedec.models import Store
from edgedec.sampling.named import SamplingArguments, params_of
from edgedec.session.reply_arguments import ReplyArguments


@pytest.fixture(scope="module")
def model(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    store = Store(tmp_path_factory.mktemp("home"), notice=lambda line: None)
    with edgedec.open(
        bundle, store=store, threads=1, context=256, draft="off", temperature=0.25, sampling={"seed": 7}
    ) as found:
        yield found


def test_values_of_sampling_are_arguments_of_open(model: Model) -> None:
    assert (model.sampling.temperature, model.sampling.seed) == (0.25, 7)


@pytest.mark.parametrize(
    "given",
    [
        {"sampling": edgedec.SamplingParams(temperature=0.5, top_p=0.9)},
        {"sampling": {"temperature": 0.5, "top_p": 0.9}},
        {"temperature": 0.5, "top_p": 0.9},
        {"sampling": {"temperature": 1.5, "top_p": 0.9}, "temperature": 0.5},
    ],
)
def test_a_chat_a_reply_and_a_text_take_values_of_sampling_in_every_form(
    model: Model, given: dict[str, Any]
) -> None:
    chat = model.chat(max_tokens=4, **given)
    drawn = [
        chat.settings.params,
        model.chat(max_tokens=4).reply("Hi", **given).params,
        model.complete("Once upon", max_tokens=4, **given).params,
    ]
    assert [(one.temperature, one.top_p, one.seed) for one in drawn] == [(0.5, 0.9, 7)] * 3
    one = chat.reply("Hi", top_p=0.8).params
    assert (one.temperature, one.top_p) == (0.5, 0.8), "on top of the chat's own"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sampling": {"temprature": 0.5}}, "did you mean temperature"),
        ({"sampling": "warm"}, "SamplingParams or a mapping"),
        ({"temperature": -1}, "temperature cannot be -1"),
    ],
)
def test_a_value_that_is_none_says_what_would_be_one(model: Model, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        model.chat(**given)
    assert words in f"{refused.value} {refused.value.hint}"


def test_a_setting_of_open_that_is_none_is_told_with_its_neighbour(bundle: Path) -> None:
    unknown: dict[str, Any] = {"temprature": 0.5}
    with pytest.raises(UsageError, match="no setting 'temprature'") as refused:
        edgedec.open(bundle, **unknown)
    assert "did you mean temperature?" in str(refused.value.hint)


def test_single_values_are_on_top_of_any_form_of_the_others() -> None:
    assert params_of(None) is None
    greedy = params_of(edgedec.SamplingParams(temperature=0.5, top_p=0.9), {"temperature": 0.0})
    assert greedy == edgedec.SamplingParams(temperature=0.0, top_p=0.9)


def test_the_arguments_are_the_fields_with_their_types() -> None:
    params = get_type_hints(edgedec.SamplingParams)
    assert get_type_hints(SamplingArguments) == {
        one.name: params[one.name] for one in fields(edgedec.SamplingParams)
    }
    config = get_type_hints(edgedec.RunConfig)
    own = {one.name: config[one.name] for one in fields(edgedec.RunConfig) if one.init}
    assert get_type_hints(RunSettings) == own | get_type_hints(SamplingArguments)
    assert {"temperature", "schema", "regex", "grammar"} <= get_type_hints(ReplyArguments).keys()


@pytest.mark.parametrize("read", [str, lambda reply: reply.text, lambda reply: reply.whole])
def test_a_reply_that_nobody_reads_is_read_by_its_text(model: Model, read: Any) -> None:
    expected = model.chat(max_tokens=8).reply("Hi").read()
    chat = model.chat(max_tokens=8)
    reply = chat.reply("Hi")
    assert "not finished" in repr(reply), "looking at it reads nothing"
    assert read(reply) == expected != ""
    assert reply.finish_reason == "length"
    assert chat.messages[-1].content == expected
    assert read(reply) == expected, "nothing is computed twice"


def test_a_reply_that_is_being_read_has_the_text_so_far(model: Model) -> None:
    reply = model.chat(max_tokens=8).reply("Hi")
    pieces = iter(reply)
    assert reply.text == ""
    first = next(pieces)
    assert reply.text == first
    assert reply.finish_reason is None


def test_the_value_of_a_form_is_there_without_reading(model: Model) -> None:
    assert model.complete("Hi", regex="a|b").text in ("a", "b")
    assert model.complete("Hi", schema={"enum": [1, 2]}).parsed in (1, 2)


LISTED = """
import sys, edgedec
names = dir(edgedec)
print(*names)
print(*sorted({'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules)))
"""


def test_the_names_are_listed_before_anything_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True)
    names, imported = done.stdout.splitlines()
    assert set(edgedec.__all__) <= set(names.split())
    assert not {"os", "TYPE_CHECKING"} & set(names.split()), "nothing that people would not call"
    assert imported == ""


def test_help_shows_what_people_call() -> None:
    page = pydoc.plain(pydoc.render_doc(edgedec))
    assert "class Chat(" in page
    assert "    open(" in page
    assert "Open a model: a name, a bundle" in page
