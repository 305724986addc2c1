"""A number that tunes what decides a token or a draft is written once, and so is a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.project.sources import modules, nodes, relative, sources, tree

ROOMS = ("control", "decode", "draft", "drafters", "eviction", "memory", "sampling", "verify")
"""Folders of edgedec that decide, or hold what decides."""
MOST_DOUBLED = 3
MOST_TWINS = 11
"""Drafters with models, the loop and the cache book are still in both languages. Neither number may grow."""
ALIKE = {"root", "mask", "none", "hashbytes"}
"""Names of values that are no tuning: the parent of a root, all bits, nothing, the size of a SHA-256."""
_CPP = re.compile(r"\bconstexpr\s+[\w:<> ]+?\bk([A-Z]\w*)\s*=\s*([^;,]+)[;,]")


def numbers(file: Path) -> Iterator[tuple[str, float]]:
    """Names and values of a Python file's constants that are numbers."""
    for node in tree(file).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _pairs(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value:
            yield from _pairs(node.target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, float]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, its)
    elif isinstance(target, ast.Name) and (name := target.id.strip("_")).isupper():
        found = value_of(ast.unparse(value))
        if found is not None:
            yield name.replace("_", "").lower(), found


def value_of(text: str) -> float | None:
    """The value of an expression of numbers, as Python or C++ writes it."""
    bare = re.sub(r"(?<=\d)'(?=\d)|\b(?:u?int\d+_t|size_t|double)\b|(?<=\d)[uUlLfF]+\b", "", text)
    if not re.fullmatch(r"[-+*/<()0-9a-fA-FxeE. {}]+", bare):
        return None
    try:
        return float(eval(bare.replace("{", "(").replace("}", ")"), {"__builtins__": {}}))
    except (SyntaxError, TypeError, NameError, ValueError, ArithmeticError):
        return None


@cache
def in_cpp() -> dict[str, set[tuple[float, str]]]:
    found: dict[str, set[tuple[float, str]]] = {}
    for file in sources():
        if file.suffix in (".h", ".cc") and relative(file).startswith(("kernels/core/", "kernels/engine/")):
            for name, text in _CPP.findall(file.read_text(encoding="utf-8")):
                if (value := value_of(text)) is not None:
                    found.setdefault(name.lower(), set()).add((value, relative(file)))
    return found


def deciding() -> Iterator[Path]:
    for file in modules():
        if relative(file).split("/")[:1] == ["edgedec"] and relative(file).split("/")[1] in ROOMS:
            yield file


def asks_the_core(file: Path) -> bool:
    """Whether a file is a face of the core, which has the code."""
    imports = [node for node in nodes(file) if isinstance(node, ast.ImportFrom)]
    return any((node.module or "").startswith("edgedec.core_lib") for node in imports)


def doubled() -> list[str]:
    return sorted(
        f"{name} = {value:g} in {relative(file)} and {other}"
        for file in deciding()
        for name, value in numbers(file)
        if name not in ALIKE
        for its, other in in_cpp().get(name, ())
        if its == value
    )


def test_the_search_finds_numbers_as_both_languages_write_them() -> None:
    assert value_of("1 << 20") == value_of("1'048'576") == value_of("int64_t{1} << 20") == 2**20
    assert [value_of(text) for text in ("0x10", "-1e-3", "two")] == [16, -0.001, None]
    assert len(in_cpp()) > 50


def test_few_numbers_are_written_in_python_and_in_cpp() -> None:
    assert len(doubled()) <= MOST_DOUBLED, "\n".join(doubled())


def test_no_file_that_decides_stands_in_python_and_in_cpp() -> None:
    cpp = {
        file.stem: relative(file)
        for file in sources()
        if file.suffix in (".h", ".cc") and re.match(r"kernels/core/(?!api/)", relative(file))
    }
    twins = sorted(
        f"{relative(file)} and {cpp[file.stem]}"
        for file in deciding()
        if file.stem in cpp and not asks_the_core(file)
    )
    assert len(twins) <= MOST_TWINS, "\n".join(twins)
