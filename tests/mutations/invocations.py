"""Command lines of the options that commands have, in a folder of pieces of real files.

Only commands that need no cluster: there is no kubeconfig. A path that a command may write to is
one of a few in the folder.
"""

import contextlib
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from etcompile import compile  # noqa: A004
from etcompile.cli.main import program
from etcompile.data import setting_schemas
from mutations import values
from mutations.generator import Generator
from mutations.odd import ODD, damaged
from mutations.recombination import Recombination

_COMMANDS = (
    *("render", "check", "diff", "scale", "graph") * 4,
    *("migrate", "krm") * 2,
    *("argocd generate", "argocd application", "flux kustomization"),
    *("flux source", "init", "config", "schema", "explain", "kinds"),
)
_PATHS = ("jobs", "jobs/a.yaml", "jobs/b.yaml", "out", "missing", "etcompile.toml", ".", "new",
          "overlay.yaml", "templates", "jobs/a.yaml/x", "a" * 300)  # fmt: skip
_TEXTS = [one for one in values.TEXTS if "\x00" not in one and one not in ("/", "..", "a/../b")]
"""Without those by which a command would read more than the folder."""
_NEEDED = {"scale": ("--to", "--add", "--remove", "--pods"), "diff": ("--against",)}
"""Options of which a command wants one."""
_LIKELY: dict[str, tuple[str, ...]] = {
    "--against": ("out", "jobs", "HEAD", "HEAD:jobs", "no-such-branch"),
    "--overlay": ("dev", "prod", "spot", "resilient", "overlay.yaml", "jobs/a.yaml"),
    "--runtimes": ("jobs", "jobs/b.yaml"),
    "--secret": (
        "runtime",
        "existing:keys",
        "external",
        "external:vault/x",
        "csi:x",
        "csi:",
        "sealed:cert.pem",
        "sealed:strict:jobs/a.yaml",
        "sops:age1x",
    ),
    "--kubernetes-version": ("1.25", "1.30", "v1.34.1", "1.99"),
    "--run": ("auto", "two", "A b"),
    "--ignore": ("ET2040", "ET2044,ET9032", "ET4002", "ET9"),
    "--environment": ("dev", "prod"),
    "--from-cluster": ("TrainJob/x",),
    "--dlrover-version": ("0.4.0", "0.6.1", "v1"),
    "--repository": ("https://example.com/a.git", "git@example.com:a/b"),
    "--timeout": ("5m", "1h", "0"),
    "--namespace": ("ml", "default"),
    "--path": ("jobs", "out"),
    "--pods": ("bert-worker-1", "a,b", "1"),
    "--templates": ("templates",),
    "--runtime": ("torch-distributed", "mpi-distributed"),
    "--ignore-differences": ("overlay.yaml",),
    "--plan": ("plan.json",),
    "--archive": ("new.tar.gz",),
    "--output-dir": ("out", "out", "new"),
    "CODE": ("ET2040", "2040", "ET9999"),
    "KIND": ("TrainingJob", "PyTorchJob", "TrainJob", "Overlay", "configuration", "plan"),
    "JOB": ("bert", "llama", "a", "mnist", "pytorch-simple"),
}


