"""Every option of a command arrives in the struct that the command reads, as the type it says."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from msgspec.structs import fields

import etcompile.cli
from cli.test_help import COMMANDS, command
from etcompile.cli.structs import taken

RUN = [names for names in COMMANDS if not isinstance(command(*names), click.Group)]
VALUES = {
    "namespace": "ml",
    "kubernetes_version": "1.33",
    "secret": "external",
    "dlrover_version": "0.5.0",
    "ignore": "ET2040",
    "select": "ET9034",
    "timeout": "7m",
    "drain": "5s",
    "lease": "20",
}
"""Of options that take no word whatsoever: a value that is not the default."""


def arguments(found: click.Command) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(found.callback).parameters)


def struct_of(found: click.Command) -> type[msgspec.Struct] | None:
    given = arguments(found).get("given")
    return given.annotation if given else None


STRUCTS = [names for names in RUN if struct_of(command(*names))]


def flat(struct: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    """The fields and their types, those of the structs in them too, that no command may lack."""
    for field in fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from flat(field.type)
        elif field.required:
            yield field.name, field.type


def as_it_is(kind: type, value: Any) -> Any:
    assert isinstance(value, kind)
    return value


def values(given: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(given).items():
        found |= values(value) if isinstance(value, msgspec.Struct) else {name: value}
    return found


def given_by(found: click.Command, words: list[str]) -> msgspec.Struct:
    """What the command reads of a command line; it is not run."""
    struct = struct_of(found)
    assert struct is not None
    with found.make_context("etcompile", words) as ctx:
        return taken(struct, ctx.params)


def positional(found: click.Command, folder: Path) -> list[str]:
    return [str(folder) for one in found.params if isinstance(one, click.Argument)]


@pytest.mark.parametrize("names", RUN, ids="-".join)
def test_no_command_takes_options_that_it_does_not_name(names: tuple[str, ...]):
    kinds = {one.kind for one in arguments(command(*names)).values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("names", STRUCTS, ids="-".join)
def test_options_and_fields_are_the_same(names: tuple[str, ...]):
    found = command(*names)
    optional = {"strict"}  # of commands that do not compile
    assert sorted({one.name for one in found.params if one.expose_value} - optional) == sorted(
        dict(flat(struct_of(found)))
    )


@pytest.mark.parametrize("names", STRUCTS, ids="-".join)
def test_each_option_arrives_as_the_type_of_its_field(
    names: tuple[str, ...], tmp_path, monkeypatch
):
    found, file = command(*names), tmp_path / "file"
    file.touch()
    monkeypatch.chdir(tmp_path)
    bare = given_by(found, positional(found, tmp_path))
    words: list[str] = []
    for one in found.params:
        if not isinstance(one, click.Option) or not one.expose_value or one.hidden:
            continue
        if one.name == "dry_run":  # its value is optional, and stands behind =
            words.append("--dry-run=client")
            continue
        words.append(one.opts[-1])
        if one.is_flag:
            continue
        if isinstance(one.type, click.Choice):
            words.append(next(choice for choice in one.type.choices if choice != one.default))
        elif isinstance(one.type, click.Path):
            words.append(str(file if one.type.dir_okay is False else tmp_path))
        elif isinstance(one.type, click.IntRange):
            words.append("3")
        else:
            words.append(VALUES.get(one.name, "word"))
    without = [word for word in words if word != "--isolated"]  # which excludes --config
    whole = given_by(found, [*without, *positional(found, tmp_path)])
    types = dict(flat(type(bare)))
    for given in (bare, whole):
        for name, value in values(given).items():
            msgspec.convert(value, types.get(name, bool), dec_hook=as_it_is)
    before, after = values(bare), values(whole)
    if "--isolated" in words:
        isolated = given_by(found, ["--isolated", *positional(found, tmp_path)])
        after |= {"isolated": values(isolated)["isolated"]}
    exposed = [
        one for one in found.params if one.expose_value and not getattr(one, "hidden", False)
    ]
    same = [one.name for one in exposed if before[one.name] == after[one.name]]
    assert same == [one.name for one in found.params if isinstance(one, click.Argument)]


def test_an_option_that_commands_share_is_declared_once() -> None:
    found: dict[tuple[str, ...], str] = {}
    twice = []
    for path in sorted(Path(etcompile.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "click.option"):
                continue
            words = [ast.unparse(one) for one in node.args]
            words += [ast.unparse(one.value) for one in node.keywords if one.arg == "help"]
            place = f"{path.name}:{node.lineno}"
            if (first := found.setdefault(tuple(words), place)) != place:
                twice.append(f"{place} is {first} again")
    assert twice == []
