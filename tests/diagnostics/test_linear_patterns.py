# ruff: noqa: SLF001 - the patterns of a module are private
"""Every pattern takes time in proportion to its text, whatever that is.

Anybody who may write a file, an image, a ConfigMap or a line of a log chooses the text. The texts
here are built from each pattern itself.
"""

import ast
import functools
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import etcompile
from etcompile import data
from etcompile.causes import causes
from etcompile.check import output_rules
from etcompile.diagnostics import credentials
from etcompile.frontends.dlrover import elastic_pods
from etcompile.k8s import names, requests
from hostile_texts import slow_text

PACKAGE = Path(etcompile.__file__).parent
USES = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")
FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if re.search(r"\bre\.[a-z]+\(|\bmatching\(", path.read_text()) and path.stem != "shipped"
)


class Pattern(NamedTuple):
    """A pattern, and the function of `re` that takes it."""

    text: str
    flags: int = 0
    use: str = "finditer"


def of_data(rows: str) -> Iterator[Pattern]:
    for row in getattr(causes.known(), rows):
        yield from (Pattern(text, re.MULTILINE, "search") for text in row.patterns)


def of_shapes() -> Iterator[Pattern]:
    code = (PACKAGE / "causes" / "causes.py").read_text()
    for name, row in causes.known().shapes.items():
        is_searched = f'_shape("{name}").search' in code or f'_shape("{name}").sub' in code
        for text in row.patterns:
            flags = re.IGNORECASE | re.MULTILINE
            yield Pattern(text, flags, "search" if is_searched else "match")


def of_rules() -> Iterator[Pattern]:
    table = json.loads((data.folder("schemas") / "kubernetes" / "rules.json").read_bytes())
    return (
        Pattern(rule["of"], 0, "fullmatch")
        for rule in table["rules"]
        if rule["demand"] == "pattern"
    )


BUILT = {
    ("diagnostics.credentials", "_by_form"): lambda: [
        Pattern(form[2]) for form in credentials._FORMS
    ],
    ("diagnostics.credentials", "credential_spans"): lambda: [
        Pattern(text, 0, "search") for text in credentials._NAMED
    ],
    ("diagnostics.credentials", "spoken_spans"): lambda: [
        Pattern(text) for text in credentials._SPOKEN
    ],
    ("causes.causes", "_rows"): lambda: [
        *of_data("messages"),
        *of_data("texts"),
        *of_data("ignored"),
    ],
    ("causes.causes", "_shape"): of_shapes,
    ("causes.causes", "_names_peer"): lambda: [Pattern(causes.pod_pattern("job"), 0, "search")],
    ("frontends.dlrover.elastic_pods", "option"): lambda: [
        Pattern(option.form, re.ASCII, "fullmatch") for option in elastic_pods._OPTIONS
    ],
    ("frontends.dlrover.elastic_pods", "master_notes"): list,  # the same
    ("k8s.names", "image_problem"): lambda: [Pattern(names._DIGEST, 0, "fullmatch")],
    ("k8s.requests", "devices"): lambda: [
        Pattern(form, 0, "fullmatch") for form, _ in requests._DEVICES
    ],
    ("k8s.validation.engine", "_violations"): of_rules,
    ("check.output_rules", "check_host_names"): lambda: [
        Pattern(output_rules._HOST.format(job="job"))
    ],
    # All patterns that modules pass on are seen there.
    ("frontends.annotations", "matching"): list,
    # No text of others: the names of a job and of files, globs, the package's own list of kinds.
    ("compiler.fold", "_with_intents"): list,
    ("emit.directory", "recover"): list,
    ("load.sources", "_glob_paths"): list,
    ("integrations.argocd_plugin", "job_files"): list,
}
"""Patterns that functions build, by module and function."""


@functools.cache
def uses_of_variables() -> dict[str, set[str]]:
    uses: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name, use in re.findall(rf"\b([A-Za-z_]+)\.({'|'.join(USES)})\(", path.read_text()):
            uses.setdefault(name, set()).add(use)
    return uses


def written(name: str) -> Iterator[Pattern | tuple[str, str]]:
    """The patterns in the code of a module; of one that is built, the module and the function."""
    module = importlib.import_module(f"etcompile.{name}")

    def value_of(node: ast.expr):
        try:
            return eval(ast.unparse(node), vars(module))
        except NameError:
            return None

    def visit(node: ast.AST, function: str, variable: str):
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef)
            within = child.name if is_function else function
            target = child.targets[0] if isinstance(child, ast.Assign) else None
            if isinstance(child, ast.Call):
                called = ast.unparse(child.func)
                use = "fullmatch" if called == "matching" else called.removeprefix("re.")
                if called == "matching" or (called.startswith("re.") and use in (*USES, "compile")):
                    text, *rest = map(value_of, child.args)
                    flags = next((flag for flag in rest if isinstance(flag, re.RegexFlag)), 0)
                    several = uses_of_variables().get(variable, {"finditer"})
                    if use == "compile":
                        use = next(iter(several)) if len(several) == 1 else "finditer"
                    if text is None:
                        yield name, within
                    elif not isinstance(text, re.Pattern):
                        text = text.decode("latin-1") if isinstance(text, bytes) else text
                        yield Pattern(text, int(flags), use)
            yield from visit(child, within, target.id if isinstance(target, ast.Name) else variable)

    return visit(ast.parse(Path(module.__file__).read_text()), "", "")


@pytest.mark.parametrize("module", MODULES)
def test_no_pattern_is_slow_for_a_long_text(module):
    seen = {*written(module)}
    built = {each for each in seen if each in BUILT}
    assert (
        {each for each in BUILT if each[0] == module}
        == built
        == seen - {each for each in seen if isinstance(each, Pattern)}
    )
    patterns = [each for each in seen if isinstance(each, Pattern)]
    patterns += [pattern for each in built for pattern in BUILT[each]()]
    for text, flags, use in dict.fromkeys(patterns):
        if not re.search(r"[*+]|,\}", text):
            continue
        slow = slow_text(text, flags & FLAGS, use)
        assert slow is None, f"{text!r} is slow for a text of {slow[0]!r} and many {slow[1]!r}"


SQUARE = (
    *(r"a+b", r"\s+$", r"x[^\n]*y", r"<[^>]*>!", r",(?![^(]*\))", r"^\s*x", r"\{\{.*?\}\}"),
    *(r"(?:[ \t]*\\?[ \t]*)z", r"(?:\n#[^\n]*)*\nz", r"job-(?:[a-z0-9-]*-\d|x)", r"(a|aa)+$"),
    r"name: \w*TOKEN(?:\n#[^\n]*)*\n *value",
)


@pytest.mark.parametrize("pattern", SQUARE)
def test_quadratic_pattern_is_slow_for_a_long_text(pattern):
    assert slow_text(pattern, re.MULTILINE, "finditer")
