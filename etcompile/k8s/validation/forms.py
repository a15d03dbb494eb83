"""The forms of texts that the API server knows, by the names that `rules.yaml` gives them."""

import re
from collections.abc import Callable, Mapping

from etcompile.k8s.names import (
    is_key,
    is_label,
    is_label_value,
    is_port_name,
    is_service_name,
    is_subdomain,
)

# Texts, as most runs need few of them compiled.
_DATA_KEY = r"(?a)[-._a-zA-Z0-9]{1,253}"
_VARIABLE = r"[ -<>-~]+"
"""Printable ASCII without '=': the rule since 1.32; older versions allow less."""
_OLD_VARIABLE = r"(?a)(?!\.\.)(?!\.$)[-._a-zA-Z][-._a-zA-Z0-9]*"
_HEADER = r"(?a)[-A-Za-z0-9]+"
_SYSCTL = r"(?a)([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = r"(?a)[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*"
_INDEXES = r"(?a)([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?"
_DECIMAL = r"(?a)[0-9]{1,16}"
_SUBSCRIPT = r"(?s)(?P<path>[^\[]+)\['(?P<key>.*)'\]"
_FIELDS = frozenset(
    {
        *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.host"),
        *("spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"),
        "status.podIPs",
    }
)
_VOLUME_FIELDS = frozenset(
    {
        *("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations"),
        "metadata.uid",
    }
)
_AMOUNTS = frozenset(
    f"{field}.{name}"
    for field in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def is_segment(text: str) -> bool:
    """Whether a text can be a part of a URL's path, as names of Roles must."""
    return text not in ("", ".", "..") and "/" not in text and "%" not in text


def is_data_key(text: str) -> bool:
    """Whether a text can be a key of a ConfigMap or Secret."""
    named = re.fullmatch(_DATA_KEY, text) is not None
    return named and text != "." and not text.startswith("..")


def is_inside(text: str) -> bool:
    """Whether a path stays inside the folder it starts from."""
    return not text.startswith("/") and ".." not in text.split("/")


def is_address(text: str) -> bool:
    """Whether a text is an IP address as the API server reads those: zeros may lead."""
    parts = text.split(".")
    if len(parts) == 4 and all(re.fullmatch(_DECIMAL, part) for part in parts):
        return all(int(part) <= 255 for part in parts)
    if ":" not in text or "%" in text:
        return False
    import ipaddress  # noqa: PLC0415 - few Pods name addresses

    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_range(text: str) -> bool:
    """Whether a text is a range of addresses: `10.0.0.0/8`."""
    base, _, bits = text.strip().partition("/")
    most = 128 if ":" in base else 32
    return is_address(base) and re.fullmatch(_DECIMAL, bits) is not None and int(bits) <= most


def is_search_domain(text: str) -> bool:
    """Whether a text is a DNS search domain: underscores are allowed, and a dot at the end."""
    short = text.removesuffix(".")
    return text == "." or (len(short) <= 253 and re.fullmatch(_SEARCH, short) is not None)


def is_old_variable(text: str) -> bool:
    """Whether a text is a variable before 1.32, or none at all, which another rule says."""
    return re.fullmatch(_OLD_VARIABLE, text) is not None or re.fullmatch(_VARIABLE, text) is None


def _names_field(text: str, known: frozenset[str]) -> bool:
    if match := re.fullmatch(_SUBSCRIPT, text):
        key = match["key"]
        if match["path"] == "metadata.annotations":
            return is_key(key.lower())
        return match["path"] == "metadata.labels" and is_key(key)
    return text in known


def is_amount(text: str) -> bool:
    """Whether a text names an amount of a container that can be told to it."""
    return text in _AMOUNTS or text.startswith(("limits.hugepages-", "requests.hugepages-"))


FORMS: Mapping[str, Callable[[str], bool]] = {
    "absolute path": lambda text: text.startswith("/"),
    "address": is_address,
    "address or None": lambda text: text == "None" or is_address(text),
    "amount": is_amount,
    "annotation key": lambda text: is_key(text.lower()),
    "data key": is_data_key,
    "driver": lambda text: len(text) <= 63 and is_subdomain(text.lower()),
    "field of a container": lambda text: _names_field(text, _FIELDS),
    "field of a volume": lambda text: _names_field(text, _VOLUME_FIELDS),
    "file path": lambda text: is_inside(text) and not text.startswith(".."),
    "finalizer": lambda text: text in _FINALIZERS or ("/" in text and is_key(text)),
    "header": lambda text: re.fullmatch(_HEADER, text) is not None,
    "image without blanks": lambda text: text == text.strip(),
    "indexes": lambda text: re.fullmatch(_INDEXES, text) is not None,
    "inside path": is_inside,
    "key": is_key,
    "key with a domain": lambda text: "/" in text and is_key(text),
    "label": is_label,
    "label value": is_label_value,
    "path segment": is_segment,
    "path without dots": lambda text: ".." not in text.split("/"),
    "port name": is_port_name,
    "range of addresses": is_range,
    "search domain": is_search_domain,
    "service name": is_service_name,
    "subdomain": is_subdomain,
    "sysctl": lambda text: len(text) <= 253 and re.fullmatch(_SYSCTL, text) is not None,
    "variable": lambda text: re.fullmatch(_VARIABLE, text) is not None,
    "variable before 1.32": is_old_variable,
}
"""Whether a text has a form."""
