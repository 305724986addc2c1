"""The rules of the code's structure: few parameters, capabilities as data, one name for one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.project.sources import libraries, modules, nodes, relative, tree

MOST_PARAMETERS = 6
MOST_FILES_OF_CORE = 20
MOST_PROTOCOLS = 25
SYSTEM_PROBES = {
    "edgedec/backends/llama_cpp/binding.py",
    "edgedec/bench/peers/onnxruntime_genai_peer.py",
    "edgedec/bench/harness/serve.py",
}
"""Files that may ask with ``hasattr`` for a function of the operating system or of another library."""
IMPORTS_BY_NAME = "edgedec/backends/open.py"
"""Casts a class that it imports by name, which has no type."""
SIDES = re.compile(r"edgedec/bench/peers/\w+_peer\.py")
"""Programs for one runtime each, which all declare a class Peer."""


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    taken = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return len([one for one in taken if one.arg not in ("self", "cls")])


def calls(file: Path, name: str) -> Iterator[ast.Call]:
    for node in nodes(file):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def protocols() -> set[str]:
    """Names of the classes that state what another object can do."""
    return {
        node.name
        for file in modules()
        for node in nodes(file)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    }


def names(node: ast.AST) -> set[str]:
    """Names in an expression; quoted types count too."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    quoted = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return found | {word for text in quoted if isinstance(text, str) for word in re.findall(r"\w+", text)}


def test_protocols_state_only_what_several_classes_can_do() -> None:
    """One method is a ``Callable``; of one class the class itself is the type."""
    assert len(protocols()) <= MOST_PROTOCOLS, sorted(protocols())


def test_core_keeps_plain_data_that_several_layers_share() -> None:
    """A file that serves one room belongs to that room."""
    core = [file for file in modules() if relative(file).startswith("edgedec/core/")]
    assert len(core) <= MOST_FILES_OF_CORE


def test_no_function_of_a_library_takes_more_than_six_parameters() -> None:
    found = {
        f"{relative(file)}:{function.name}": parameters(function)
        for file in libraries()
        for function in functions(file)
        if parameters(function) > MOST_PARAMETERS
    }
    assert found == {}


def test_capabilities_are_read_as_data_and_never_probed_by_type() -> None:
    known = protocols()
    probes = [
        f"{relative(file)}:{call.lineno}"
        for file in modules()
        for name, argument in (("isinstance", 1), ("cast", 0))
        for call in calls(file, name)
        if names(call.args[argument]) & known and relative(file) != IMPORTS_BY_NAME
    ]
    assert probes == []


def test_attributes_are_probed_for_the_system_and_other_libraries_alone() -> None:
    probes = {relative(file) for file in modules() for _ in calls(file, "hasattr")}
    assert probes - SYSTEM_PROBES == set()


def test_a_class_name_stands_for_one_class() -> None:
    declared = defaultdict(list)
    for file in modules():
        for node in nodes(file):
            if isinstance(node, ast.ClassDef) and not SIDES.fullmatch(relative(file)) and node.name[0] != "_":
                declared[node.name].append(relative(file))
    assert {name: files for name, files in declared.items() if len(files) > 1} == {}


def test_a_callable_type_is_declared_once() -> None:
    declared = defaultdict(list)
    for file in modules():
        for node in tree(file).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Callable["):
                declared[ast.unparse(node.targets[0])].append(relative(file))
    public = {name: files for name, files in declared.items() if not name.startswith("_")}
    assert {name: files for name, files in public.items() if len(files) > 1} == {}
