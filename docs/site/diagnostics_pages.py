"""The pages of `docs/diagnostics`, which the catalogue of diagnostics becomes."""

from collections.abc import Iterable, Mapping

from etcompile.diagnostics import Rule
from etcompile.diagnostics.rule_text import as_markdown, page_of

_GROUPS = {
    "ET1": "Loading files",
    "ET2": "The specification of a job",
    "ET3": "Scaling",
    "ET4": "Kubernetes objects",
    "ET5": "Output",
    "ET6": "Overlays",
    "ET7": "Plans and capacity",
    "ET8": "The cluster",
    "ET9": "Advice about training",
}
"""What the first characters of a code stand for."""

_INDEX = """\
# Diagnostics

`etcompile explain ET2003`, or `etcompile explain replicas-above-max`, prints a section of these
pages. `etcompile explain` lists all codes and names.

An error stops the run before anything is written. A warning does so only with `--strict`;
[Checks](../checks.md) shows how to ignore one.

| codes | about |
|---|---|
"""

_BY_NAME = """
## By name

"""


def _name(rule: Rule) -> str:
    return rule.name


def pages(rules: Iterable[Rule]) -> Mapping[str, str]:
    """Return the pages of `docs/diagnostics` by file name: the index, then one a group."""
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(rule.code[:3], []).append(rule)
    rows = [f"| [{group}xxx]({page_of(group)}) | {_GROUPS[group]} |\n" for group in groups]
    every = sorted((rule for members in groups.values() for rule in members), key=_name)
    names = [
        f"- [{rule.name}]({page_of(rule.code)}#{rule.code.lower()}) {rule.code}\n" for rule in every
    ]
    texts = {"README.md": "".join([_INDEX, *rows, _BY_NAME, *names])}
    for group, members in groups.items():
        # The code alone: the heading is the address of the section.
        sections = [f"## {rule.code}\n\n{as_markdown(rule)}\n" for rule in members]
        texts[page_of(group)] = "\n".join([f"# {group}xxx: {_GROUPS[group]}\n", *sections])
    return texts
