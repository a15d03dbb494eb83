"""Tables and lists of pages have a row for everything that the code has, and for nothing else."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click

import etcompile
from etcompile import exitcodes
from etcompile.backend.gang import scheduler_of
from etcompile.causes.causes import names as causes
from etcompile.cli.main import program
from etcompile.frontends.gang import ANNOTATIONS
from etcompile.integrations.argocd_plugin import PARAMETERS
from etcompile.model import GANGS
from metadata_keys import NO_KEYS, keys

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SCHEDULERS = [name for name in GANGS if name != "none"]


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def rows(text: str, pattern: str) -> list[Any]:
    """What the first cells of a table hold."""
    return re.findall(rf"^\| {pattern}", text, re.MULTILINE)


def test_every_command_has_a_row() -> None:
    named = set(rows(page("commands.md"), r"`([a-z-]+)"))
    assert named == set(program.list_commands(click.Context(program)))


def test_every_exit_code_has_a_row() -> None:
    codes = [int(code) for code in rows(page("commands.md"), r"(\d+) \|")]
    assert codes == sorted({0} | {code for name, code in vars(exitcodes).items() if name.isupper()})


def test_every_cause_of_a_failure_has_a_row() -> None:
    cells = rows(page("failures.md"), r"(`.*?) \|")
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == causes()


def test_every_annotation_is_on_its_page_or_that_of_its_kind() -> None:
    text = page("annotations.md") + "".join(one.read_text() for one in DOCS.glob("kinds/*.md"))
    assert {key for key in keys() - NO_KEYS.keys() if f"`{key}" not in text} == set()


def test_page_of_annotations_names_no_key_of_ours_that_does_not_exist() -> None:
    named = set(re.findall(r"`(etcompile\.dev/[a-z-]+)`", page("annotations.md")))
    prefixes = tuple(key for key in keys() if key.endswith("-"))
    assert {key for key in named - keys() if not key.startswith(prefixes)} == set()


def test_every_gang_scheduler_has_a_row() -> None:
    assert rows(page("gang.md").partition("\n## ")[0], r"`([a-z]+)` \|") == SCHEDULERS


def test_page_of_gangs_says_which_fields_a_scheduler_cannot_use() -> None:
    fields = rows(page("gang.md"), r"`gang-([a-z-]+)`[^|]*\|[^|]*\|([^|]*)\|$")
    assert {f"etcompile.dev/gang-{name}" for name, _ in fields} == set(ANNOTATIONS)
    for name, cell in fields:
        field = ANNOTATIONS[f"etcompile.dev/gang-{name}"].field
        unused = {one for one in SCHEDULERS if field in scheduler_of(one).unused}
        said = {word for word in re.findall(r"[a-z]+", cell) if word in SCHEDULERS}
        assert (set(SCHEDULERS) - said if "all but" in cell else said) == unused, name


def test_every_parameter_of_the_argo_cd_plugin_is_named_with_its_form() -> None:
    table = between(page("argocd.md"), "### Parameters", "### ")
    assert [one.name for one in PARAMETERS if f"`{one.name}`" not in table] == []
    forms = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]*)\|", table, re.MULTILINE))
    assert forms.keys() <= {one.name for one in PARAMETERS}
    for one in PARAMETERS:
        is_collection = one.form in ("array", "map")
        assert one.name in forms or not is_collection, one.name
        assert forms.get(one.name, "").startswith(one.form) is is_collection, one.name


# Dependencies -----------------------------------------------------------------------------------


def required(*extras: str) -> set[str]:
    """The names of the libraries that extras install; without any, those of etcompile itself."""
    optional = PROJECT["optional-dependencies"]
    lists = [optional[name] for name in extras] or [PROJECT["dependencies"]]
    return {re.split(r"[<>=; ]", one)[0].lower() for entries in lists for one in entries}


def test_every_library_has_a_row_with_its_reason() -> None:
    text = page("dependencies.md")
    table = between(text, "## At run time", "## Of an extra")
    assert {one.lower() for one in rows(table, r"\[([\w-]+)\]")} == required()
    of_extras = between(text, "## Of an extra", "## For the documentation site")
    named = {one.lower() for one in re.findall(r"^\[([\w-]+)\]", of_extras, re.MULTILINE)}
    assert named == required("lsp", "socks", "sops")
    of_site = between(text, "## For the documentation site", "| instead of |")
    named = {
        one.lower().replace("myst", "myst-parser") for one in re.findall(r"\[([\w-]+)\]\(", of_site)
    }
    assert named == required("docs")


def test_files_that_the_page_of_dependencies_names_exist() -> None:
    pattern = r"`(tests/[\w/]+\.py|etcompile/[\w/.]+|benchmarks/[\w.]+)`"
    named = re.findall(pattern, page("dependencies.md"))
    assert named
    assert [one for one in named if not (ROOT / one).exists()] == []


# Architecture -----------------------------------------------------------------------------------


def walks() -> dict[str, list[str]]:
    """The hops of each walk through the code, by its heading."""
    parts = re.split(r"^## (.+)$", page("architecture.md"), flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^\d+\. (.+(?:\n   .+)*)", text, flags=re.MULTILINE)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_each_hop_of_a_walk_names_a_function_of_a_module_and_no_module_comes_twice() -> None:
    assert len(walks()) == 3
    for title, hops in walks().items():
        named = [re.match(r"`(etcompile/\S+\.py)` `([\w.]+)`: ", hop) for hop in hops]
        assert all(named), title
        assert 8 <= len(hops) <= 12, title
        modules = [one[1] for one in named if one]
        assert len(set(modules)) == len(modules), title
        for module, name in (one.groups() for one in named if one):
            code = (ROOT / module).read_text("utf-8")
            for part in name.split("."):
                assert re.search(rf"^ *(def|class) {part}\b", code, re.MULTILINE), (module, name)


def test_modules_that_the_page_of_the_architecture_names_exist() -> None:
    named = re.findall(r"`(etcompile/[^`]+)`", page("architecture.md"))
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_package_stands_on_a_floor() -> None:
    floors = "\n".join(rows(page("architecture.md"), r"\d \|.*"))
    packages = {one.parent.name for one in Path(etcompile.__file__).parent.glob("*/__init__.py")}
    assert packages == packages & set(re.findall(r"`(\w+)`", floors))


# Changelog --------------------------------------------------------------------------------------

CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
NEWEST = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1]


def flags(group: click.Group) -> set[str]:
    options: set[str] = {"--help", "--version", "--filename"}
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        options |= flags(command) if isinstance(command, click.Group) else set()
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                options |= {*param.opts, *param.secondary_opts}
    return options


def test_flags_under_added_exist() -> None:
    added = NEWEST.partition("### Added")[2].partition("### ")[0]
    ours = re.sub(r"`kubectl [^`]*`", "", added)
    named = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)}
    assert named
    assert named - flags(program) == set()


def test_flags_elsewhere_exist_or_are_said_to_be_gone() -> None:
    changed = NEWEST.partition("### Changed")[2]
    code = " ".join(re.findall(r"`[^`]+`", changed))
    missing = {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)} - flags(program)
    for flag in missing:
        assert re.search(rf"no `{flag}`|`{flag}` is", " ".join(changed.split())), flag
