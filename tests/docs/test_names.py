"""Modules and classes have the names that Kubernetes, controller-runtime and compilers use."""

import ast
from pathlib import Path

import etcompile

ROOT = Path(etcompile.__file__).parent

# Established terms of the field, and of this code, that happen to end like this.
TERMS = {
    *("backend/gang/coscheduling", "backend/gang/marking", "backend/secrets/existing"),
    *("cli/completing", "cli/publishing", "diagnostics/catalogue/loading"),
    *("diagnostics/catalogue/scaling", "diagnostics/spelling", "frontends/scaling"),
    *("k8s/validation/pod/scheduling", "kubeapi/retrying", "model/bookkeeping", "model/scaling"),
    *("naming", "stages/lowering", "stages/reporting", "watch/deciding"),
}
PRIVATE = {
    *("Happening", "Patience", "Ruling", "Standing", "Stock", "Trial", "Trouble", "Turns"),
    *("Acting", "Leading", "Observing", "Queueing", "Streaming"),
}


def modules():
    return sorted(ROOT.rglob("*.py"))


def test_modules_are_called_by_nouns():
    found = {str(one.relative_to(ROOT).with_suffix("")) for one in modules()}
    assert {one for one in found if one.endswith("ing")} == TERMS, (
        "see the glossary in CONTRIBUTING.md"
    )


def test_no_class_has_a_name_that_only_we_understand():
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.strip("_") in PRIVATE
    ]
    assert found == []
