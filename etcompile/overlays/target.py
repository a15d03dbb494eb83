"""What an entry of an overlay applies to.

Apart from what is done there, so that every entry selects in the same words, those of kustomize.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, field

from etcompile.k8s.path import mapping_at
from etcompile.model.protocol import ROLE_LABEL


class Target(Struct, frozen=True):
    """A selection of documents and objects; what is None selects all.

    Args:
        api_version: `group/version`.
        name: A glob over names.
        namespace: The namespace; an object without one is in `default`.
        labels: Labels that it must have, to globs over their values.
        role: The replica's role: of a job document its Pod template, of an object its label.
    """

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    role: str | None = None

    def selects(self, value: Mapping[str, Any]) -> bool:
        """Whether it selects an object, whose role is that of its label."""
        labels = (value.get("metadata") or {}).get("labels")
        found = labels.get(ROLE_LABEL) if isinstance(labels, dict) else None
        return self.selects_document(value) and self.role in (None, found)

    def selects_document(self, value: Mapping[str, Any], default: str | None = None) -> bool:
        """Whether it selects a document, whatever roles that has.

        Args:
            value: The document.
            default: The namespace of a document that names none.
        """
        metadata = mapping_at(value, ("metadata",))
        labels = mapping_at(metadata, ("labels",))
        return (
            self.api_version in (None, value.get("apiVersion"))
            and self.kind in (None, value.get("kind"))
            and (self.name is None or fnmatchcase(str(metadata.get("name", "")), self.name))
            and self.namespace in (None, metadata.get("namespace") or default or "default")
            and all(_matches(labels.get(key), pattern) for key, pattern in self.labels.items())
        )

    def __str__(self) -> str:
        words = [self.kind or "anything"]
        words += [f"named '{self.name}'"] if self.name else []
        words += [f"of role '{self.role}'"] if self.role else []
        words += [f"in namespace '{self.namespace}'"] if self.namespace else []
        words += [f"labelled {key}={text}" for key, text in self.labels.items()]
        return " ".join(words)


def _matches(value: object, glob: str) -> bool:
    return isinstance(value, str) and fnmatchcase(value, glob)


def target_of(value: Mapping[str, Any]) -> Target:
    """The target that an overlay writes as `value`."""
    return Target(
        api_version=value.get("apiVersion"),
        kind=value.get("kind"),
        name=value.get("name"),
        namespace=value.get("namespace"),
        labels=value.get("labels") or {},
        role=value.get("role"),
    )


def target_value(target: Target) -> dict[str, Any]:
    """A target as an overlay writes it."""
    given = {
        "apiVersion": target.api_version,
        "kind": target.kind,
        "name": target.name,
        "namespace": target.namespace,
        "labels": dict(target.labels),
        "role": target.role,
    }
    return {name: text for name, text in given.items() if text}
