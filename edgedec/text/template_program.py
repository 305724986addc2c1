"""From a chat template to the program that the kernel library renders: ``chat_template.program``.

Jinja's own parser reads the template, so the library has no parser. The program is the tree of its nodes;
``kernels/engine/text/template_program.h`` has its layout. A construct that the engine does not know becomes a
node that refuses: a prompt is never another than Jinja's. It fails only where a conversation reaches it.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from jinja2 import nodes

from edgedec.disk.files import atomic_path
from edgedec.text.program_renderer import PROGRAM

FILE_NAME = PROGRAM
MAGIC = b"EDGETPL3"
_HASH_BYTES = 32
NONE = 0xFFFFFFFF
_HEADER = struct.Struct("<8s32sIIII")


class Op(IntEnum):
    """Kinds of nodes."""

    REFUSE = 0
    NOTHING = 1
    BOOL = 2
    INT = 3
    TEXT = 4
    NAME = 5
    ATTRIBUTE = 6
    ITEM = 7
    SLICE = 8
    LIST = 9
    JOIN = 10
    ADD = 11
    SUBTRACT = 12
    MULTIPLY = 13
    MODULO = 14
    NEGATE = 15
    NOT = 16
    AND = 17
    OR = 18
    COMPARE = 19
    CHOOSE = 20
    FILTER = 21
    TEST = 22
    METHOD = 23
    CALL = 24
    OUTPUT = 25
    IF = 26
    FOR = 27
    SET = 28
    SET_ATTRIBUTE = 29
    SET_BLOCK = 30
    BREAK = 31
    CONTINUE = 32
    BLOCK = 33
    NAMESPACE = 34
    OPAQUE = 35
    SET_PAIR = 36
    SELECT = 37
    DICT = 38
    MACRO = 39
    PARAMETER = 40
    KEYWORD = 41
    CALL_MACRO = 42
    REAL = 43


COMPARISONS = ("eq", "ne", "lt", "lteq", "gt", "gteq", "in", "notin")
FILTERS: tuple[str, ...] = (
    *("trim", "length", "upper", "lower", "capitalize", "title", "string"),
    *("default", "first", "last", "join", "list", "replace", "tojson"),
    *("items", "dictsort", "safe"),
)
TESTS: tuple[str, ...] = (
    *("defined", "undefined", "none", "string", "mapping", "iterable", "sequence"),
    *("number", "integer", "boolean", "true", "false", "equalto", "ne"),
    *("odd", "even", "divisibleby", "in"),
)
METHODS: tuple[str, ...] = (
    *("strip", "lstrip", "rstrip", "startswith", "endswith", "split", "replace"),
    *("upper", "lower", "capitalize", "title", "join", "get", "rsplit"),
    *("find", "count", "items", "keys", "values"),
)
FUNCTIONS = ("raise_exception", "range", "strftime_now")
_JSON = ("indent", "ensure_ascii", "sort_keys", "separators")
"""Arguments of the filter ``tojson``, in their order; one that is left out is None."""
_OF_CALLS = {"caller", "varargs", "kwargs"}
"""Names with a meaning of their own within a macro."""
_SAME = {"count": "length", "d": "default", "==": "equalto", "eq": "equalto", "!=": "ne"}


def program_of(source: str) -> bytes:
    """Return the program of a template. Raises TemplateError, naming the line, if it is not valid Jinja."""
    from edgedec.text.sandbox import parsed

    tree = parsed(source)
    writer = _Writer(tree)
    writer.block(tree.body)
    header = (len(writer.nodes) // 6, len(writer.lists), len(writer.texts), len(writer.names))
    words = struct.pack(f"<{len(writer.nodes) + len(writer.lists)}I", *writer.nodes, *writer.lists)
    return sealed(_HEADER.pack(MAGIC, bytes(_HASH_BYTES), *header) + words + bytes(writer.texts), source)


def sealed(program: bytes, source: str) -> bytes:
    """Return ``program`` with the hash of the template ``source`` and of all that follows the hash."""
    at = len(MAGIC) + _HASH_BYTES
    return MAGIC + hashlib.sha256(source.encode() + program[at:]).digest() + program[at:]


def write_program(bundle: Path, source: str) -> None:
    """Write the program of a bundle's template into the folder ``bundle``.

    The native engine renders by it: export calls this for the folder of a device, and ``edgedec.native`` for
    a bundle that has none, or one of another template. Raises TemplateError for a template that is not
    valid Jinja, StorageError.
    """
    content = program_of(source)
    with atomic_path(bundle / FILE_NAME) as temporary:
        temporary.write_bytes(content)


def keep_program(bundle: Path, source: str) -> None:
    """Write the program of a bundle's template unless it is there. Raises as ``write_program`` does."""
    try:
        content = (bundle / FILE_NAME).read_bytes()
    except OSError:
        content = b""
    if content != sealed(content, source):
        write_program(bundle, source)


