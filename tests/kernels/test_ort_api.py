"""kernels/ort/ort_api.h against the official header: every position, signature, field and constant of ours.

The ONNX Runtime wheel ships no headers. Point EDGEDEC_ORT_INCLUDE at a folder with onnxruntime_c_api.h (1.18
or newer), or install a system package that has it. Both headers are compiled side by side; nothing is run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

OURS = ROOT / "kernels" / "ort" / "ort_api.h"
HEADER = "onnxruntime_c_api.h"
SYSTEM = ("/usr/include", "/usr/local/include")
CONSTANTS = {
    "kFloat": "ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT",
    "kUint8": "ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8",
    "kInt32": "ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32",
    "kInt64": "ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64",
    "kFloat16": "ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16",
    "kRequired": "INPUT_OUTPUT_REQUIRED",
    "kOptional": "INPUT_OUTPUT_OPTIONAL",
    "kVariadic": "INPUT_OUTPUT_VARIADIC",
    "kFail": "ORT_FAIL",
    "kInvalidArgument": "ORT_INVALID_ARGUMENT",
    "kNoSuchFile": "ORT_NO_SUCHFILE",
    "kNoModel": "ORT_NO_MODEL",
    "kInvalidProtobuf": "ORT_INVALID_PROTOBUF",
    "kInvalidGraph": "ORT_INVALID_GRAPH",
    "kFatal": "ORT_LOGGING_LEVEL_FATAL",
}


def official_include() -> Path:
    """Folder of the official header."""
    given = os.environ.get("EDGEDEC_ORT_INCLUDE")
    for base in [given] if given else SYSTEM:
        for folder in (
            Path(base),
            *(Path(base) / name for name in ("onnxruntime", "onnxruntime/core/session")),
        ):
            if (folder / HEADER).is_file():
                return folder
    pytest.fail(
        f"this test needs {HEADER}: set EDGEDEC_ORT_INCLUDE to its folder. The archives of ONNX Runtime's"
        " releases have it in include/, Debian 13 and newer in the package libonnxruntime-dev",
        pytrace=False,
    )


def compiler() -> str:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return name
    pytest.fail("this test needs a C++ compiler (CXX names one)", pytrace=False)


def ours_in_a_namespace() -> str:
    """Our header with its types in a namespace, where they cannot meet the official ones of that name."""
    text = OURS.read_text(encoding="utf-8").replace("#pragma once", "")
    includes = re.findall(r"^#include .*$", text, re.MULTILINE)
    return "\n".join(
        [*includes, "namespace mine {", re.sub(r"^#include .*$", "", text, flags=re.MULTILINE), "}"]
    )


def functions() -> list[tuple[str, int]]:
    """(name, position) of every function in our table."""
    found = re.findall(r"^  X\((\w+), (\d+),", OURS.read_text(encoding="utf-8"), re.MULTILINE)
    return [(name, int(position)) for name, position in found]


def fields() -> list[str]:
    """Names of our OrtCustomOp's function pointers, in order."""
    body = re.search(r"struct OrtCustomOp \{(.*?)\n\};", OURS.read_text(encoding="utf-8"), re.DOTALL)
    assert body
    return re.findall(r"\(\*(\w+)\)\(", body[1])


# Types agree when both are pointers, or neither is and both have the same size: what the ABI sees of them.
SHAPES = """
template <class A, class B> constexpr bool same_shape() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) return std::is_void_v<A> && std::is_void_v<B>;
  else return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
}
template <class F> struct Call;
template <class R, class... P> struct Call<R (*)(P...)> {
  template <class S, class... Q> static constexpr bool like(S (*)(Q...)) {
    if constexpr (sizeof...(P) != sizeof...(Q)) return false;
    else return same_shape<R, S>() && (same_shape<P, Q>() && ...);
  }
};
template <class R, class... P> struct Call<R (*)(P...) noexcept> : Call<R (*)(P...)> {};
"""


def assertions(table: list[tuple[str, int]]) -> list[str]:
    """One static_assert per fact."""
    checks = ["mine::edgedec::ort::kApiVersion <= ORT_API_VERSION"]
    for name, position in table:
        call = f"Call<decltype(::OrtApi::{name})>"
        checks.append(f"offsetof(::OrtApi, {name}) == {position} * sizeof(void*)")
        checks.append(f"{call}::like(mine::edgedec::ort::Api::{name}_fn(nullptr))")
    for name in fields():
        call = f"Call<decltype(::OrtCustomOp::{name})>"
        checks.append(f"offsetof(::OrtCustomOp, {name}) == offsetof(mine::OrtCustomOp, {name})")
        checks.append(f"{call}::like(decltype(mine::OrtCustomOp::{name})(nullptr))")
    for name in ("GetApi", "GetVersionString"):
        checks.append(f"offsetof(::OrtApiBase, {name}) == offsetof(mine::OrtApiBase, {name})")
    for mine, official in CONSTANTS.items():
        checks.append(f"int(mine::edgedec::ort::{mine}) == int({official})")
    return checks


def compile_checks(folder: Path, checks: list[str]) -> subprocess.CompletedProcess[str]:
    official = f"#include <cstddef>\n#include <type_traits>\n#include <{HEADER}>"
    lines = [official, ours_in_a_namespace(), SHAPES, *(f"static_assert({check});" for check in checks)]
    source = folder / "checks.cc"
    source.write_text("\n".join(lines), encoding="utf-8")
    command = [compiler(), "-std=c++17", "-fsyntax-only", f"-I{official_include()}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_our_slice_of_the_api_is_that_of_the_official_header(tmp_path: Path) -> None:
    checks = assertions(functions())
    assert len(functions()) >= 15
    assert len(fields()) >= 20
    result = compile_checks(tmp_path, checks)
    assert result.returncode == 0, result.stderr


def test_a_wrong_position_or_signature_is_noticed(tmp_path: Path) -> None:
    name, position = functions()[1]
    wrong_place = compile_checks(tmp_path, assertions([(name, position + 1)]))
    assert f"offsetof(::OrtApi, {name})" in wrong_place.stderr
    swapped = f"Call<decltype(::OrtApi::{name})>::like(mine::edgedec::ort::Api::ReleaseStatus_fn(nullptr))"
    assert compile_checks(tmp_path, [swapped]).returncode != 0
