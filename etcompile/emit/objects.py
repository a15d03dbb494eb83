"""Kind, name, namespace, labels and annotations of any Kubernetes object.

Objects of unknown kinds are not checked before they are ordered. So these functions accept whatever
stands in the metadata.
"""

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]
"""A Kubernetes object as a JSON value."""


def kind(manifest: Manifest) -> str:
    """The object's kind."""
    return _text(manifest.get("kind"))


def api_version(manifest: Manifest) -> str:
    """The object's API group and version."""
    return _text(manifest.get("apiVersion"))


def name(manifest: Manifest) -> str:
    """The object's name, or what the API server makes one from."""
    metadata = _mapping(manifest.get("metadata"))
    return _text(metadata.get("name")) or _text(metadata.get("generateName"))


def namespace(manifest: Manifest) -> str:
    """The object's namespace; empty if it names none."""
    return _text(_mapping(manifest.get("metadata")).get("namespace"))


def label(manifest: Manifest, key: str) -> str:
    """One of the object's labels; empty if it is not there."""
    return _text(_mapping(_mapping(manifest.get("metadata")).get("labels")).get(key))


def annotations(manifest: Manifest) -> Mapping[str, Any]:
    """All of the object's annotations, whatever their values are."""
    return _mapping(_mapping(manifest.get("metadata")).get("annotations"))


def _mapping(value: Any) -> Mapping[str, Any]:
    # A dict is told from the rest much sooner than a Mapping is.
    return value if isinstance(value, dict | Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
