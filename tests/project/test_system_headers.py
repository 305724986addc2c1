"""Systems differ in one folder of the C++: nothing outside ``kernels/common/os/`` includes their headers."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

KERNELS = ROOT / "kernels"
SYSTEM = "common/os"
ELSEWHERE = {
    "android/runtime.cc": "is the C++ runtime of Android's library, over its C library alone",
    "android/jni.cc": "is Java's side, which Android alone has",
    "wasm/files.cc": "is the system of browsers",
    "wasm/system.cc": "is the system of browsers",
}
"""Files of one system, which may include its headers, and why."""
STANDARD = set(
    """
    algorithm array atomic cctype cerrno cfloat climits clocale cmath complex cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cwchar deque errno.h exception float.h functional initializer_list iterator limits
    limits.h math.h memory new numeric optional random setjmp.h stdarg.h stdbool.h stddef.h stdint.h stdio.h
    stdlib.h string string.h string_view time.h tuple type_traits typeinfo unordered_map utility variant
    vector
    arm_fp16.h arm_neon.h cpuid.h immintrin.h wasm_simd128.h x86intrin.h sanitizer/tsan_interface.h
    simde/x86/avx512.h simde/x86/avx2.h simde/x86/fma.h simde/x86/f16c.h simde/wasm/simd128.h
    simde/wasm/relaxed-simd.h
    """.split()  # noqa: SIM905
)
"""Headers of the languages, of compilers for the instructions of a processor, and of what models those."""
INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
SYSTEMS = re.compile(r"\b(__linux__|__ANDROID__|__APPLE__|_WIN32|__unix__|__MACH__)\b")
HEADERS = {"common/capi.h", "engine/edgedec.h"}
"""They name a system, as it exports functions in another way."""


def sources() -> dict[str, str]:
    """Texts of all C++ files by their names within ``kernels/``."""
    return {
        path.relative_to(KERNELS).as_posix(): path.read_text(encoding="utf-8")
        for path in KERNELS.rglob("*")
        if path.suffix in (".cc", ".h", ".inc")
    }


def test_only_one_folder_includes_headers_of_a_system() -> None:
    found = {
        f"{name}: {header}"
        for name, text in sources().items()
        if not name.startswith(f"{SYSTEM}/") and name not in ELSEWHERE
        for header in INCLUDE.findall(text)
        if header not in STANDARD
    }
    assert found == set()


def test_only_one_folder_asks_which_system_it_is() -> None:
    asking = {name for name, text in sources().items() if SYSTEMS.search(text)}
    assert {name for name in asking if not name.startswith(f"{SYSTEM}/")} == HEADERS


@pytest.mark.parametrize("name", ELSEWHERE)
def test_files_of_one_system_are_there(name: str) -> None:
    assert (KERNELS / name).is_file()


def test_the_headers_of_the_folder_are_the_same_for_all_systems() -> None:
    """Those that include headers of a system are for one, by their name, or small enough to be inline."""
    headers = {name: text for name, text in sources().items() if re.fullmatch(rf"{SYSTEM}/\w+\.h", name)}
    assert len(headers) >= 8
    found = {name for name, text in headers.items() if set(INCLUDE.findall(text)) - STANDARD}
    assert found == {f"{SYSTEM}/{name}.h" for name in ("features", "threads", "windows_text")}


def test_each_system_has_its_files() -> None:
    lists = (KERNELS / "CMakeLists.txt").read_text(encoding="utf-8")
    files = {name for name in sources() if name.startswith(f"{SYSTEM}/") and name.endswith(".cc")}
    assert files == set(re.findall(rf"{SYSTEM}/\w+\.cc", lists))
