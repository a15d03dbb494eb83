"""Writes `etcompile/backend/shipped.py`: the templates of this folder as plain Python.

Importing Jinja2 costs a fifth of the time in which a job renders, and the templates we ship
never change between two releases. So they are translated when etcompile is installed
(`build_hook.py`); a template of the user's own (the setting `templates`), one edited here since,
and all of them where nothing was installed, go through Jinja2 itself. A test compares both ways. To
translate them again after editing one:

    python templates/generate.py
"""

import hashlib
import os
import runpy
from collections.abc import Iterator
from pathlib import Path

from jinja2 import nodes

TEMPLATES = Path(__file__).parent
_BACKEND = TEMPLATES.parent / "etcompile" / "backend"
TARGET = _BACKEND / "shipped.py"
# By its path: a build has Jinja2, and not yet the package.
environment = runpy.run_path(str(_BACKEND / "jinja.py"))["environment"]

_HEAD = '''"""The files of `templates/` as Python. Made by templates/generate.py; do not edit."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Values = Mapping[str, Any]

'''
_OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in"}


class UntranslatableError(Exception):
    """A template uses a construct this script does not know."""


def generated() -> str:
    """Return the text of `shipped.py`.

    Raises:
        UntranslatableError: a template uses something that is not translated yet.
    """
    files = sorted(TEMPLATES.glob("*.j2"))
    parts = [_HEAD, "SOURCES = {\n"]
    parts += [f'    "{file.name}": "{_digest(file)}",\n' for file in files]
    parts.append("}\n")
    for file in files:
        parts.append(f"\n\ndef {_function(file.name)}(values: Values) -> Iterator[str]:\n")
        parts += _Writer().body(environment(TEMPLATES).parse(file.read_text("utf-8")).body, 1)
    parts.append("\n\nTEMPLATES: dict[str, Callable[[Values], Iterator[str]]] = {\n")
    parts += [f'    "{file.name}": {_function(file.name)},\n' for file in files]
    parts.append("}\n")
    return "".join(parts)


def write() -> None:
    """Write the file atomically: other processes may import it at this moment."""
    text = generated().encode()
    if TARGET.exists() and TARGET.read_bytes() == text:
        return
    part = TARGET.with_name(f".{TARGET.name}.{os.getpid()}")
    part.write_bytes(text)
    part.replace(TARGET)


class _Writer:
    """Translates one template.

    Args:
        names: Variables of the loops around.
    """

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        self._names = names

    def body(self, statements: list[nodes.Node], depth: int) -> Iterator[str]:
        """Yield the lines of statements, indented `depth` times."""
        for statement in statements:
            yield from self._statement(statement, depth)

    def _statement(self, statement: nodes.Node, depth: int) -> Iterator[str]:
        indent = "    " * depth
        if isinstance(statement, nodes.Output):
            for node in statement.nodes:
                yield from self._output(node, indent)
        elif isinstance(statement, nodes.If):
            yield f"{indent}if {self._value(statement.test)}:\n"
            yield from self.body(statement.body, depth + 1)
            for other in statement.elif_:
                yield f"{indent}elif {self._value(other.test)}:\n"
                yield from self.body(other.body, depth + 1)
            if statement.else_:
                yield f"{indent}else:\n"
                yield from self.body(statement.else_, depth + 1)
        elif isinstance(statement, nodes.For) and not (statement.else_ or statement.test):
            names = _targets(statement.target)
            loop = ", ".join(f"loop_{name}" for name in names)
            yield f"{indent}for {loop} in {self._value(statement.iter)}:\n"
            yield from _Writer(self._names | set(names)).body(statement.body, depth + 1)
        elif isinstance(statement, nodes.Include) and isinstance(statement.template, nodes.Const):
            yield f"{indent}yield from {_function(statement.template.value)}(values)\n"
        else:
            raise UntranslatableError(repr(statement))

    def _output(self, node: nodes.Node, indent: str) -> Iterator[str]:
        if not isinstance(node, nodes.TemplateData):
            yield f"{indent}yield str({self._value(node)})\n"
            return
        lines = node.data.splitlines(keepends=True)
        if len(lines) == 1:
            yield f"{indent}yield {_literal(lines[0])}\n"
            return
        yield f"{indent}yield (\n"
        yield from (f"{indent}    {_literal(line)}\n" for line in lines)
        yield f"{indent})\n"

    def _value(self, node: nodes.Node) -> str:
        if isinstance(node, nodes.Name):
            return f"loop_{node.name}" if node.name in self._names else f'values["{node.name}"]'
        if isinstance(node, nodes.Const):
            return _literal(node.value)
        if isinstance(node, nodes.Not):
            return f"not {self._value(node.node)}"
        if isinstance(node, nodes.And | nodes.Or):
            word = "and" if isinstance(node, nodes.And) else "or"
            return f"({self._value(node.left)} {word} {self._value(node.right)})"
        if isinstance(node, nodes.Compare):
            ends = (f"{_OPERATORS[o.op]} {self._value(o.expr)}" for o in node.ops)
            return " ".join((self._value(node.expr), *ends))
        if isinstance(node, nodes.CondExpr) and node.expr2 is not None:
            return (
                f"{self._value(node.expr1)} if {self._value(node.test)} "
                f"else {self._value(node.expr2)}"
            )
        raise UntranslatableError(repr(node))


def _targets(node: nodes.Node) -> list[str]:
    found = node.items if isinstance(node, nodes.Tuple) else [node]
    return [name.name for name in found if isinstance(name, nodes.Name)]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _function(name: str) -> str:
    return "_" + name.removesuffix(".j2").replace("-", "_").replace(".", "_")


def _literal(value: object) -> str:
    if not isinstance(value, str):
        return repr(value)
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{text}"'


if __name__ == "__main__":
    write()
