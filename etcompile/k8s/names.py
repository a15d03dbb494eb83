"""Check names of objects, labels, their values, ports and container images.

The rules are those of k8s.io/apimachinery, pkg/util/validation. Messages name the subject, so none
of these functions does.
"""

import re

from etcompile.model.run_identity import LONGEST_RUN

_LABEL = r"(?a)[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"(?a)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"(?a)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PORT_NAME = r"(?a)[-a-z0-9]{1,15}"


def is_label(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def is_run(text: str) -> bool:
    """Check the ID of a run, which becomes part of the names of its Pods."""
    return is_label(text) and len(text) <= LONGEST_RUN


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(_SUBDOMAIN, text) is not None


def is_key(text: str) -> bool:
    """Check a qualified name, as keys of labels are: `example.com/team`."""
    domain, slash, name = text.rpartition("/")
    named = len(name) <= 63 and re.fullmatch(_NAME, name) is not None
    return named and (not slash or is_subdomain(domain))


def is_label_value(text: str) -> bool:
    return not text or (len(text) <= 63 and re.fullmatch(_NAME, text) is not None)


def is_port_name(text: str) -> bool:
    return (
        re.fullmatch(_PORT_NAME, text) is not None
        and "--" not in text
        and not text.startswith("-")
        and not text.endswith("-")
        and any(map(str.isalpha, text))
    )


# Images -------------------------------------------------------------------------------------------

_HOST = (
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
    r"(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r"(?a)\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_SCHEME = r"[a-z][a-z0-9+-]*://"
_LONGEST_IMAGE = 255


def image_parts(image: str) -> tuple[str, str, str]:
    """Split an image into name, tag and digest, each empty if absent."""
    rest, _, digest = image.partition("@")
    name, colon, tag = rest.rpartition(":")
    return (name, tag, digest) if colon and "/" not in tag else (rest, "", digest)  # a port's colon


def image_problem(image: str) -> str | None:
    """Say why no runtime can pull this image; None if one can."""
    if any(map(str.isspace, image)):
        return "it contains a blank"
    if match := re.match(_SCHEME, image):
        return f"it begins with '{match[0]}'"
    name, tag, digest = image_parts(image)
    of_digest = r"sha256:[0-9a-f]{64}" if digest.startswith("sha256:") else _DIGEST
    if "@" in image and not re.fullmatch(of_digest, digest):
        return f"'{digest}' is not a digest"
    if tag and not re.fullmatch(_TAG, tag):
        return f"'{tag}' is not a tag"
    if image.startswith(f"{name}:") and not tag:
        return "its tag is empty"
    if not name:
        return "it has no name"
    parts = name.split("/")
    if not all(parts):
        return "a part of it is empty: it has a '/' too many"
    if len(name) > _LONGEST_IMAGE:
        return f"its name is longer than {_LONGEST_IMAGE} characters"
    first = parts[0]
    if len(parts) > 1 and (first == "localhost" or "." in first or ":" in first):
        if not re.fullmatch(_HOST, first):
            return f"'{first}' is not a registry"
        parts = parts[1:]
    for part in parts:
        if not re.fullmatch(_PART, part):
            upper = part != part.lower() and re.fullmatch(_PART, part.lower())
            return f"'{part}' has upper-case letters" if upper else f"'{part}' is not a name"
    return None
