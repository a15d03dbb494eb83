"""Compute SHA-256 without importing `hashlib`.

hashlib binds all of OpenSSL, which takes 3 % of the time of a small render. Python's `random`
imports the same lean module, for the same reason.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def _lean() -> Callable[[bytes], Any]:
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            constructor: Callable[[bytes], Any] = import_module(name).sha256
        except ImportError:
            continue
        return constructor
    raise ImportError("hashlib")


_SHA256 = _lean()


def sha256(content: bytes) -> str:
    digest: str = _SHA256(content).hexdigest()
    return digest
