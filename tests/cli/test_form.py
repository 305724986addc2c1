"""generate --form: a reply of that form on standard output, or one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Home, assert_one_line, run
from tests.fixtures.tiny_models import run_tiny, tiny_bundle

PLAIN = ("--draft", "off")
WARM = ("--temperature", "1")
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "maximum": 9}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return str(file)


@pytest.fixture
def model(home: Home, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return home.services(run_tiny(tiny_bundle(tmp_path_factory.mktemp("models"))))


def test_the_reply_is_json_of_the_schema(model, schema: str) -> None:  # type: ignore[no-untyped-def]
    result = run(model, "generate", *PLAIN, "-p", "Why?", "--form", schema)
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(json.loads(result.stdout)) == {"colour", "count"}
    report = json.loads(run(model, "generate", *PLAIN, "-p", "Why?", "--form", schema, "--json").stdout)
    assert (report["text"], report["finish_reason"]) == (result.stdout.rstrip("\n"), "stop")


def test_patterns_and_grammars(model, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert run(model, "generate", *PLAIN, "-p", "Why?", "--form", "regex:yes|no").stdout in ("yes\n", "no\n")
    (tmp_path / "list.lark").write_text('start: ("a" | "b")~3')
    result = run(model, "generate", *PLAIN, "--raw", "-p", "Why?", "--form", str(tmp_path / "list.lark"))
    assert len(result.stdout.strip("ab")) == len("\n")


def test_every_line_of_a_file_has_the_form(model, schema: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "lines").write_text("One?\nTwo?\nThree?\n")
    given = ("batch", *PLAIN, "--input", str(tmp_path / "lines"), "--form", schema, "--json")
    lines = run(model, *given).stdout.splitlines()
    assert [set(json.loads(json.loads(line)["text"])) for line in lines] == [{"colour", "count"}] * 3
    cut = run(model, *given, "--max-tokens", "3")
    assert cut.exit_code == 12
    assert "3 of 3 lines have no reply" in cut.stderr
    assert ["cut after 3 tokens" in line for line in cut.stdout.splitlines()] == [True] * 3


def test_a_reply_that_is_cut_is_shown_and_is_an_error(model, schema: str) -> None:  # type: ignore[no-untyped-def]
    result = run(model, "generate", *PLAIN, "-p", "Why?", "--form", schema, "--max-tokens", "3")
    assert result.exit_code == 12
    assert result.stdout.startswith("{")
    assert result.stdout.endswith("\n")
    assert "cut after 3 tokens" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_annotation_that_is_left_out_is_a_line(model, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    form = {"type": "object", "properties": {"a": {"enum": ["b"], "format": "color"}}, "required": ["a"]}
    (tmp_path / "form.json").write_text(json.dumps({**form, "additionalProperties": False}))
    given = ("generate", *PLAIN, "-p", "Why?", "--form", str(tmp_path / "form.json"))
    result = run(model, *given)
    assert json.loads(result.stdout) == {"a": "b"}
    assert result.stderr == 'note: replies do not keep to "format": "color" at /properties/a\n'


def test_unbiased_replies_say_their_cost_and_what_does_not_apply(model) -> None:  # type: ignore[no-untyped-def]
    given = ("generate", *PLAIN, "-p", "Why?", "--form", "unbiased:regex:yes|no", *WARM, "--seed", "3")
    result = run(model, *given, "--sampling", "top-k=2")
    assert result.stdout in ("yes\n", "no\n"), result.stderr
    assert "drawn at temperature 1 alone, without top-k" in result.stderr
    report = json.loads(run(model, *given, "--json").stdout)
    assert report["text"] == result.stdout.strip()
    assert report["stats"]["form_tries"] > 1
    assert report["stats"]["form_tokens_dropped"] >= report["stats"]["form_tries"] - 1
    assert 0 < report["stats"]["form_probability_at_most"] < 1


def test_unbiased_lines_of_a_file(model, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "lines").write_text("One?\nTwo?\n")
    lines = run(
        model, "batch", *PLAIN, "--input", str(tmp_path / "lines"), "--form", "unbiased:regex:yes|no", *WARM
    )
    assert (lines.exit_code, lines.stderr) == (0, "")
    assert len([line for line in lines.stdout.splitlines() if line in ("yes", "no")]) == 2
    given = ("Why?", "--samples", "3", "--batch", "2", "--form", "unbiased:regex:yes|no")
    [several] = run(model, "batch", *PLAIN, *given, *WARM, "--json").stdout.splitlines()
    samples = json.loads(several)["samples"]
    assert [one["text"] in ("yes", "no") for one in samples] == [True] * 3


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--form", "regex:a("), 2, ["pattern cannot be used"]),
        (("--form", "{file}.json"), 2, ["no JSON"]),
        (("--form", "{empty}"), 4, ["empty"]),
        (("--form", "missing.json"), 3, ["missing.json"]),
        (("--form", "yes|no"), 3, ["yes|no"]),
        (("--form", "{huge}.json"), 2, ['"maximum": -1e+20', "-9,223,372,036,854,774,784"]),
        (("--form", "{crash}"), 2, ["it crashes the compiler"]),
        (("--form", "regex:a", "--switch", "small"), 2, ["one model"]),
        (("--form", "unbiased:regex:a", *WARM, "--switch", "small"), 2, ["one model"]),
        (("--form", "unbiased:regex:a", *WARM, "--temperature", "0"), 2, ["the temperature is 0", "above 0"]),
        (("--form", "unbiased:regex:a", *WARM, "--logprobs", "1", "--json"), 2, ["has no log-probabilities"]),
        (("--form", "unbiased:missing.json"), 3, ["missing.json"]),
        (("--form", "unbiased:regex:a(", *WARM), 2, ["pattern cannot be used"]),
        (
            ("--form-sampling", "unbiased"),
            2,
            ["no such option: --form-sampling", "give --form unbiased:FORM"],
        ),
        (("--json-schema", "a.json"), 2, ["no such option: --json-schema", "give --form FILE.json"]),
        (("--regex", "a"), 2, ["no such option: --regex", "give --form regex:PATTERN"]),
    ],
)
def test_wrong_forms_are_one_line(  # type: ignore[no-untyped-def]
    model, tmp_path: Path, args: tuple[str, ...], code: int, words: list[str]
) -> None:
    (tmp_path / "file.json").write_text("start: what")
    (tmp_path / "empty").write_text("")
    huge = '{"type": "integer", "minimum": -1e30, "maximum": -1e20}'
    (tmp_path / "huge.json").write_text(huge)
    (tmp_path / "crash").write_text(f"start: %json {huge}")
    files = {name: tmp_path / name for name in ("file", "empty", "huge", "crash")}
    given = [arg.format(**files) for arg in args]
    assert_one_line(run(model, "generate", *PLAIN, "-p", "Why?", *given), code, *words)
