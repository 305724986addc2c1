"""Phones have no C++ library for the engine: its sources take from headers what headers define whole."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

KERNELS = ROOT / "kernels"
COMPILED = (
    "regex iostream sstream fstream thread mutex condition_variable future map set unordered_map"
    " unordered_set"
)
"""Headers whose functions lie in a library."""
INCLUDE = re.compile(rf"#include <({COMPILED.replace(' ', '|')})>")
ROOMS = ("core", "engine", "common", "experts", "text", "ort")
ELSEWHERE = ("core/api", "engine/probes")
"""Rooms that a phone's library leaves out."""


@pytest.mark.parametrize("room", ROOMS)
def test_no_source_of_a_phones_library_needs_a_c_plus_plus_library(room: str) -> None:
    files = [path for path in (KERNELS / room).rglob("*") if path.suffix in (".cc", ".h")]
    assert len(files) > 5
    found = {
        f"{name}: {header}"
        for path in files
        if not (name := path.relative_to(KERNELS).as_posix()).startswith(ELSEWHERE)
        for header in INCLUDE.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()
