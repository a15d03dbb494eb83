"""Names of container images: whether a runtime can pull them at all, and why not.

The grammar is that of the reference package of the CNCF project Distribution, which containerd,
CRI-O and Docker share. Kubernetes itself takes any text: a Pod with a name that is none is
created, and stays in InvalidImageName for ever.
"""

import re

_HOST = (
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
    r"(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = r"(?a)\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_SCHEME = r"[a-z][a-z0-9+-]*://"
_LONGEST = 255


def reference_problem(image: str) -> str | None:
    """Why no runtime can pull an image of this name.

    Returns:
        What is wrong with it; None if nothing is.
    """
    if any(map(str.isspace, image)):
        return "it contains a blank"
    if match := re.match(_SCHEME, image):
        return f"it begins with '{match[0]}'"
    rest, at, digest = image.partition("@")
    if at and not _is_digest(digest):
        return f"'{digest}' is not a digest"
    name, tag = _tagged(rest)
    if tag is not None and not re.fullmatch(_TAG, tag):
        return "its tag is empty" if not tag else f"'{tag}' is not a tag"
    return _name_problem(name)


def _tagged(text: str) -> tuple[str, str | None]:
    """A name and its tag; a colon before a slash is that of a port."""
    name, colon, tag = text.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (text, None)


def _is_digest(text: str) -> bool:
    if text.startswith("sha256:"):
        return re.fullmatch(r"sha256:[0-9a-f]{64}", text) is not None
    return re.fullmatch(_DIGEST, text) is not None


def _name_problem(name: str) -> str | None:
    if not name:
        return "it has no name"
    parts = name.split("/")
    if not all(parts):
        return "a part of it is empty: it has a '/' too many"
    if len(name) > _LONGEST:
        return f"its name is longer than {_LONGEST} characters"
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