class Invocations:
    """Makes command lines and their folder, and runs them; the same ones for the same seed.

    Args:
        seed: Two of one seed and the same texts make the same ones.
        whole: The texts that it makes them of.
        folder: A folder to work in, which holds nothing else.
    """

    def __init__(
        self, seed: int, recombination: Recombination, whole: list[str], folder: Path
    ) -> None:
        self._seed, self._recombination, self._folder = seed, recombination, folder
        self._nearly_valid = Generator(seed)
        self.last: list[str] = []
        self._jobs = [text for text in whole if _compiles(text)]
        self._overlays = [text for text in whole if "kind: Overlay" in text]
        self._base = folder / "base"
        job = self._base / "jobs" / "a.yaml"
        job.parent.mkdir(parents=True)
        job.write_text(next(text for text in whole if "kind: TrainingJob" in text), "utf-8")
        self._call(["render", "jobs", "-d", "out"], b"", self._base)
        for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a"):
            subprocess.run(["git", *words.split()], cwd=self._base, check=True)

    def run(self, number: int) -> None:
        """Runs the command line of a number."""
        rng = random.Random(f"{self._seed}-{number}")
        here = self._folder / "here"
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(self._base, here, symlinks=True)
        self.last = words = self.words(rng)
        self._files(rng, number, here)
        data = (here / "jobs" / "a.yaml").read_bytes()
        named = re.search(rb"\bname: ([a-z0-9-]+)", data)
        if words[0] == "scale" and named and rng.random() < 0.8:
            words[1:2] = [named[1].decode()]
        self._call(words, resource_list(data, _config(rng)) if words[0] == "krm" else data, here)

    def words(self, rng: random.Random) -> list[str]:
        words = rng.choice(_COMMANDS).split()
        command: Any = program
        for word in words:
            command = command.get_command(click.Context(program), word)
        for argument in (one for one in command.params if isinstance(one, click.Argument)):
            count = rng.choice((1, 1, 1, 2, 0)) if argument.nargs != 1 else rng.random() < 0.95
            if argument.name == "paths" and rng.random() < 0.85:
                words.append("jobs" if rng.random() < 0.9 else "-")
            else:
                words += (_word(rng, argument) for _ in range(count))
        options = [one for one in command.params if isinstance(one, click.Option)]
        needed = [rng.choice(_NEEDED[words[0]])] if words[0] in _NEEDED else []
        wanted = [one for one in options if one.required or _name(one) in needed]
        wanted = wanted if rng.random() < 0.9 else []
        more = min(len(options), rng.choice((0, 0, 1, 1, 2, 4)))
        for option in (*wanted, *rng.sample(options, more)):
            if option.name == "config" and words[0] != "config":
                for key in rng.sample([*setting_schemas()], rng.choice((1, 1, 2, 3))):
                    words += ["--config", f"{key}={_value(rng, key)}"]
            else:
                words += [rng.choice(option.opts)]
                words += [] if option.is_flag else [_word(rng, option)]
        return words

    def _files(self, rng: random.Random, number: int, here: Path) -> None:
        for name in ("a", "b")[: rng.choice((1, 1, 1, 2))]:
            dice = rng.random()
            if dice < 0.6:
                data = rng.choice(self._jobs).encode("utf-8", "surrogatepass")
            elif dice < 0.8:
                documents = self._nearly_valid.input(number)
                data = "\n---\n".join(json.dumps(one, indent=1) for one in documents).encode()
            else:
                data = self._recombination.input(number)[:100_000]
            (here / "jobs" / f"{name}.yaml").write_bytes(data)
        if self._overlays and (rng.random() < 0.1 or "overlay.yaml" in self.last):
            overlay = rng.choice(self._overlays).encode("utf-8", "surrogatepass")
            overlay = damaged(rng, overlay) if rng.random() < 0.5 else overlay
            (here / "overlay.yaml").write_bytes(overlay)
        if rng.random() < 0.05 or "templates" in " ".join(self.last):
            shutil.copytree(_TEMPLATES, here / "templates")
            for file in rng.sample(sorted((here / "templates").glob("*.j2")), 2):
                file.write_bytes(_template(rng, file.read_bytes()))
        if rng.random() < 0.3:
            data = "".join(_settings(rng)).encode()
            data = damaged(rng, data) if rng.random() < 0.1 else data
            (here / "etcompile.toml").write_bytes(data)
        if rng.random() < 0.1:
            file = rng.choice(sorted(one for one in (here / "out").rglob("*") if one.is_file()))
            file.write_bytes(damaged(rng, file.read_bytes()))

    def _call(self, words: list[str], data: bytes, here: Path) -> None:
        os.chdir(here)
        with (
            Path(os.devnull).open("w", encoding="utf-8") as nothing,
            io.TextIOWrapper(io.BytesIO(data), "utf-8") as stdin,
            contextlib.redirect_stdout(nothing),
            contextlib.redirect_stderr(nothing),
            contextlib.suppress(SystemExit),
        ):
            sys.stdin = stdin
            try:
                program(words, prog_name="etcompile")
            except OSError as error:
                if error.filename is None:  # else it is told (`cli.main`)
                    raise
            finally:
                sys.stdin = sys.__stdin__


