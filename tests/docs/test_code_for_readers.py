"""What holds for the code of etcompile so that people can read it: names, docstrings, texts."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "etcompile"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Modules and classes have the names that Kubernetes, controller-runtime and compilers use ---------

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


def test_modules_are_called_by_nouns() -> None:
    names = {str(path.relative_to(PACKAGE).with_suffix("")) for path in MODULES}
    assert {name for name in names if name.endswith("ing")} == TERMS, (
        "see docs/contributing/glossary.md"
    )


def test_no_class_has_a_name_that_only_we_understand() -> None:
    places = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in MODULES
        for name in re.findall(r"^\s*class (\w+)", path.read_text("utf-8"), re.MULTILINE)
        if name.strip("_") in PRIVATE
    ]
    assert places == []


def is_called_one(node: ast.AST) -> bool:
    """Whether a loop, a comprehension, an assignment or a lambda calls something `one`."""
    if isinstance(node, ast.Lambda):
        return any(argument.arg == "one" for argument in node.args.args)
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "one"


def test_what_is_gone_through_is_called_what_it_is() -> None:
    places = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        if re.search(r"\bone\b", text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if is_called_one(node)
    ]
    assert places == [], "say what it is: a pod, a step, a document"


# An entry of a docstring says something that its name does not ------------------------------------

SAYS_NOTHING = frozenset({"a", "an", "is", "it", "its", "of", "that", "the", "this", "to", "which"})
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
SAME = {"now": {"time"}}
"""Names that say the same as other words."""


def test_each_entry_says_more_than_its_name() -> None:
    repeats = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}: {text}"
        for path in MODULES
        for line, name, text in entries(path.read_text("utf-8"))
        if is_empty(name, text)
    ]
    assert repeats == []


@pytest.mark.parametrize(
    ("name", "text", "empty"),
    [
        ("namespace", "Its namespace.", True),
        ("api_version", "The API version.", True),
        ("now", "The time.", True),
        ("labels", "Its label.", True),
        ("namespace", "The job's namespace.", False),
        ("now", "The time in seconds since 1970.", False),
        ("key", "In PEM.", False),
    ],
)
def test_what_says_nothing(name: str, text: str, empty: bool) -> None:
    assert is_empty(name, text) is empty


def entries(code: str) -> Iterator[tuple[int, str, str]]:
    """What a module's docstrings say of arguments and attributes: line, name and text."""
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        docstring = inspect.cleandoc(ast.get_docstring(node) or "")
        for section in SECTION.findall(docstring):
            for name, text in ENTRY.findall(section):
                yield node.lineno, name, " ".join(text.split())


def is_empty(name: str, text: str) -> bool:
    """Whether a text has no word that its name does not have."""
    known = {word.rstrip("s") for word in name.lower().split("_")} | SAME.get(name, set())
    words = re.findall(r"[a-z]+", text.lower())
    return all(word in SAYS_NOTHING or word.rstrip("s") in known for word in words)


# Nothing is decided by the words of a text, which are for people and may change -----------------
#
# What is decided by is a value beside them: a remedy, a code, a field. Only what others say in no
# other way, such as the API server and a YAML parser, is read out of their words.

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
_TEXT = r"(?:because|hint|message|problem|reasons?|why)(?:\[[^]]*\])?"
"""A variable or a field that holds a text for people, or an item of one that holds several."""
_SENTENCE = r"(?:because|hint|message|reasons|why)(?:\[[^]]*\])?"
"""The same without those that may hold one word, such as the reasons of Kubernetes."""
_METHOD = r"(?:startswith|endswith|r?partition|r?find|index|count|removeprefix|removesuffix)"
SEARCH = re.compile(
    rf"""
      \b{_TEXT}\.{_METHOD}\(
    | \.(?:{_METHOD}|search|match|fullmatch|findall)\([^()]*\b{_TEXT}[,)]
    | (?:["']|\b[A-Z][A-Z_]+)\ (?:not\ )?in\ (?:\w+\.)*{_TEXT}(?![\w.(])
    | \b{_SENTENCE}\ [!=]=\ (?:f?["'](?!["'])|[A-Z][A-Z_]+\b)
    """,
    re.VERBOSE,
)


def test_nothing_is_decided_by_the_words_of_a_text() -> None:
    places = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in MODULES
        if str(path.relative_to(PACKAGE)) not in READERS
        for line in searches(path.read_text())
    }
    assert not places


@pytest.mark.parametrize("file", READERS)
def test_a_module_that_reads_texts_of_others_does(file: str) -> None:
    assert searches((PACKAGE / file).read_text())


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
    assert bool(searches(code)) is expected


def searches(code: str) -> list[int]:
    """The lines in which something is looked for in a text, or a text is compared."""
    return [n for n, line in enumerate(code.splitlines(), 1) if SEARCH.search(line)]
