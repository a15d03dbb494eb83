"""Modules and classes have the names that Kubernetes, controller-runtime and compilers use."""

import ast
import re
from pathlib import Path

import etcompile

ROOT = Path(etcompile.__file__).parent

# Established terms of the field, and of this code, that happen to end like this.
TERMS = {
    *("cli/reporting", "diagnostics/spelling"),
    *("k8s/bookkeeping", "model/scaling", "naming"),
    "capacity/packing",
}
PRIVATE = {
    *("Happening", "Patience", "Ruling", "Standing", "Stock", "Trial", "Trouble", "Turns"),
    *("Acting", "Leading", "Observing", "Queueing", "Streaming"),
}


def modules():
    return sorted(ROOT.rglob("*.py"))


def test_modules_are_called_by_nouns():
    names = {str(path.relative_to(ROOT).with_suffix("")) for path in modules()}
    assert {name for name in names if name.endswith("ing")} == TERMS, (
        "see docs/contributing/glossary.md"
    )


def test_no_class_has_a_name_that_only_we_understand():
    places = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        for name in re.findall(r"^\s*class (\w+)", path.read_text("utf-8"), re.MULTILINE)
        if name.strip("_") in PRIVATE
    ]
    assert places == []


def is_called_one(node):
    """Whether a loop, a comprehension, an assignment or a lambda calls something `one`."""
    if isinstance(node, ast.Lambda):
        return any(argument.arg == "one" for argument in node.args.args)
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "one"


def test_what_is_gone_through_is_called_what_it_is():
    places = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules()
        if re.search(r"\bone\b", text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if is_called_one(node)
    ]
    assert places == [], "say what it is: a pod, a step, a document"
