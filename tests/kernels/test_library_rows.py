"""The rows of a library that was compiled for one processor, on that one and on another."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edgedec.core.errors import UsageError
from edgedec.kernels import library

AMX = ("amx", "avx512_vnni", "avx2", "scalar")
AVX2 = ("avx2", "scalar")


def compiled(
    patch: pytest.MonkeyPatch, has: tuple[str, ...], runs: tuple[str, ...], forced: str = ""
) -> None:
    """Stand for a library with the rows ``has`` on a processor that can run ``runs``."""
    every = ("amx", "avx512_vnni", "avx_vnni", "avx2", "neon_dotprod", "scalar")
    selected = next((row.encode() for row in has if row in runs and forced in ("", row)), None)
    patch.setattr(library, "_listed", lambda name: list(every if "every" in name else has))
    patch.setattr(library, "can_run", lambda row: row in runs)
    patch.setattr(library, "load", lambda: SimpleNamespace(edgedec_selected_isa=lambda: selected))
    patch.setenv("EDGEDEC_ISA", forced)


@pytest.mark.parametrize(
    ("has", "runs", "isa", "faster"),
    [
        (("amx", "scalar"), AMX, "amx", []),  # where it was compiled; what it lacks would be slower
        (AMX, AMX, "amx", []),
        (("amx", "scalar"), AVX2, "scalar", ["avx2"]),
        (("avx2", "scalar"), AMX, "avx2", ["amx", "avx512_vnni"]),
        (("scalar",), ("scalar",), "scalar", []),
    ],
)
def test_a_library_runs_the_rows_that_it_has_and_tells_the_faster_ones_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, has: tuple[str, ...], runs: tuple[str, ...], isa: str, faster: list[str]
) -> None:
    compiled(monkeypatch, has, runs)
    assert library.isa() == isa
    assert library.faster() == faster


@pytest.mark.parametrize(
    ("forced", "reason"),
    [
        ("avx9000", "is not a kernel row"),
        ("neon_dotprod", "cannot run on this CPU"),
        ("avx2", "is not in this library, which was compiled for one CPU"),
    ],
)
def test_a_forced_row_is_refused_for_the_right_reason(
    monkeypatch: pytest.MonkeyPatch, forced: str, reason: str
) -> None:
    compiled(monkeypatch, ("amx", "scalar"), AMX, forced)
    with pytest.raises(UsageError) as refused:
        library.isa()
    assert refused.value.message == f"EDGEDEC_ISA={forced} {reason}"
    assert str(refused.value.hint).startswith("use one of: amx, scalar")
    assert (library.ALL_ROWS in str(refused.value.hint)) == (forced == "avx2")


def test_the_library_here_has_the_row_that_this_processor_prefers() -> None:
    assert library.faster() == []
    assert library.isa() in library.available()
    assert library.rows()[-1] == "scalar"
