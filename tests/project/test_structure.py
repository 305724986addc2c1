"""The rules of the code's structure: few parameters, capabilities as data, one name for one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click

from edgedec.cli.app import app
from tests.project.sources import docstrings, libraries, modules, relative, tree

MOST_PARAMETERS = 6
SYSTEM_PROBES = {
    "edgedec/backends/onnx/kv_memory.py",
    "edgedec/backends/onnx/kv_pages.py",
    "edgedec/backends/llama_cpp/binding.py",
    "edgedec/bench/peers/onnxruntime_genai_peer.py",
    "edgedec/bench/harness/serve.py",
    "export/interrupt.py",
}
"""Files that may ask with ``hasattr`` for a function of the operating system or of another library."""
IMPORTS_BY_NAME = "edgedec/backends/open.py"
"""Casts a class that it imports by name, which has no type."""
SIDES = re.compile(r"edgedec/bench/peers/\w+_peer\.py")
"""Programs for one runtime each, which all declare a class Peer."""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    taken = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return len([one for one in taken if one.arg not in ("self", "cls")])


def calls(file: Path, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def protocols() -> set[str]:
    """Names of the classes that state what another object can do."""
    return {
        node.name
        for file in modules()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    }


def names(node: ast.AST) -> set[str]:
    """Names in an expression; quoted types count too."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    quoted = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return found | {word for text in quoted if isinstance(text, str) for word in re.findall(r"\w+", text)}


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
        for node in ast.walk(tree(file)):
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


def options(command: click.Command, context: click.Context) -> set[str]:
    """Long options of a command and its subcommands."""
    found = {name for one in command.params for name in one.opts if name.startswith("--")}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                found |= options(below, context)
    return found


def test_libraries_name_no_command_line_options() -> None:
    """A string that is nothing but an option is an argument for another process, not a message."""
    own = options(app, click.Context(app)) - {"--version", "--help"}
    named = [
        f"{relative(file)}:{node.lineno}: {node.value.strip()[:60]}"
        for file in libraries()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value not in own and own & set(OPTION.findall(node.value))
    ]
    assert named == []


def test_docstrings_are_found() -> None:
    """The other tests of docstrings would pass on none."""
    assert len([text for file in modules() for text in docstrings(file)]) > 1500
