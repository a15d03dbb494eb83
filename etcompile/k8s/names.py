"""The grammars of names in Kubernetes: what objects, labels, their values and ports may be called.

As in k8s.io/apimachinery, pkg/util/validation. Whoever refuses a name says what it is the name of.
"""

import re

from etcompile.model.run_identity import LONGEST_RUN

_LABEL = r"(?a)[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"(?a)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"(?a)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PORT_NAME = r"(?a)[-a-z0-9]{1,15}"


def is_label(text: str) -> bool:
    """Whether a text is a DNS label: `worker-0`."""
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def is_run(text: str) -> bool:
    """Whether a text can be the ID of a run, which is a part of the names of its Pods."""
    return is_label(text) and len(text) <= LONGEST_RUN


def is_service_name(text: str) -> bool:
    """Whether a text is a DNS label that begins with a letter, as names of Services are."""
    return is_label(text) and text[:1].isalpha()


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS subdomain: `a.example.com`."""
    return len(text) <= 253 and re.fullmatch(_SUBDOMAIN, text) is not None


def is_key(text: str) -> bool:
    """Whether a text is a qualified name, as keys of labels are: `example.com/team`."""
    domain, slash, name = text.rpartition("/")
    named = len(name) <= 63 and re.fullmatch(_NAME, name) is not None
    return named and (not slash or is_subdomain(domain))


def is_label_value(text: str) -> bool:
    """Whether a text can be the value of a label."""
    return not text or (len(text) <= 63 and re.fullmatch(_NAME, text) is not None)


def is_port_name(text: str) -> bool:
    """Whether a text can be the name of a port."""
    return (
        re.fullmatch(_PORT_NAME, text) is not None
        and "--" not in text
        and not text.startswith("-")
        and not text.endswith("-")
        and any(map(str.isalpha, text))
    )