class _Writer:
    """Writes nodes after their children. Each method returns the number of its node."""

    def __init__(self, tree: nodes.Template) -> None:
        self.nodes: list[int] = []
        self.lists: list[int] = []
        self.texts = bytearray()
        self.names: dict[str, int] = {}
        self._line = 0
        self._macros = {one.name for one in tree.find_all(nodes.Macro)}
        self._inside = 0
        """Scopes around a statement; a macro within one would see its variables."""

    def block(self, body: Sequence[nodes.Node]) -> int:
        return self._node(Op.BLOCK, *self._list([self.statement(one) for one in body]))

    def statement(self, node: nodes.Node) -> int:
        self._line = node.lineno
        match node:
            case nodes.Output():
                return self._node(Op.OUTPUT, *self._list([self.expression(one) for one in node.nodes]))
            case nodes.If():
                return self._if(node)
            case nodes.For(recursive=False):
                return self._for(node)
            case nodes.Assign(target=nodes.Name(name=name)):
                return self._node(Op.SET, self._name(name), self.expression(node.node))
            case nodes.Assign(target=nodes.Tuple(items=[nodes.Name(name=one), nodes.Name(name=two)])):
                return self._node(Op.SET_PAIR, self._name(one), self._name(two), self.expression(node.node))
            case nodes.Assign(target=nodes.NSRef(name=name, attr=attribute)):
                value = self.expression(node.node)
                return self._node(Op.SET_ATTRIBUTE, self._name(name), value, *self._text(attribute))
            case nodes.AssignBlock(target=nodes.Name(name=name), filter=None):
                return self._node(Op.SET_BLOCK, self._name(name), self._scope(node.body))
            case nodes.Break():
                return self._node(Op.BREAK)
            case nodes.Continue():
                return self._node(Op.CONTINUE)
            case nodes.Macro():
                return self._node(Op.SET, self._name(node.name), self._macro(node))
            case _:
                return self._refused(f"the statement {type(node).__name__}")

    def expression(self, node: Any) -> int:
        self._line = getattr(node, "lineno", self._line)
        match node:
            case nodes.TemplateData():
                return self._node(Op.TEXT, *self._text(node.data))
            case nodes.Const():
                return self._constant(node.value)
            case nodes.Name():
                return self._node(Op.NAME, self._name(node.name), *self._text(node.name))
            case nodes.Getattr():
                return self._node(Op.ATTRIBUTE, self.expression(node.node), *self._text(node.attr))
            case nodes.Getitem(arg=nodes.Slice(start=start, stop=stop, step=step)):
                value = self.expression(node.node)
                return self._node(Op.SLICE, value, *map(self._maybe, (start, stop, step)))
            case nodes.Getitem():
                value = self.expression(node.node)
                return self._node(Op.ITEM, value, self.expression(node.arg))
            case nodes.List() | nodes.Tuple():
                items = self._list([self.expression(one) for one in node.items])
                return self._node(Op.LIST, *items, int(isinstance(node, nodes.Tuple)))
            case nodes.Dict():
                pairs = [self.expression(one) for item in node.items for one in (item.key, item.value)]
                return self._node(Op.DICT, *self._list(pairs))
            case nodes.Concat():
                return self._node(Op.JOIN, *self._list([self.expression(one) for one in node.nodes]))
            case nodes.Compare():
                return self._compare(node)
            case nodes.CondExpr():
                parts = (self.expression(node.test), self.expression(node.expr1), self._maybe(node.expr2))
                return self._node(Op.CHOOSE, *parts)
            case nodes.Filter():
                return self._filter(node)
            case nodes.Test():
                return self._applied(Op.TEST, TESTS, node, "test")
            case nodes.Call():
                return self._call(node)
            case _:
                return self._operation(node)

    def _operation(self, node: Any) -> int:
        two = {nodes.Add: Op.ADD, nodes.Sub: Op.SUBTRACT, nodes.Mul: Op.MULTIPLY, nodes.Mod: Op.MODULO}
        two |= {nodes.And: Op.AND, nodes.Or: Op.OR}
        one = {nodes.Neg: Op.NEGATE, nodes.Not: Op.NOT}
        if type(node) in two:
            return self._node(two[type(node)], self.expression(node.left), self.expression(node.right))
        if type(node) in one:
            return self._node(one[type(node)], self.expression(node.node))
        return self._refused(f"the expression {type(node).__name__}")

    def _constant(self, value: Any) -> int:
        if value is None:
            return self._node(Op.NOTHING)
        if isinstance(value, bool):
            return self._node(Op.BOOL, int(value))
        if isinstance(value, int) and 0 <= value < 1 << 62:
            return self._node(Op.INT, value & NONE, value >> 32)
        if isinstance(value, str):
            return self._node(Op.TEXT, *self._text(value))
        if isinstance(value, float) and math.isfinite(value):
            return self._node(Op.REAL, *self._text(repr(value)))
        return self._refused(f"the constant {value!r:.40}")

    def _compare(self, node: nodes.Compare) -> int:
        if len(node.ops) != 1 or node.ops[0].op not in COMPARISONS:
            return self._refused("a chain of comparisons")
        first, second = self.expression(node.expr), self.expression(node.ops[0].expr)
        return self._node(Op.COMPARE, first, second, COMPARISONS.index(node.ops[0].op))

    def _filter(self, node: nodes.Filter) -> int:
        plain = node.node is not None and not node.dyn_args and not node.dyn_kwargs
        given: dict[Any, Any] = {one.key: one.value for one in node.kwargs}
        match node.name, node.args:
            case "tojson", args if plain and given and not args and given.keys() <= set(_JSON):
                arguments = [self._maybe_nothing(given.get(name)) for name in _JSON]
                value = self.expression(node.node)
                return self._node(Op.FILTER, value, FILTERS.index("tojson"), *self._list(arguments))
            case ("select" | "reject") as name, [*test] if plain and not given:
                return self._select(node, name == "select", "", test)
            case ("selectattr" | "rejectattr") as name, [nodes.Const(value=str(key)), *test] if (
                plain and not given and key.isidentifier()
            ):
                return self._select(node, name == "selectattr", key, test)
        return self._applied(Op.FILTER, FILTERS, node, "filter")

    def _select(self, node: nodes.Filter, wanted: bool, key: str, test: list[Any]) -> int:
        """Write the items of a list for which a test of them, or of an attribute, holds or does not."""
        values = self._node(Op.OR, self.expression(node.node), self._node(Op.LIST, *self._list([])))
        hidden = f" of {node.name}"
        one = self._node(Op.NAME, self._name(hidden), *self._text(hidden))
        if key:
            one = self._node(Op.ITEM, one, self._node(Op.TEXT, *self._text(key)))
        if test:
            name = _SAME.get(test[0].value, test[0].value) if isinstance(test[0], nodes.Const) else None
            if name not in TESTS:
                return self._refused(f"the filter {node.name} with such a test")
            arguments = self._list([self.expression(given) for given in test[1:]])
            one = self._node(Op.TEST, one, TESTS.index(name), *arguments)
        if not wanted:
            one = self._node(Op.NOT, one)
        return self._node(Op.SELECT, self._name(hidden), values, one)

    def _applied(self, op: Op, known: tuple[str, ...], node: Any, kind: str) -> int:
        name = _SAME.get(node.name, node.name)
        if name not in known or node.node is None or node.dyn_args or node.dyn_kwargs or node.kwargs:
            return self._refused(f"the {kind} {node.name}")
        value = self.expression(node.node)
        arguments = self._list([self.expression(one) for one in node.args])
        return self._node(op, value, known.index(name), *arguments)

    def _call(self, node: nodes.Call) -> int:
        called, plain = node.node, not node.dyn_args and not node.dyn_kwargs and not node.kwargs
        match called:
            case nodes.Getattr() if plain and called.attr in METHODS:
                value = self.expression(called.node)
                arguments = self._list([self.expression(one) for one in node.args])
                return self._node(Op.METHOD, value, METHODS.index(called.attr), *arguments)
            case nodes.Name() if plain and called.name in FUNCTIONS:
                arguments = self._list([self.expression(one) for one in node.args])
                return self._node(Op.CALL, FUNCTIONS.index(called.name), self._name(called.name), *arguments)
            case nodes.Name() if called.name in self._macros and not node.dyn_args and not node.dyn_kwargs:
                given = [self.expression(one) for one in node.args]
                for one in node.kwargs:
                    given.append(self._node(Op.KEYWORD, *self._text(one.key), self.expression(one.value)))
                return self._node(Op.CALL_MACRO, self._name(called.name), *self._list(given))
            case nodes.Name(name="namespace") if not node.args and not node.dyn_args and not node.dyn_kwargs:
                pairs: list[int] = []
                for one in node.kwargs:
                    pairs += (self._node(Op.TEXT, *self._text(one.key)), self.expression(one.value))
                return self._node(Op.NAMESPACE, self._name("namespace"), *self._list(pairs))
            case nodes.Getattr():
                return self._refused(f"the method {called.attr}")
            case nodes.Name():
                return self._refused(f"the function {called.name}")
            case _:
                return self._refused("a call")

    def _if(self, node: nodes.If) -> int:
        rest = self.block(node.else_)
        for one in reversed(node.elif_):
            body = self.block(one.body)
            self._line = one.lineno
            rest = self._node(Op.IF, self.expression(one.test), body, rest)
        body = self.block(node.body)
        self._line = node.lineno
        return self._node(Op.IF, self.expression(node.test), body, rest)

    def _for(self, node: nodes.For) -> int:
        target = node.target
        match target:
            case nodes.Name():
                name, pair = target.name, None
            case nodes.Tuple(items=[nodes.Name(name=one), nodes.Name(name=two)]):
                name, pair = f" {one}, {two}", (one, two)
            case _:
                return self._refused("a loop over several names")
        values = self.expression(node.iter)
        if node.test is not None:
            test = self.expression(node.test)
            if pair:
                test = self._node(Op.AND, self._split(name, pair), test)
            values = self._node(Op.SELECT, self._name(name), values, test)
        body, rest = self._scope(node.body, name, pair), self.block(node.else_)
        return self._node(Op.FOR, self._name(name), values, body, rest)

    def _scope(
        self, body: Sequence[nodes.Node], name: str = "", pair: tuple[str, str] | None = None
    ) -> int:
        """Write a block with a scope of its own, which begins with ``name`` taken apart into a ``pair``."""
        self._inside += 1
        block = self.block(body)
        self._inside -= 1
        if pair is None:
            return block
        return self._node(Op.BLOCK, *self._list([self._split(name, pair), block]))

    def _split(self, name: str, pair: tuple[str, str]) -> int:
        whole = self._node(Op.NAME, self._name(name), *self._text(name))
        return self._node(Op.SET_PAIR, self._name(pair[0]), self._name(pair[1]), whole)

    def _macro(self, node: nodes.Macro) -> int:
        names = {one.name for one in node.find_all(nodes.Name)}
        if self._inside or names & _OF_CALLS:  # a call of it is refused
            return self._node(Op.OPAQUE)
        defaults = [None] * (len(node.args) - len(node.defaults)) + list(node.defaults)
        parameters = []
        for one, default in zip(node.args, defaults, strict=True):
            value = self._maybe(default)
            parameters.append(self._node(Op.PARAMETER, self._name(one.name), *self._text(one.name), value))
        body = self._scope(node.body)
        return self._node(Op.MACRO, *self._list(parameters), body)

    def _maybe(self, node: Any) -> int:
        return NONE if node is None else self.expression(node)

    def _maybe_nothing(self, node: Any) -> int:
        return self._node(Op.NOTHING) if node is None else self.expression(node)

    def _refused(self, construct: str) -> int:
        return self._node(Op.REFUSE, *self._text(construct))

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _text(self, text: str) -> tuple[int, int]:
        content = text.encode()
        at = self.texts.find(content)
        if at < 0:
            at = len(self.texts)
            self.texts += content
        return at, len(content)

    def _list(self, items: list[int]) -> tuple[int, int]:
        self.lists += items
        return len(self.lists) - len(items), len(items)

    def _node(self, op: Op, *operands: int) -> int:
        self.nodes += [op, self._line, *operands, *[0] * (4 - len(operands))]
        return len(self.nodes) // 6 - 1
