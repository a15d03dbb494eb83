"""Texts made of pieces of real files, by operators that know nothing of schemas.

The inputs of `generator` are nearly valid. These are what a slip of an editor, a merge or a broken
pipeline leaves behind.
"""

import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mutations.odd import ODD, damaged, paths, put

_BREAKS = ("\r", "\r\n", "\x85", "\u2028", "\n\n", "\n#\n", "\n---\n", "\n...\n")


def texts(folders: Sequence[Path], longest: int = 40_000) -> list[str]:
    """The YAML files below folders, as texts.

    Args:
        longest: Bytes of a file that is still taken.
    """
    files = sorted(file for folder in folders for file in folder.rglob("*.y*ml"))
    return [
        file.read_text("utf-8", "replace") for file in files if 0 < file.stat().st_size <= longest
    ]


class Recombination:
    """Makes texts; two of one seed and the same texts make the same ones."""

    def __init__(self, seed: int, whole: Sequence[str]) -> None:
        self._seed, self._texts = seed, whole
        self._values: dict[int, list[Any]] = {}
        self._kinds: dict[str, list[dict[str, Any]]] = {}

    def input(self, number: int) -> bytes:
        """The input of a number, whatever was made before."""
        rng = random.Random(f"{self._seed}-{number}")
        operator = rng.choices(
            (_lines, _breaks, self._grafted, self._odd, self._with_runtime, _bytes),
            (2, 2, 5, 3, 2, 1),
        )[0]
        text = operator(rng, self._text(rng), self._text(rng))
        if rng.random() < 0.1:
            text = _breaks(rng, text, "")
        return text.encode("utf-8", "surrogatepass")

    def _text(self, rng: random.Random) -> str:
        return rng.choice(self._texts)

    def _parsed(self, text: str) -> list[Any]:
        key = hash(text)
        if key not in self._values:
            try:
                documents = [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
            except (yaml.YAMLError, ValueError):
                documents = []
            self._values[key] = documents
        return copy.deepcopy(self._values[key])

    def _grafted(self, rng: random.Random, text: str, other: str) -> str:
        """A part of one file in a place of another, most often one of the same name."""
        # Each part a copy: a value that is a part of itself has no text.
        ours, theirs = self._parsed(text), self._parsed(other)
        here, there = list(paths(ours)), list(paths(theirs))
        for _ in range(rng.choice((1, 1, 2, 4))):
            if not here or not there:
                break
            source = rng.choice(there)
            similar = [path for path in here if path[-1:] == source[-1:]]
            target = rng.choice(similar if similar and rng.random() < 0.7 else here)
            put(ours, target, copy.deepcopy(_at(theirs, source)))
            here = list(paths(ours))
        if rng.random() < 0.3:
            ours += theirs
        return yaml.safe_dump_all(ours)

    def _with_runtime(self, rng: random.Random, text: str, other: str) -> str:
        """A TrainJob and the runtime that it names, each with parts of others of its kind."""
        jobs, runtimes = self._of("TrainJob"), self._of("TrainingRuntime")
        if not jobs or not runtimes:
            return self._grafted(rng, text, other)
        job, runtime = copy.deepcopy(rng.choice(jobs)), copy.deepcopy(rng.choice(runtimes))
        for value, others in ((job, jobs), (runtime, runtimes), (runtime, runtimes)):
            places, more = list(paths(value)), rng.choice(others)
            source = rng.choice(list(paths(more)))
            similar = [path for path in places if path[-1:] == source[-1:]]
            if rng.random() < 0.7 and similar:
                put(value, rng.choice(similar), copy.deepcopy(_at(more, source)))
            elif rng.random() < 0.5:
                put(value, rng.choice(places), copy.deepcopy(rng.choice(ODD[:-3])))
        if isinstance(spec := job.get("spec"), dict) and isinstance(runtime.get("metadata"), dict):
            spec["runtimeRef"] = {"name": runtime["metadata"].get("name"), "kind": runtime["kind"]}
        return json.dumps(job) + "\n---\n" + json.dumps(runtime)

    def _of(self, kind: str) -> list[dict[str, Any]]:
        if kind not in self._kinds:
            texts = [text for text in self._texts if kind in text]
            documents = [one for text in texts for one in self._parsed(text)]
            self._kinds[kind] = [one for one in documents if str(one.get("kind")).endswith(kind)]
        return self._kinds[kind]

    def _odd(self, rng: random.Random, text: str, other: str) -> str:
        """Odd values, in the files of a job and of what it may refer to."""
        values = self._parsed(text) + (self._parsed(other) if rng.random() < 0.4 else [])
        for _ in range(rng.choice((1, 2, 3))):
            if places := list(paths(values)):
                put(values, rng.choice(places), copy.deepcopy(rng.choice(ODD)))
        try:
            return yaml.safe_dump_all(values)
        except (yaml.YAMLError, UnicodeError):
            return text


def _at(value: Any, path: Any) -> Any:
    for step in path:
        value = value[step]
    return value


def _lines(rng: random.Random, text: str, other: str) -> str:
    """Lines taken out, doubled, indented otherwise, or from another file."""
    lines, more = text.split("\n"), other.split("\n")
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines[at : at + rng.choice((1, 1, 5))] = []
            case 1:
                lines[at:at] = lines[at : at + rng.choice((1, 10))]
            case 2:
                lines[at] = " " * rng.randrange(9) + lines[at].lstrip()
            case 3:
                start = rng.randrange(len(more))
                lines[at:at] = more[start : start + rng.choice((1, 5, 20))]
            case _:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
        lines = lines or [""]
    return "\n".join(lines)


def _breaks(rng: random.Random, text: str, _: str) -> str:
    fresh, share = rng.choice(_BREAKS), rng.choice((1.0, 0.5, 0.05))
    return "".join(
        (fresh if rng.random() < share else "\n") if one == "\n" else one for one in text
    )


def _bytes(rng: random.Random, text: str, _: str) -> str:
    return damaged(rng, text.encode()).decode("utf-8", "replace")
