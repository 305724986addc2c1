"""Replies of a form, and experts from the disk, by the native engine in Wine: Linux's tokens.

Needs EDGEDEC_ORT_WINDOWS (CONTRIBUTING.md has the commands).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.streamed import LAYERS, cut, sparse_bundle
from tests.fixtures.tiny_models import tiny_bundle
from tests.native.experts_alone import ROOMY, SHAPE, experts_of
from tests.native.form_cases import SCHEMAS, TEXT
from tests.windows import cross
from tests.windows.hosts import Host

LACKS = cross.missing(wine=True, runtime=True)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(LACKS is not None, reason=str(LACKS))]

TEMPERATURES = (0.0, 0.9)
DRAFTS = "lookup,recycling"


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "lfm2"])
def test_replies_of_a_form(linux: Host, windows: Host, tmp_path: Path, architecture: str) -> None:
    bundle = tiny_bundle(tmp_path, architecture)
    drafted = 0
    for draft in ("off", DRAFTS):
        for host in (linux, windows):
            assert host.open(bundle, draft=draft) == ["ok", ""]
        for schema in map(json.dumps, SCHEMAS):
            for temperature in TEMPERATURES:
                expected = linux.form(schema, TEXT, 40, temperature)[0]
                found, _, accepted = windows.form(schema, TEXT, 40, temperature)
                assert found == expected
                assert len(found) > 1
                drafted += accepted
    assert drafted > 0
    refused = windows.ask("form", 8, 0, 7, '{"type": "text"}', TEXT)
    assert refused == linux.ask("form", 8, 0, 7, '{"type": "text"}', TEXT)
    assert refused[:2] == ["error", "2"]


def memory(host: Host) -> Any:
    return json.loads(host.said("stats"))["memory"]


@pytest.mark.parametrize("architecture", LAYERS)
def test_experts_come_from_the_disk(linux: Host, windows: Host, tmp_path: Path, architecture: str) -> None:
    """About half of them are in memory at a time; on Linux all are."""
    folder = tmp_path / "Größe Ω"
    folder.mkdir()
    bundle = sparse_bundle(folder, architecture, experts=replace(SHAPE, chosen=2))
    sizes = experts_of(bundle)
    assert linux.open(bundle) == ["ok", ""]
    ids = linux.said("encode", TEXT).split()
    expected = [linux.generate(ids, temperature=one)[0] for one in TEMPERATURES]
    assert windows.open(bundle, ROOMY, DRAFTS) == ["ok", ""]
    assert json.loads(windows.said("stats"))["experts"]["slots"] == sizes.total
    assert [windows.generate(ids, temperature=one)[0] for one in TEMPERATURES] == expected
    tight = memory(windows)["planned_bytes"] - sizes.total // 2 * sizes.slot_bytes
    assert windows.open(bundle, tight, DRAFTS) == ["ok", ""]
    assert [windows.generate(ids, temperature=one)[0] for one in TEMPERATURES] == expected
    stats = json.loads(windows.said("stats"))
    assert sizes.least <= stats["experts"]["slots"] < sizes.total
    assert stats["experts"]["bytes_read"] > 0
    assert stats["peak_rss_bytes"] <= tight


def test_a_file_that_is_cut_ends_the_reply(windows: Host, tmp_path: Path) -> None:
    bundle = sparse_bundle(tmp_path)
    assert windows.open(bundle, ROOMY) == ["ok", ""]
    ids = windows.said("encode", "the end " + TEXT).split()
    with cut(bundle):
        code = windows.ask("generate", 30, 0, 7, *ids)
    assert code[:2] == ["error", "9"]
    assert code[2].startswith("an expert cannot be read: ")
