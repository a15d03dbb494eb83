"""Every option of a command arrives in the struct that the command reads, as the type it says."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from msgspec.structs import FieldInfo, fields

import etcompile.cli
from cli.test_help import COMMANDS, command
from etcompile.cli.command_line import Declaration, filled

DECLARATIONS = ("option", "setting")
RUN = [names for names in COMMANDS if not isinstance(command(*names), click.Group)]
VALUES = {
    "namespace": "ml",
    "kubernetes_version": "1.33",
    "secret": "external",
    "profiles": "flux",
    "dlrover_version": "0.5.0",
    "ignore": "ET2040",
    "timeout": "7m",
    "drain": "5s",
    "lease": "20",
}
"""Of options that take no word whatsoever: a value that is not the default."""


def arguments(command: click.Command) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(command.callback).parameters)


def struct_of(command: click.Command) -> type[msgspec.Struct] | None:
    options = arguments(command).get("options")
    return options.annotation if options else None


STRUCTS = [names for names in RUN if struct_of(command(*names))]


def flat(struct: type[msgspec.Struct]) -> Iterator[FieldInfo]:
    """The fields that are declared as parameters, those of the structs in them too."""
    for field in fields(struct):
        if isinstance(field.default, Declaration):
            yield field
        elif field.required:
            yield from flat(field.type)


def as_it_is(kind: type, value: Any) -> Any:
    assert isinstance(value, kind)
    return value


def values(struct: msgspec.Struct) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in fields(type(struct)):
        value = getattr(struct, field.name)
        result |= values(value) if field.required else {field.name: value}
    return result


def parsed_options(command: click.Command, words: list[str]) -> msgspec.Struct:
    """What the command reads of a command line; it is not run."""
    struct = struct_of(command)
    assert struct is not None
    with command.make_context("etcompile", words) as ctx:
        return filled(struct, ctx.params)


def needed(command: click.Command, folder: Path) -> list[str]:
    """The arguments of a command, and the options that it does not run without."""
    words = []
    for one in command.params:
        if isinstance(one, click.Argument):
            is_choice = isinstance(one.type, click.Choice)
            words.append(one.type.choices[0] if is_choice else str(folder))
        elif one.required:
            words += [one.opts[-1], "needed"]
    return words


@pytest.mark.parametrize("names", RUN, ids="-".join)
def test_no_command_takes_options_that_it_does_not_name(names: tuple[str, ...]):
    kinds = {one.kind for one in arguments(command(*names)).values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("names", RUN, ids="-".join)
def test_every_option_of_a_command_is_a_field_of_its_struct(names: tuple[str, ...]):
    chosen = command(*names)
    struct = struct_of(chosen)
    assert {one.name for one in chosen.params} == (
        {field.name for field in flat(struct)} if struct else set()
    )


@pytest.mark.parametrize("names", STRUCTS, ids="-".join)
def test_each_option_arrives_as_the_type_of_its_field(
    names: tuple[str, ...], tmp_path, monkeypatch
):
    chosen, file = command(*names), tmp_path / "file"
    file.touch()
    monkeypatch.chdir(tmp_path)
    bare = parsed_options(chosen, needed(chosen, tmp_path))
    words: list[str] = []
    for one in chosen.params:
        if not isinstance(one, click.Option) or one.hidden:
            continue
        if one.name == "dry_run":  # its value is optional, and stands behind =
            words.append("--dry-run=client")
            continue
        words.append(one.opts[-1])
        if one.is_flag:
            continue
        if isinstance(one.type, click.Choice) and one.name not in VALUES:
            words.append(next(choice for choice in one.type.choices if choice != one.default))
        elif isinstance(one.type, click.Path):
            words.append(str(file if one.type.dir_okay is False else tmp_path))
        elif isinstance(one.type, click.IntRange):
            words.append("3")
        else:
            words.append(VALUES.get(one.name, "word"))
    without = [word for word in words if word != "--isolated"]  # which excludes --config
    whole = parsed_options(chosen, [*needed(chosen, tmp_path), *without])
    types = {field.name: field.type for field in flat(type(bare))}
    for struct in (bare, whole):
        for name, value in values(struct).items():
            if name in types:
                msgspec.convert(value, types[name], dec_hook=as_it_is)
    before, after = values(bare), values(whole)
    if "--isolated" in words:
        isolated = parsed_options(chosen, ["--isolated", *needed(chosen, tmp_path)])
        after |= {"isolated": values(isolated)["isolated"]}
    same = [field.name for field in flat(type(bare)) if before[field.name] == after[field.name]]
    hidden = [one.name for one in chosen.params if getattr(one, "hidden", False)]
    unchanged = [one.name for one in chosen.params if isinstance(one, click.Argument)]
    assert sorted({*same} - {*hidden}) == sorted(unchanged)


def test_an_option_that_commands_share_is_declared_once() -> None:
    declared: dict[tuple[str, ...], str] = {}
    twice = []
    for path in sorted(Path(etcompile.cli.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.value if isinstance(node, ast.AnnAssign) else None
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) in DECLARATIONS):
                continue
            words = [ast.unparse(node.target), ast.unparse(call)]
            place = f"{path.name}:{node.lineno}"
            if (first := declared.setdefault(tuple(words), place)) != place:
                twice.append(f"{place} is {first} again")
    assert len(declared) > 80
    assert twice == []
