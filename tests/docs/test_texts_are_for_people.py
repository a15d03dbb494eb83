"""Nothing is decided by the words of a reason or a message: those are for people, and may change.

What is decided by is a value beside them: a remedy, a code, a field. Only what others say in no
other way, such as the API server and a YAML parser, is read out of their words, in the modules
below.
"""

import re
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
_TEXT = r"(?:because|hint|message|problem|reasons?|why)(?:\[[^]]*\])?"
"""A variable or a field that holds a text for people, or an item of one that holds several."""
_SENTENCE = r"(?:because|hint|message|reasons|why)(?:\[[^]]*\])?"
"""The same without those that may hold one word, such as the reasons of Kubernetes."""
_METHOD = r"(?:startswith|endswith|r?partition|r?find|index|count|removeprefix|removesuffix)"
LOOK = re.compile(
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
        for path in PACKAGE.rglob("*.py")
        if str(path.relative_to(PACKAGE)) not in READERS
        for line in looks(path.read_text())
    }
    assert not places


@pytest.mark.parametrize("file", READERS)
def test_a_module_that_reads_texts_of_others_does(file: str) -> None:
    assert looks((PACKAGE / file).read_text())


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
    assert bool(looks(code)) is expected


def looks(code: str) -> list[int]:
    """The lines in which something is looked for in a text, or a text is compared."""
    return [n for n, line in enumerate(code.splitlines(), 1) if LOOK.search(line)]
