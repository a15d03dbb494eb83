"""A job that leaves its operator, and what kubectl and etcompile call it and its parts.

Apart from the instructions, because each of them names the same few things.
"""

from collections.abc import Sequence

from msgspec import Struct

from etcompile.frontends import Kind
from etcompile.integrations.migrate.adoption import Fate
from etcompile.load import Document
from etcompile.model import Job


class Handover(Struct, frozen=True):
    """A job that leaves its operator.

    Args:
        live: Its custom resource.
        file: The file of its spec.
        beside: The files that it needs besides, such as its runtime's.
        fates: What becomes of its objects.
        notes: What else is worth knowing about it.
        scalers: Its scale intents in the cluster, as kubectl names them.
    """

    live: Document
    kind: Kind
    job: Job
    file: str
    fates: tuple[Fate, ...]
    notes: tuple[str, ...] = ()
    scalers: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def begins_anew(handover: Handover) -> bool:
    """Whether none of its Pods can be taken over, since their names end at random."""
    return handover.kind.operator is not None and handover.kind.operator.generates_names


def files(handover: Handover) -> str:
    """Its files, as words of a command."""
    return " ".join((handover.file, *handover.beside))


def operator(handover: Handover) -> str:
    """Who runs it now."""
    return (
        handover.kind.operator.name
        if handover.kind.operator
        else f"operator of {handover.job.kind}"
    )


def resource(handover: Handover) -> str:
    """The custom resource."""
    group, _, version = (handover.live.api_version or handover.job.api_version).partition("/")
    return f"{handover.job.kind.lower()}.{version}.{group}/{handover.job.name}"


def namespace(handover: Handover) -> str:
    """The flag that names its namespace, with a blank before it; empty if it names none."""
    return f" -n {handover.job.namespace}" if handover.job.namespace else ""


def selector(handover: Handover) -> str:
    """What finds its Pods."""
    return ",".join(f"{key}={value}" for key, value in handover.job.selector.items())


def named(fate: Fate) -> str:
    """An object, with its API group."""
    kind = f"{fate.ref.kind.lower()}.{fate.ref.group}" if fate.ref.group else fate.ref.kind.lower()
    return f"{kind}/{fate.ref.name}"


def render(handover: Handover, *, overlay: bool) -> str:
    """The command that renders it."""
    return f"etcompile render {files(handover)}{' --overlay overlay.yaml' if overlay else ''}"


_MADE = "pods,services,configmaps,serviceaccounts,roles,rolebindings,jobs"


def dump(handover: Handover) -> tuple[str, ...]:
    """Commands that read it with its objects."""
    at = namespace(handover)
    own = handover.kind.operator.makes if handover.kind.operator else ()
    more = [f"{kind.lower()}s{_group(version)}" for version, kind in own]
    made = ",".join((_MADE, *more))
    return (
        f"kubectl{at} get {resource(handover)} -o yaml > live.yaml",
        "echo --- >> live.yaml",
        f"kubectl{at} get {made} -o yaml >> live.yaml",
        "etcompile migrate live.yaml -d DIR",
    )


def _group(api_version: str) -> str:
    group = api_version.rpartition("/")[0]
    return f".{group}" if group else ""


def code(*lines: str) -> str:
    """Commands as a block."""
    return "\n".join(("```sh", *lines, "```"))


def indented(text: str) -> str:
    """A block below an item of a list."""
    return "\n".join(f"   {line}" if line else "" for line in text.split("\n")) + "\n"


def shortened(names: Sequence[str]) -> str:
    """Names, or the first and the last of many."""
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]} ({len(names)})"
