"""The API server's rules for the metadata of any object, custom resources included.

Apart from the kinds because only the form of the name differs between them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_key, is_label, is_service_name, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.objects.checks import SEGMENT_ADVICE, is_segment, labels
from etcompile.k8s.validation.rule import Broken, Rule, Subject

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes: keys and values of all annotations of one object."""

_FORMS: dict[str, tuple[Callable[[str], bool], str, str]] = {
    "subdomain": (is_subdomain, "a DNS subdomain", forms.SUBDOMAIN_ADVICE),
    "label": (is_label, "a DNS label", forms.LABEL_ADVICE),
    "service": (
        is_service_name,
        "a DNS label that begins with a letter",
        forms.LABEL_ADVICE,
    ),
    "segment": (is_segment, "a valid name", SEGMENT_ADVICE),
}


def name_rules(form: str) -> tuple[Rule, ...]:
    """The rules for the names of a kind.

    Args:
        form: What a name must be, as in `Kind`.
    """
    check, what, advice = _FORMS[form]
    breaks = "a/b" if form == "segment" else "A b"

    def bad_prefix(value: str, _: Subject) -> bool:
        return value != "" and not check(f"{value[:-1]}a" if value.endswith("-") else value)

    return (
        Rule(
            "metadata.name",
            forms.unless_empty_or(check),
            f"'{{value}}' is not {what}",
            breaks=breaks,
            takes="ab",
            advice=advice,
            on=str,
        ),
        Rule(
            "metadata.generateName",
            bad_prefix,
            f"'{{value}}' does not begin {what}",
            breaks=breaks,
            takes="ab-",
            advice=advice,
            on=str,
        ),
    )


def _bad_annotations(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for key in value:
        if not is_key(key.lower()):
            yield Broken((key,), {"key": key}, at_key=True)


def _too_large(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    pairs = ((key, text) for key, text in value.items() if isinstance(text, str))
    size = sum(len(key.encode("utf-8", "replace")) + len(text.encode("utf-8", "replace"))
               for key, text in pairs)  # fmt: skip
    if size > ANNOTATIONS_LIMIT:
        yield Broken((), {"size": -(-size // 1024)}, at_key=True)


NAMESPACE_RULES = (
    Rule(
        "metadata.namespace",
        forms.unless_empty_or(is_label),
        "'{value}' is not a DNS label",
        breaks="A b",
        takes="default",
        advice=forms.LABEL_ADVICE,
        on=str,
    ),
)
RULES = (
    *labels("metadata.labels"),
    Rule(
        "metadata.annotations",
        _bad_annotations,
        "'{key}' is not a valid key",
        breaks="{A b: x}",
        takes="{Ab: x}",
        advice=forms.KEY_ADVICE,
    ),
    Rule(
        "metadata.annotations",
        _too_large,
        "has {size} KiB of annotations; the API server allows 256 KiB",
        breaks="{a: !repeat [x, 262144]}",
        takes="{a: !repeat [x, 262143]}",
        advice="keep large texts in a ConfigMap",
    ),
)
