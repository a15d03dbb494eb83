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


def parts_of(image: str) -> tuple[str, str, str]:
    """The name of an image, its tag and its digest; empty where it has none."""
    rest, _, digest = image.partition("@")
    name, colon, tag = rest.rpartition(":")
    return (name, tag, digest) if colon and "/" not in tag else (rest, "", digest)  # of a port


def reference_problem(image: str) -> str | None:
    """Why no runtime can pull an image of this name."""
    if any(map(str.isspace, image)):
        return "it contains a blank"
    if match := re.match(_SCHEME, image):
        return f"it begins with '{match[0]}'"
    name, tag, digest = parts_of(image)
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
