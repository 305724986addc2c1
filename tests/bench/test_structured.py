"""Figures of structured output: the cases, the counts, and a whole run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedec.bench.harness.schemas import FAMILIES
from edgedec.bench.studies import structured
from edgedec.bench.studies.structured import FormReport, FormRow, form_cases, is_valid
from edgedec.control.tally import Count
from edgedec.export import export_gguf
from tests.bench.test_commands import bench, report
from tests.cli.support import assert_one_line
from tests.fixtures.tiny_gguf import TinyShape, write_tiny

ROW = FormRow(family="enum", compile_ms=2.0, tokens=(1, 2), whole=True, valid=True, alike=True, ratio=1.5)


@pytest.fixture(scope="module")
def args(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("structured")
    bundle = folder / "bundle"
    export_gguf(write_tiny(folder / "tiny.gguf", shape=TinyShape(context=2048)), bundle)
    args = ["accuracy", "--task", "structured", "-m", str(bundle), "--threads", "1"]
    return [*args, "--limit", "4", "--tokens", "24"]


def test_cases_take_the_families_in_turn() -> None:
    cases = form_cases(2 * len(FAMILIES) - 1)
    assert [case.family for case in cases] == [*FAMILIES, *FAMILIES][:-1]
    assert cases[:7] == form_cases(7)
    assert cases[0].schema != cases[len(FAMILIES)].schema


def test_counts() -> None:
    refused = FormRow(family="ref", compile_ms=4.0, refused="no")
    cut = replace(ROW, whole=False, valid=None, ratio=None, alike=False)
    found = FormReport([ROW, cut, refused, replace(ROW, valid=False)], {"lookup": Count(9, 4)})
    facts = found.as_json()
    counts = [facts[name] for name in ("schemas", "accepted", "whole", "cut", "valid", "differing", "timed")]
    assert counts == [4, 3, 2, 1, 1, 1, 2]
    assert facts["drafts"] == {"lookup": {"drafted": 9, "accepted": 4}}
    assert facts["compile_ms"] == {"median": 2.0, "within_95_percent": 3.7}
    assert facts["time_ratio"]["median"] == 1.5


def test_valid_replies() -> None:
    schema = {"type": "object", "properties": {"ip": {"format": "ipv4"}}, "required": ["ip"]}
    texts = ['{"ip": "10.0.0.1"}', '{"ip": "10.0.0"}', "{}", '{"ip"']
    assert [is_valid(schema, text) for text in texts] == [True, False, False, False]


def test_a_run(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = report(bench(tmp_path, *args, "--json"))
    assert (facts["schemas"], facts["accepted"], facts["differing"]) == (4, 4, 0)
    assert facts["whole"] + facts["cut"] == 4
    assert facts["valid"] == facts["whole"] > 0
    assert all(one["compile_ms"] > 0 for one in facts["by_schema"])
    monkeypatch.setattr(structured, "find_spec", lambda name: None)
    table = bench(tmp_path, *args).stdout
    assert "schemas accepted                 4 of 4 (100.0%)" in table
    assert "not checked: jsonschema is not installed" in table


def test_a_reply_that_differs_is_a_failure(
    args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = structured.ask_plain

    def other(*given: Any) -> list[FormRow]:
        first, *rows = right(*given)
        return [replace(first, tokens=()), *rows]

    monkeypatch.setattr(structured, "ask_plain", other)
    failed = bench(tmp_path, *args)
    assert failed.exit_code == 1
    assert "replies that differ with drafts  1" in failed.stdout


def test_options_of_other_tasks(args: list[str], tmp_path: Path) -> None:
    assert_one_line(bench(tmp_path, *args, "--input", "a.txt"), 2, "--input does not belong to structured")
    assert_one_line(bench(tmp_path, *args, "--when-full", "slide"), 2, "--when-full does not belong")
