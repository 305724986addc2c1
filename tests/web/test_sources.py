"""``edgedec.wasm`` has the files that it needs: Zig, which would say so, is not part of a quick run."""

from __future__ import annotations

import re

from tests.conftest import ROOT

KERNELS = ROOT / "kernels"
LISTS = (KERNELS / "wasm" / "library.cmake").read_text(encoding="utf-8").partition("add_executable")[0]
REPLACED = {
    # By wasm/files.cc and wasm/system.cc, which is also the system of common/os/ there:
    *("engine/base/files.cc", "engine/base/block.cc", "common/scratch.cc"),
    "experts/store.cc",  # by wasm/experts.cc: browsers stream no experts
    *("common/sequences.cc", "common/capi.cc"),  # a constant and a word of their headers alone are used
}


def compiled() -> set[str]:
    """Sources by the lists of CMake."""
    left_out = re.findall(r'EXCLUDE REGEX "(.+)"', LISTS)[0].replace("\\\\", "\\")
    globs = re.findall(r"(?:core|engine)/(?:\w+/)?\*\.cc", LISTS)
    found = {str(path.relative_to(KERNELS)) for pattern in globs for path in KERNELS.glob(pattern)}
    found = {name for name in found if not re.search(left_out, name)}
    return found | {*re.findall(r"[\w/]+\.cc\b", LISTS.partition("list(APPEND")[2])}


def test_the_sources_of_all_headers_are_compiled() -> None:
    found = compiled()
    assert len(found) > 80
    assert all((KERNELS / name).is_file() for name in found)
    included = {
        header
        for name in found
        for header in re.findall(r'#include "([^"]+)\.h"', (KERNELS / name).read_text(encoding="utf-8"))
    }
    sources = {f"{header}.cc" for header in included if (KERNELS / f"{header}.cc").is_file()}
    assert sources - found == REPLACED
