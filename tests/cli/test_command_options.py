"""Every option of a command arrives in the function that it calls, and is declared once."""

import ast
import inspect
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import etcompile.cli
from cli.test_help import COMMANDS, command
from etcompile.cli.reporting import Reporting
from etcompile.data import setting_schemas

RUN = [names for names in COMMANDS if not isinstance(command(*names), click.Group)]
OF_THE_DECORATORS = {"ctx", "configured", "reporting"}


def arguments(names: tuple[str, ...]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(inspect.unwrap(command(*names).callback)).parameters)


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not Reporting


@pytest.mark.parametrize("names", RUN, ids="-".join)
def test_every_option_arrives_as_an_argument(names: tuple[str, ...]) -> None:
    accepted = arguments(names)
    structs = {name: one.annotation for name, one in accepted.items() if is_struct(one.annotation)}
    fields = {field for struct in structs.values() for field in struct.__struct_fields__}
    packs = {*structs, *OF_THE_DECORATORS}
    named = {name for name, one in accepted.items() if one.kind is not one.VAR_KEYWORD} - packs
    options = {param.name for param in command(*names).params}
    assert named | fields <= options
    settings = {key.replace("-", "_") for key in setting_schemas()}
    rest = options - named - fields - {"environment", "config"} - settings
    assert not rest or any(one.kind is one.VAR_KEYWORD for one in accepted.values())


def test_an_option_that_commands_share_is_declared_once() -> None:
    declared: dict[str, str] = {}
    twice = []
    for path in sorted(Path(etcompile.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "click.option":
                place = f"{path.name}:{node.lineno}"
                if (first := declared.setdefault(ast.unparse(node), place)) != place:
                    twice.append(f"{place} is {first} again")
    assert len(declared) > 70
    assert twice == []
