"""Nothing is decided by the words of a reason or a message: those are for people, and may change.

What is decided by is a value beside them: a remedy, a code, a field. Only what others say in no
other way, such as the API server and a YAML parser, is read out of their words, in the modules
below.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "etcompile"
READERS = {
    "causes/causes.py": "Kubernetes, and what programs say as they die",
    "kubeapi/errors.py": "the API server, and Python's ssl",
    "kubeapi/transport.py": "OpenSSL",
    "k8s/pods.py": "the kubelet, of which a word has an end that varies",
    "load/configuration.py": "Python's tomllib, which tells places in words only",
    "load/syntax.py": "PyYAML and libyaml",
    "rollout/refusals.py": "the API server",
    "status/reader.py": "the scheduler, which names unbound claims in words only",
    "status/replica_states.py": "us; a word that was said is not said again",
}
"""Modules that read texts of others, and whose."""
TEXTS = frozenset({"because", "hint", "message", "problem", "reason", "reasons", "why"})
"""What variables and fields are called that hold texts for people."""
SENTENCES = TEXTS - {"problem", "reason"}
"""The same without those that may hold one word, such as the reasons of Kubernetes."""
LOOKS = frozenset(
    {
        *("startswith", "endswith", "partition", "rpartition", "find", "index", "count"),
        *("removeprefix", "removesuffix", "search", "match", "fullmatch", "findall"),
    }
)


def test_nothing_is_decided_by_the_words_of_a_text() -> None:
    places = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in READERS
        for line in looks(path.read_text())
    }
    assert not places


@pytest.mark.parametrize("file", READERS)
def test_a_module_that_reads_texts_of_others_does(file: str) -> None:
    assert [*looks((PACKAGE / file).read_text())]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('any("--prune" in reason for reason in step.reasons)', True),
        ("PRUNES in reason", True),
        ('reason.partition("; --")', True),
        ("step.reasons[-1].partition(';')", True),
        ("PATTERN.search(error.message)", True),
        ("problem.message != NEEDED", True),
        ("step.needs in (None, 'room')", False),
        ("error.reason == 'AlreadyExists'", False),
        ("one.remedy.option == 'prune'", False),
        ("', '.join(step.reasons)", False),
    ],
)
def test_what_looks_into_a_text(code: str, expected: bool) -> None:
    assert bool([*looks(code)]) is expected


def looks(code: str) -> Iterator[int]:
    """The lines in which something is looked for in a text, or a text is compared."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            subjects = (node.func.value, *node.args)
            if node.func.attr in LOOKS and any(named(one) in TEXTS for one in subjects):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            for how, other in zip(node.ops, node.comparators, strict=True):
                inside = isinstance(how, ast.In | ast.NotIn) and named(other) in TEXTS
                same = isinstance(how, ast.Eq | ast.NotEq) and named(node.left) in SENTENCES
                if (inside and is_text(node.left)) or (same and is_text(other)):
                    yield node.lineno


def named(node: ast.expr) -> str:
    """What a variable or a field is called, or the list that it is an item of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_text(node: ast.expr) -> bool:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""
    return constant or isinstance(node, ast.JoinedStr) or named(node).isupper()
