"""Where a role writes its checkpoints, as far as its fields tell.

Three rules ask, one for each place that does not outlive the Pod or its node.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from etcompile.diagnostics import Location
from etcompile.lint.commands import Given
from etcompile.lint.facts import Mounted, mounted_at, variables
from etcompile.lint.subject import RolePods

_NAMED = re.compile(r"checkpoint|ckpt", re.IGNORECASE)
_READ_ONLY = re.compile(
    r"init|pretrain|load|base|from|resume|restore|convert|eval|import|gradient|activation",
    re.IGNORECASE,
)
"""Words in the names of options that name a checkpoint to begin from, or none."""


class Checkpoints(Struct, frozen=True):
    """A place for checkpoints.

    Args:
        said: What says that checkpoints go there, for a message.
        path: The folder or file in the container.
        held: The volume that holds it; None for the container's own file system.
        option: The option that says it, if one does.
        variable: The number of the environment variable that says it.
    """

    said: str
    path: str
    held: Mounted | None
    option: Given | None = None
    variable: int | None = None

    def place(self, pods: RolePods) -> Location:
        """Where the place is named, or mounted."""
        if self.option is not None:
            return self.option.place
        if self.variable is not None:
            return pods.place_in(pods.main, "env", self.variable, "value")
        index = self.held.index if self.held else 0
        return pods.place_in(pods.main, "volumeMounts", index, "mountPath")


def checkpoints(pods: RolePods) -> Iterator[Checkpoints]:
    """The places to which the main container of a role writes checkpoints."""
    for found in _named(pods):
        # From what it may not write to, it begins.
        if found.held is None or not found.held.mount.get("readOnly"):
            yield found


def _named(pods: RolePods) -> Iterator[Checkpoints]:
    for given in pods.options:
        named = _NAMED.search(given.name) and not _READ_ONLY.search(given.name)
        if named and given.value and given.value.startswith("/"):
            said = f"{given.written} {given.value}"
            yield Checkpoints(said, given.value, mounted_at(pods, given.value), given)
    known = variables(pods.main)
    written = [env["name"] for env in pods.role.template.main_container.get("env", ())]
    for index, name in enumerate(written):
        value = known.get(name, "")
        if _NAMED.search(name) and not _READ_ONLY.search(name) and value.startswith("/"):
            yield Checkpoints(f"{name}={value}", value, mounted_at(pods, value), variable=index)
    for index, mount in enumerate(pods.role.template.main_container.get("volumeMounts", ())):
        path = str(mount["mountPath"])
        if not (_NAMED.search(path) or _NAMED.search(mount["name"])):
            continue
        if held := mounted_at(pods, path):
            said = f"volume {mount['name']} at {path}"
            yield Checkpoints(said, path, Mounted(index, held.mount, held.volume))
