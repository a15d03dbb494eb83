"""The API server's validation of the kinds that etcompile makes, Pods apart; metadata of any kind.

What passes through is held to its schema and to the rules of metadata only: the API server says the
rest, and `apply` asks it before it changes anything. Only the module of a kind that is there is
imported.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.validation.objects import metadata
from etcompile.k8s.validation.objects.kind import Kind
from etcompile.k8s.validation.rule import Path, Rule, Subject
from etcompile.k8s.validation.tree import Problem, Tree, problems, tree

__all__ = ["FAMILIES", "Kind", "kind_of", "metadata_rules", "object_problems", "templates_of"]

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "access": ("Role", "RoleBinding"),
    "config": ("ConfigMap", "Secret", "ServiceAccount"),
    "jobs": ("Job",),
    "services": ("Service",),
    "volumeclaims": ("PersistentVolumeClaim",),
}
"""The kinds of each module."""
_MODULES = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}


def object_problems(
    value: Mapping[str, Any], minor: int, *, namespaced: bool = True
) -> Iterator[Problem]:
    """What the API server would refuse in an object, Pod templates apart.

    Args:
        value: An object of any kind; what has the wrong type is passed over.
        minor: The minor version of Kubernetes: 34 for 1.34.
        namespaced: Whether its namespace means anything.

    Yields:
        A problem for each place where a rule is broken.
    """
    subject = Subject(value, minor=minor)
    table = _table(str(value.get("apiVersion")), str(value.get("kind")), namespaced=namespaced)
    yield from problems(table, subject)


def templates_of(value: Mapping[str, Any]) -> tuple[Path, ...]:
    """Where an object has Pod templates.

    Args:
        value: An object of any kind.
    """
    found = kind_of(str(value.get("apiVersion")), str(value.get("kind")))
    return found.templates if found else ()


@functools.lru_cache(maxsize=1024)
def kind_of(api_version: str, kind: str) -> Kind | None:
    """The validation of a kind; None if nothing is known of it.

    Args:
        api_version: As an object has it.
        kind: As an object has it.
    """
    if kind not in _MODULES:
        return None
    module = importlib.import_module(f"{__name__}.{_MODULES[kind]}")
    name = f"{api_version}/{kind}"
    return next((candidate for candidate in module.KINDS if name in candidate.names), None)


def metadata_rules(form: str, *, namespaced: bool) -> tuple[Rule, ...]:
    """The rules for the metadata of a kind.

    Args:
        form: What its names must be, as in `Kind`.
        namespaced: Whether its namespace means anything.
    """
    rules = (*metadata.RULES, *metadata.name_rules(form))
    return (*rules, *metadata.NAMESPACE_RULES) if namespaced else rules


@functools.lru_cache(maxsize=1024)
def _table(api_version: str, kind: str, *, namespaced: bool) -> Tree:
    if kind.endswith(("Review", "List")) or kind == "TokenRequest":
        return tree(())  # a question to the API server
    if (api_version, kind) == ("v1", "Pod"):
        return tree((*metadata.name_rules("subdomain"), *metadata.NAMESPACE_RULES))
    found = kind_of(api_version, kind)
    group = api_version.rpartition("/")[0]
    is_custom = "." in group and not group.endswith(".k8s.io")
    form = found.form if found else "subdomain" if is_custom else "segment"
    rules = metadata_rules(form, namespaced=namespaced)
    return tree((*rules, *(found.rules if found else ())))
