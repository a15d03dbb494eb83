"""Mistakes made in real files, with comments everywhere, and corrected again.

A file that compiles gets one to four mistakes of the sorts that `--fix` knows. What comes of
correcting it must say what the file said before, keep every comment, and change no other line.
"""

import collections
import functools
import random
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import etcompile
from etcompile.fixes import fixed_files, with_edits
from etcompile.load import access
from operator_recordings import recordings

ROOT = Path(__file__).parents[2]
_MOVED = ("cleanPodPolicy", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
_CHOICES = ("restartPolicy", "cleanPodPolicy", "imagePullPolicy", "dnsPolicy", "mpiImplementation")
_SHARD = 100


@functools.cache
def files():
    """Texts that compile, each with comments wherever one can stand."""
    sources = [path.read_text("utf-8") for path in sorted((ROOT / "examples").rglob("*.yaml"))]
    sources += [
        yaml.safe_dump_all(recording.documents, sort_keys=False)
        for operator in ("dlrover", "et-operator", "mpi-operator", "training-operator")
        for recording in recordings(operator)
    ]
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "input.yaml")
        for text in sources:
            if "metrics:" in text:
                continue  # of an autoscaler: they are not compiled, nor their names corrected
            path.write_text(text, "utf-8")
            compilation = etcompile.compile(path, etcompile.Options(without_keys=True))
            if compilation.ok and "kind: Secret" not in text and len(text) < 20_000:
                texts.append(commented(text))
    assert len(texts) > 60
    return texts


class Entry(NamedTuple):
    """A field or an item: the document's number, keys and indexes to it; its key and its value."""

    path: tuple[Any, ...]
    key: yaml.ScalarNode | None
    value: yaml.Node


def entries(text):
    """All fields and items of a text, each where it is written, outermost first."""
    seen = set()
    documents = [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None]
    waiting = [Entry((number,), None, node) for number, node in enumerate(documents)][::-1]
    while waiting:
        entry = waiting.pop()
        yield entry
        path, _, node = entry
        if id(node) in seen or node.id == "scalar":
            continue  # an alias of what was there before
        seen.add(id(node))
        pairs = node.value if node.id == "mapping" else [(None, item) for item in node.value]
        inner = [
            Entry((*path, index if key is None else key.value), key, value)
            for index, (key, value) in enumerate(pairs)
            if key is None or key.id == "scalar"
        ]
        waiting += reversed(inner)


def commented(text):
    """A text with a comment at the end of each line, and some above."""
    lines = text.splitlines()
    closed = set()
    for entry in entries(text):
        node = entry.value
        first, last = node.start_mark.line, node.end_mark.line
        is_long = node.id == "scalar" or node.flow_style
        if is_long and last > first:
            closed |= {*range(first, last + 1)}
        if node.id == "scalar" and node.style in ("|", ">"):
            closed |= {first, last}
    output = []
    for number, line in enumerate(lines):
        words = line.strip()
        if not words or number in closed or words.startswith(("#", "---", "...", "%")):
            output.append(line)
            continue
        if number % 7 == 3 and number - 1 not in closed:
            indent = len(line) - len(line.lstrip(" "))
            output.append(f"{' ' * indent}# above {number}")
        output.append(line if " #" in line else f"{line}   # note {number} é🎈")
    result = "\n".join(output) + "\n"
    assert [*yaml.safe_load_all(result)] == [*yaml.safe_load_all(text)]
    return result


def spliced(text, start, end, new):
    return text[:start] + new + text[end:]


def mistaken(text, rng):
    """The text with one more mistake; itself if this sort of mistake finds no place in it."""
    sort = rng.choice((misnamed, misnamed, miscased, quoted, unquoted))
    keys = [entry for entry in entries(text) if entry.key is not None]
    rng.shuffle(keys)
    return next((mistake for entry in keys if (mistake := sort(text, entry, rng))), text)


