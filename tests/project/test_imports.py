"""Each file of tests/ can be imported where ``pip install -e '.[test]'`` was run, without any other extra."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tests.project.sources import ROOMS, relative, sources, tree

NAME = "edgedec-runtime"
OWN = ("edgedec", "tests", "docs")
MAPPED = set(ROOMS) - {"edgedec"}
AT_THE_MARGIN = re.compile(
    r"^(?:import|from(?= \S+ import)) ([\w.]+)(?: import (\([^)]*\)|.*)|(?: as \w+)?$)", re.M
)
"""Imports of an installed module, which are not nested: quicker than its syntax tree."""
BRING_MORE = {"safetensors.torch": "torch"}
"""Modules of a package that import another one, which the package does not require."""


@cache
def project() -> dict[str, list[str]]:
    """Requirements by extra; those of every install are ""."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)["project"]
    return {"": settings["dependencies"], **settings["optional-dependencies"]}


def distributions(name: str, extras: frozenset[str], seen: set[tuple[str, str]]) -> None:
    """Add what a distribution brings with these extras, as pip would resolve it here, to ``seen``."""
    for extra in {"", *extras}:
        if (name, extra) in seen:
            continue
        try:
            lines = project()[extra] if name == NAME else metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # `extra` is for another Python or system
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                normal = re.sub(r"[-_.]+", "-", requirement.name).lower()
                distributions(normal, frozenset(requirement.extras), seen)


@cache
def brought() -> frozenset[str]:
    """Names that can be imported after ``pip install -e '.[test]'``."""
    seen: set[tuple[str, str]] = set()
    distributions(NAME, frozenset({"test"}), seen)
    installed = {name for name, _ in seen}
    found = {
        package
        for package, names in metadata.packages_distributions().items()
        if {re.sub(r"[-_.]+", "-", one).lower() for one in names} & installed
    }
    return frozenset(found | sys.stdlib_module_names | set(OWN))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs as a module is imported, without the insides of functions and of checks for type checkers."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            continue
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody"):
                yield from statements(getattr(statement, field, []))


def skipping(value: ast.expr) -> Iterator[str]:
    """Modules without which this part of a statement would skip the file."""
    while isinstance(value, ast.Attribute):
        value = value.value
    if isinstance(value, ast.Tuple):
        for one in value.elts:
            yield from skipping(one)
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "pytest.importorskip":
        yield ast.literal_eval(value.args[0])


@cache
def imported(file: Path) -> tuple[str, ...]:
    """Modules that a file imports, in order; ``?name`` is one that skips the file where it is missing."""
    found: list[str] = []
    if "tests" not in file.parts:
        for module, names in AT_THE_MARGIN.findall(file.read_text(encoding="utf-8")):
            found += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))]
        return tuple(found)
    for statement in statements(tree(file).body):
        if isinstance(statement, ast.Import):
            found += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            found += [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
        elif isinstance(statement, ast.Expr | ast.Assign):
            found += [f"?{name}" for name in skipping(statement.value)]
    return tuple(found)


@cache
def source(module: str) -> Path | None:
    """The file of a module of the checkout."""
    if module.partition(".")[0] not in OWN:
        return None
    first, _, rest = module.removeprefix("edgedec.").partition(".")
    mapped = module.startswith("edgedec.") and first in MAPPED
    path = f"{first}.{rest}".strip(".") if mapped else module
    base = ROOT / path.replace(".", "/")
    return next((one for one in (base.with_suffix(".py"), base / "__init__.py") if one.is_file()), None)


Seen = set[tuple[Path, frozenset[str]]]


def lacking(file: Path, has: frozenset[str], asked: set[str], seen: Seen) -> Iterator[str]:
    """``file imports name``, for each import of a file and of files it imports that could fail.

    ``asked``: packages without which it would have been skipped by now.
    """
    if (file, frozenset(asked)) in seen:
        return
    seen.add((file, frozenset(asked)))
    for name in imported(file):
        top = name.lstrip("?").partition(".")[0]
        if name.startswith("?"):
            asked.add(top)  # all that comes after has it
        elif (own := source(name)) is not None:
            yield from lacking(own, has, asked, seen)
        elif (BRING_MORE.get(name) or top) not in has | asked:
            yield f"{file} imports {name}"


def test_nothing_is_imported_by_tests_that_the_extra_test_lacks() -> None:
    seen: Seen = set()
    files = [file for file in sources() if file.suffix == ".py" and relative(file).startswith("tests/")]
    assert [line for file in files for line in lacking(file, brought(), set(), seen)] == []


def test_the_extra_brings_pytest_and_its_parts_and_no_torch() -> None:
    assert {"numpy", "onnxruntime", "pytest", "xdist", "pluggy", "starlette", "json"} <= brought()
    assert not {"torch", "transformers", "llama_cpp"} & brought()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch", ["torch"]),
        ("from torch import nn", ["torch", "torch.nn"]),
        ("import numpy, torch.nn as nn", ["torch.nn"]),
        ("from safetensors.torch import load_file", ["safetensors.torch"]),
        ("class A:\n    import torch", ["torch"]),
        ("try:\n    import torch\nfinally:\n    pass", ["torch"]),
        ("from edgedec.training import small_model", ["torch"]),
        ("import torch\nimport pytest\npytest.importorskip('torch')", ["torch"]),
        ("import pytest\ntorch = pytest.importorskip('torch')\nfrom torch import nn", []),
        ("def f():\n    import torch", []),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", []),
        ("from safetensors.numpy import load_file\nimport edgedec.kernels.library", []),
    ],
)
def test_each_form_of_an_import_is_seen(tmp_path: Path, text: str, names: list[str]) -> None:
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests" / "test_it.py"
    file.write_text(text, encoding="utf-8")
    found = [line.rpartition(" imports ")[2] for line in lacking(file, brought(), set(), set())]
    assert found[: len(names)] == names
    assert bool(found) == bool(names)
