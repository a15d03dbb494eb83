"""Kubernetes objects as values: what YAML or JSON makes of a manifest or of an answer."""

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]
"""An object that is only read: a manifest, or what was compiled."""

LiveObject = dict[str, Any]
"""An object of whoever holds it: an answer of the API server, or one that is being made."""
