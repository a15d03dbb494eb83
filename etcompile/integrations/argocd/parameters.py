"""The parameters of the plugin, read from the files that Argo CD's interface reads.

A parameter has the name of the option of `etcompile render` that it becomes. Two options are not
offered: `templates` would let a repository run code in the plugin's container, and
`allow-plain-secrets` would let Secrets pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from etcompile import data

_NO_OPTIONS = frozenset({"paths", "images", "labels"})
_SETTINGS = frozenset(
    {
        "cluster-domain",
        "dlrover-version",
        "gang-scheduler",
        "ignore-managed-by",
        "init-image",
        "kubectl-image",
        "kubernetes-version",
        "services",
        "skip-managed-by",
    }
)
"""Parameters that are settings without an option of their own."""


class Parameter(Struct, frozen=True):
    """A parameter.

    Args:
        name: Its name, as in an Application.
        form: What its value is: string, boolean, array or map.
        option: The option of `etcompile render` that it becomes; None for what is no option.
        announcement: The parameter as Argo CD's interface reads it.
        names_files: Whether its values are paths, which must not lead out of the repository.
    """

    name: str
    form: str
    option: str | None
    announcement: Mapping[str, Any]
    names_files: bool


def plugin_file() -> Path:
    """The plugin.yaml of the sidecar."""
    return data.folder("templates") / "argocd/plugin.yaml"


def announced(found: Mapping[str, Sequence[str]], *, every: bool) -> list[dict[str, Any]]:
    """The announcement of parameters, as Argo CD's interface reads it.

    Args:
        found: What there is to choose from in this repository, by the parameter's name.
        every: Also those that plugin.yaml declares.
    """
    announcements = []
    for parameter in PARAMETERS:
        if every or parameter.names_files:
            choices = found.get(parameter.name, ())
            there = f" There are: {', '.join(choices)}." if choices else ""
            tooltip = parameter.announcement["tooltip"] + there
            announcements.append({**parameter.announcement, "tooltip": tooltip})
    return announcements


def _parameters() -> Iterator[Parameter]:
    plugin = plugin_file()
    dynamic = _read(plugin.with_name("dynamic-parameters.yaml"))
    static = _read(plugin)["spec"]["parameters"]["static"]
    for announcement in (*dynamic, *static):
        name = announcement["name"]
        form = announcement.get("collectionType") or announcement.get("itemType", "string")
        option = f"--config={name}" if name in _SETTINGS else f"--{name}"
        yield Parameter(
            name=name,
            form=form,
            option=None if name in _NO_OPTIONS else option,
            announcement=announcement,
            names_files=announcement in dynamic,
        )


def _read(file: Path) -> Any:
    return msgspec.yaml.decode(file.read_bytes())


PARAMETERS = tuple(_parameters())
"""All parameters; those that name files first."""
