"""The checks of terms that select nodes, which Pods and PersistentVolumes have.

Apart from the tables, whose examples differ, so that one place decides what a term may say.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.rule import Broken, Subject

Requirement = Mapping[str, Any]


def _is_single(requirement: Requirement) -> bool:
    values = requirement.get("values")
    return isinstance(values, list) and len(values) == 1


def compares_several(requirement: Requirement, _: Subject) -> bool:
    """Whether a comparison of a label has no number, or many, to compare with."""
    return requirement.get("operator") in ("Gt", "Lt") and not _is_single(requirement)


def operator_of_labels(requirement: Requirement, _: Subject) -> bool:
    """Whether a field is asked what only labels can be asked."""
    return requirement.get("operator") in ("Exists", "DoesNotExist", "Gt", "Lt")


def no_single_name(requirement: Requirement, _: Subject) -> bool:
    """Whether a field is compared with no value, or with many."""
    return requirement.get("operator") in ("In", "NotIn") and not _is_single(requirement)


def unknown_field(requirement: Requirement, _: Subject) -> Iterator[Broken]:
    """A field that nodes cannot be selected by."""
    key = requirement.get("key")
    if isinstance(key, str) and key != "metadata.name":
        yield Broken(("key",))


def bad_name(requirement: Requirement, _: Subject) -> Iterator[Broken]:
    """Names that no node can have."""
    for index, name in forms.texts(requirement, "values"):
        if requirement.get("key") == "metadata.name" and not is_subdomain(name):
            yield Broken(("values", index))
