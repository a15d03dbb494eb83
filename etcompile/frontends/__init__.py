"""Find the kind of a document among all kinds that etcompile reads.

Each kind is a module, in a package for each system. A module is named after its kinds in lower case
(`tfjob`, `scaleout_scalein`, or `mpijob_v2` if two API versions have little in common) and lists
them in `KINDS`; there is no other list. So a run imports only the modules of the kinds in its
input. A frontend knows its kind and the model, nothing else. Systems share the modules here.
"""

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from etcompile.diagnostics import ValuePath
from etcompile.diagnostics.spelling import probably
from etcompile.frontends.kind import Kind, names_of

__all__ = [
    "Kind",
    "find",
    "jobs_called",
    "jobs_inside",
    "kinds",
    "kinds_of",
    "meant_version",
    "older_versions",
    "served_versions",
]


@functools.cache
def kinds() -> tuple[Kind, ...]:
    modules = dict.fromkeys(module for modules in _modules().values() for module in modules)
    return tuple(sorted(_in_modules(modules), key=lambda kind: (kind.api_version, kind.name)))


def find(api_version: str | None, name: str | None) -> Kind | None:
    return next((k for k in _named(name or "") if k.api_version == api_version), None)


def jobs_called(word: str) -> tuple[Kind, ...]:
    """Return the kinds of jobs that kubectl means by a word: `mpijob`, `MPIJobs.kubeflow.org`."""
    kind, dot, rest = word.lower().partition(".")
    called = f"{kind.removesuffix('s')}{dot}{rest}"
    return tuple(
        known
        for known in kinds()
        if known.pod_templates and called in names_of(known.api_version, known.name.lower())
    )


_GROUPS = ("kubeflow.org", "kai.alibabacloud.com", "elastic.iml.github.io")
_KIND = re.compile(r"""\bkind["']?[ \t]*:[ \t]*["']?(\w+)""")
_NO_JOBS = frozenset({"ConfigMap", "Secret", "CustomResourceDefinition"})
"""Kinds in which the text of a job is data for an unknown program."""


def jobs_inside(data: Any, path: ValuePath = ()) -> Iterator[tuple[ValuePath, str]]:
    """Yield the path and kind of jobs inside another object, such as a workflow."""
    if not path and data.get("kind") in _NO_JOBS:
        return
    for key, value in enumerate(data) if isinstance(data, list) else data.items():
        names: list[str] = []
        if isinstance(value, str) and "spec" in value and any(group in value for group in _GROUPS):
            named = _KIND.findall(value)
            names = [name for name in named if any(k.pod_templates for k in _named(name))]
        elif isinstance(value, dict) and "spec" in value:
            kind = find(str(value.get("apiVersion")), str(value.get("kind")))
            names = [kind.name] if kind and kind.pod_templates else []
        yield from (((*path, key), name) for name in dict.fromkeys(names))
        if not names and isinstance(value, dict | list):
            yield from jobs_inside(value, (*path, key))


def is_known(name: str) -> bool:
    return bool(_named(name))


class OlderVersion(msgspec.Struct, frozen=True):
    """An older API version of a kind; the head of `older_versions.yaml` describes the fields."""

    kind: str
    version: str
    today: str = ""
    steps: str = ""


_OLDER_VERSIONS = msgspec.json.Decoder(tuple[OlderVersion, ...])


@functools.cache
def older_versions(name: str) -> tuple[OlderVersion, ...]:
    if not is_known(name):
        return ()
    text = Path(__file__).with_name("older_versions.yaml").read_text("utf-8")
    rows = _OLDER_VERSIONS.decode(msgspec.json.encode(msgspec.yaml.decode(text)))
    return tuple(row for row in rows if row.kind == name)


def served_versions(api_version: str, name: str) -> tuple[str, ...]:
    group = api_version.partition("/")[0]
    return tuple(k.api_version for k in _named(name) if k.group == group)


def meant_version(api_version: str, name: str) -> str | None:
    """Return the API version that was probably meant for a known kind in an unknown group.

    Another project may have a kind of the same name, so only a similar group, or none at all, is a
    typo.
    """
    group, slash, version = api_version.lower().rpartition("/")
    for kind in sorted(_named(name), key=lambda kind: not kind.api_version.endswith(f"/{version}")):
        brand = max(kind.group.split("."), key=len)
        if not slash or brand in group.split(".") or probably(group, (kind.group,)):
            return kind.api_version
    return None


def kinds_of(group: str) -> tuple[str, ...]:
    if "." not in group or group.endswith(".k8s.io"):  # a group of Kubernetes: import nothing
        return ()
    return tuple(sorted({k.name for k in kinds() if k.group == group}))


def _named(name: str) -> list[Kind]:
    return [kind for kind in _in_modules(_modules().get(name.lower(), ())) if kind.name == name]


@functools.cache
def _modules() -> Mapping[str, Sequence[str]]:
    """Return the modules of all packages by each word of their names, without importing them."""
    modules: dict[str, list[str]] = {}
    packages = [package.name for package in pkgutil.iter_modules(__path__) if package.ispkg]
    for package in sorted(packages):
        for module in pkgutil.iter_modules([f"{path}/{package}" for path in __path__]):
            for word in module.name.split("_"):
                modules.setdefault(word, []).append(f"{package}.{module.name}")
    return modules


def _in_modules(names: Iterable[str]) -> list[Kind]:
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return [kind for module in modules for kind in getattr(module, "KINDS", ())]