def misnamed(text, entry, rng):
    name = entry.key.value
    # Names of the author's own are nobody's to correct, and these say what the document is.
    free = {"labels", "annotations", "data", "limits", "requests", "nodeSelector", "matchLabels"}
    if free & {*entry.path} or name in ("apiVersion", "kind", "metadata", "name", "spec", "<<"):
        return None
    # It may be misplaced as well: in `spec` nothing resembles it.
    if name in _MOVED:
        return None
    if not re.fullmatch(r"[a-z]+[A-Z][A-Za-z]+", name):
        return None
    hump = re.search("[A-Z]", name).start()
    wrong = rng.choice(
        (
            name[0].upper() + name[1:],
            f"{name[:hump]}_{name[hump].lower()}{name[hump + 1 :]}",
            f"{name[:hump]}-{name[hump:]}",
            name.lower(),
        )
    )
    return spliced(text, entry.key.start_mark.index, entry.key.end_mark.index, wrong)


def miscased(text, entry, rng):
    node = entry.value
    if entry.key.value not in _CHOICES or node.id != "scalar":
        return None
    wrong = rng.choice((node.value.lower(), node.value.upper(), node.value.swapcase()))
    return spliced(text, node.start_mark.index, node.end_mark.index, f'"{wrong}"')


def quoted(text, entry, rng):
    node = entry.value
    names = ("replicas", "backoffLimit", "containerPort", "slotsPerWorker", "hostNetwork")
    if entry.key.value not in names or node.id != "scalar" or node.style:
        return None
    mark = rng.choice("'\"")
    return spliced(text, node.start_mark.index, node.end_mark.index, f"{mark}{node.value}{mark}")


def unquoted(text, entry, _rng):
    node = entry.value
    if entry.key.value != "value" or node.id != "scalar" or node.style not in ('"', "'"):
        return None
    if not re.fullmatch(r"\d+|true|false|yes|no|\d+\.\d+", node.value):
        return None
    return spliced(text, node.start_mark.index, node.end_mark.index, node.value)


def values(text):
    return [*yaml.safe_load_all(text)]


def comments(text):
    return collections.Counter(re.findall(r"# (?:note|above) \d+", text))


def corrected(file):
    options = etcompile.Options(without_keys=True)

    def check():
        return etcompile.compile(file, options).findings

    return fixed_files(check), check


def one(seed, folder):
    """Makes mistakes in a file and has them corrected; how many corrections that were."""
    rng = random.Random(seed)
    original = rng.choice(files())
    text = original
    for _ in range(rng.randint(1, 4)):
        text = mistaken(text, rng)
    if values(text) == values(original):
        return 0
    newline = rng.choice(("\n", "\n", "\r\n"))
    file = folder / f"{seed}.yaml"
    file.write_text(text, "utf-8", newline=newline)
    changed, check = corrected(file)
    assert changed, f"seed {seed}: nothing is corrected\n{text}"
    [file_fix] = changed
    after = file_fix.after.decode()
    assert after.count("\r\n") == (after.count("\n") if newline == "\r\n" else 0)
    after = after.replace("\r\n", "\n")
    assert values(after) == values(original), f"seed {seed}"
    assert comments(after) == comments(original), f"seed {seed}"
    before, now = text.splitlines(), after.splitlines()
    assert len(before) == len(now)
    differ = {n for n, pair in enumerate(zip(before, now, strict=True), 1) if len({*pair}) > 1}
    assert differ <= {d.location.line for d in file_fix.fixed}, f"seed {seed}"
    with access.instead_of({str(file): file_fix.after}):
        left = check()
        assert not {d.code for d in left} & {d.code for d in file_fix.fixed if d.code != "ET2044"}
        assert not any(d.fix for d in with_edits(left))
        assert fixed_files(check) == ()
    return len(file_fix.fixed)


def test_mistakes_in_real_files_are_corrected(tmp_path):
    counts = [one(seed, tmp_path) for seed in range(_SHARD)]
    assert sum(count > 0 for count in counts) > _SHARD * 0.7


@pytest.mark.programs
@pytest.mark.parametrize("shard", range(1, 23))
def test_mistakes_in_two_thousand_real_files_are_corrected(shard, tmp_path):
    counts = [one(shard * _SHARD + seed, tmp_path) for seed in range(_SHARD)]
    assert sum(count > 0 for count in counts) > _SHARD * 0.7
