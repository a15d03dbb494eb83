"""Hostile and broken input: one clear diagnostic, without a hang, in under 200 MB."""

import json
import subprocess
import sys

import pytest

from etcompile.load import parse

HANG = 60
"""Seconds; each of these takes less than one, and what grows with the square takes minutes."""

# Another process, so that what it needs can be measured.
MEASURE = """
import json, pathlib, sys
from etcompile.load import load
loaded = load(sys.argv[1:])
status = pathlib.Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
found = [(one.code, one.location.line, one.location.column) for one in loaded.diagnostics]
print(json.dumps([found, len(loaded.documents), peak]))
"""

HEAD = "apiVersion: v1\nkind: Probe\n"
LAUGHS = (
    HEAD
    + "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
)
WIDE = HEAD + "a: &a {b: c}\nlist:\n" + "- *a\n" * 420_000
ONE_LINE = HEAD + "a: &a {b: c}\nlist: [" + "*a, " * 500_000 + "]\n"
MERGES = (
    HEAD
    + "a: &a {" + ", ".join(f"k{n}: v" for n in range(1000)) + "}\n"
    + "".join(f"m{n}: {{<<: [{', '.join(['*a'] * 100)}]}}\n" for n in range(500))
)  # fmt: skip
CHAIN = HEAD + "a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 50_000))

CASES = {
    "exponential aliases": (LAUGHS.encode(), [["ET1009", 7]]),
    "wide aliases": (WIDE.encode(), [["ET1009", 50_005]]),
    "wide aliases on one line": (ONE_LINE.encode(), [["ET1009", 4]]),
    "merges": (MERGES.encode(), [["ET1009", 4]]),
    "a chain of aliases": (CHAIN.encode(), [["ET1008", 66]]),
    "100 deep": ((HEAD + "v: " + "[" * 100 + "]" * 100).encode(), [["ET1008", 3]]),
    "100 deep in block style": (
        (HEAD + "".join(f"{' ' * n}k:\n" for n in range(100))).encode(), [["ET1008", 67]],
    ),
    "a million deep": ((HEAD + "v: " + "[" * 1_000_000).encode(), [["ET1008", 3]]),
    "a million deep in JSON": (b'{"v":' * 1_000_000, [["ET1008", 1]]),
    "NUL": (HEAD.encode() + b"v: a\x00b\n", [["ET1004", 3]]),
    "latin-1": (HEAD.encode() + b"v: caf\xe9\n", [["ET1003", 3]]),
    "empty": (b"", [["ET1011", None]]),
    "two million empty documents": (b"---\n" * 2_000_000, [["ET1010", 10_001]]),
    "too large": (b"\n" * (16 * 1024 * 1024 + 1), [["ET1007", None]]),
    "one quote a line": (HEAD.encode() + b"v: 'x\n" * 300_000, [["ET1005", 3]]),
}  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measured with Linux's /proc")
@pytest.mark.parametrize("case", CASES)
def test_hostile_input_gives_one_diagnostic_without_a_hang_and_in_little_memory(case, tmp_path):
    content, expected = CASES[case]
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    diagnostics, documents, peak = json.loads(run.stdout)
    assert [one[:2] for one in diagnostics] == expected
    assert documents == 0
    assert peak < 200 * 1024 * 1024


def test_byte_that_is_not_utf8_is_reported_with_its_line_column_and_value():
    (problem,) = parse(HEAD.encode() + "v: é".encode() + b"\xe9x\n").diagnostics
    assert problem.message == "this is not UTF-8: byte 0xe9"
    assert (problem.location.line, problem.location.column) == (3, 5)
    assert problem.location.text == "v: é\N{REPLACEMENT CHARACTER}x"


@pytest.mark.parametrize(
    ("character", "named"),
    [("\x00", "NUL (U+0000)"), ("\x1b", "ESC (U+001B)"), ("\x07", "U+0007"), ("\x9f", "U+009F"),
     ("\ufffe", "U+FFFE"), ("\ufeff", "U+FEFF"), ("\ud83d", "U+D83D")],
)  # fmt: skip
def test_control_character_is_reported_with_its_line_and_column(character, named):
    (problem,) = parse(f"{HEAD}é: {character}\n").diagnostics
    assert problem.message == f"control character {named} is not allowed in YAML"
    assert (problem.location.line, problem.location.column) == (3, 4)


def test_every_one_of_many_duplicate_keys_is_reported():
    loaded = parse(HEAD + "k: 1\n" * 20_000)
    assert len(loaded.diagnostics) == 19_999
    assert {one.code for one in loaded.diagnostics} == {"ET1006"}