_TEMPLATES = Path(__file__).parents[2] / "templates"
_JINJA = (b"{{ x }}", b"{% for i in range(99) %}", b"{% endfor %}", b"{{ job.name }}",
          b"{{ 9**99 }}",
          b"{% include 'worker.sh.j2' %}", b"{{ '\\ud800' }}", b"{% if x.y.z %}", b"{%", b"}}",
          b"{{ [1]|map('x') }}", b"{% set x = x + 1 %}", b"{{ x|tojson }}")  # fmt: skip


def _template(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.3:
        return damaged(rng, data)
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(len(lines))
        lines[at] = rng.choice((rng.choice(_JINJA), lines[at] + rng.choice(_JINJA), b""))
    return b"\n".join(lines)


def _settings(rng: random.Random) -> Iterator[str]:
    for name in rng.sample([*setting_schemas()], rng.choice((1, 2, 4))):
        kind = setting_schemas()[name]["type"]
        value: Any = rng.random() < 0.5 if kind == "boolean" else _value(rng, name)
        value = [value] if kind == "array" else value
        if rng.random() < 0.15:
            value = rng.choice([one for one in ODD if one is not None and one != 10**400])
        if not isinstance(value, dict) and value != "é\ud83d":
            yield f"{name} = {json.dumps(value).replace('null', '[]')}\n"
    if rng.random() < 0.3:
        yield '[environments.dev]\ngang = "volcano"\n'


def _config(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, tuple[Any, ...]] = {
        "overlays": (["dev"], ["overlay.yaml"]),
        "runtimes": (["jobs"],),
        "templates": ("templates",),
        "inputs": (["jobs"],),
        "settings": ({"gang": "volcano"}, {"profiles": ["argocd"]}, {"secret": "existing:x"}),
        "namespace": ("ml",),
        "ignore": (["ET2040"],),
        "strict": (True,),
    }
    spec = {
        key: rng.choice(fields[key]) if rng.random() < 0.7 else rng.choice(ODD[:-3])
        for key in rng.sample(sorted(fields), rng.choice((0, 1, 2, 3)))
    }
    kind = rng.choice(("EtcompileTransformer", "EtcompileGenerator"))
    named = {"apiVersion": "etcompile.dev/v1alpha1", "kind": kind, "metadata": {"name": "t"}}
    return {**named, "spec": rng.choice((spec, spec, spec, rng.choice(ODD[:-3])))}


def resource_list(data: bytes, config: dict[str, Any] | None = None) -> bytes:
    """A ResourceList whose items are the documents of a text; those of a broken one are text."""
    head = b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"
    if config is not None:
        head += b"functionConfig: " + json.dumps(config).encode() + b"\n"
    parts = re.split(rb"(?m)^---.*$", data)
    items = (b"- " + part.strip().replace(b"\n", b"\n  ") + b"\n" for part in parts if part.strip())
    return head + b"items:\n" + b"".join(items)


def _compiles(text: str) -> bool:
    compilation = compile("-", stdin=io.BytesIO(text.encode("utf-8", "surrogatepass")))
    return compilation.ok and bool(compilation.objects)


def _name(option: click.Parameter) -> str:
    return max(option.opts, key=len)


def _value(rng: random.Random, key: str) -> str:
    """A value for a setting: a likely one for the most part."""
    schema = setting_schemas()[key]
    known = schema.get("items", schema).get("enum") or _LIKELY.get(f"--{key}", ())
    known = ("true", "false") if schema["type"] == "boolean" else known
    return rng.choice(known) if known and rng.random() < 0.85 else rng.choice(_TEXTS)


def _word(rng: random.Random, param: click.Parameter) -> str:
    """A value for an option or an argument: a likely one for the most part."""
    names = (_name(param), (param.metavar or "").strip("[]"))
    likely = next((_LIKELY[name] for name in names if name in _LIKELY), ())
    if isinstance(param.type, click.Choice) and rng.random() < 0.9:
        return rng.choice([*map(str, param.type.choices)])
    if isinstance(param.type, click.IntRange):
        return rng.choice(("0", "1", "2", "3", "8", "-1", "x", "1e3", "9" * 30))
    if likely and rng.random() < 0.85:
        return rng.choice(likely)
    if isinstance(param.type, click.Path) or (_is_path(names[1]) and rng.random() < 0.8):
        return rng.choice(_PATHS)
    return rng.choice(_TEXTS)


def _is_path(metavar: str) -> bool:
    return any(word in metavar for word in ("FILE", "DIR", "PATH"))
