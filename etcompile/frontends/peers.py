"""The list of the hosts that others wait for, and the gate that waits until their names resolve."""

from etcompile.model import Gate, HostList
from etcompile.model.protocol import SCRIPTS_PATH

_KEY = "peers"


def host_list(role: str) -> HostList:
    """The list of a role's hosts that `gate` reads; no live one: names do not change in a run."""
    return HostList(_KEY, (role,), "{host}", live=False)


def gate(role: str, timeout: int, name: str, port: int | None = None) -> Gate:
    """What waits for the hosts of `host_list`.

    Args:
        role: The role that is waited for.
        timeout: Seconds until it gives up.
        name: The init container's name.
        port: Until each host accepts on this port; None for until its name resolves.
    """
    return Gate(
        roles=(role,),
        hosts=f"{SCRIPTS_PATH}/{_KEY}",
        mounts=(),
        ssh=False,
        timeout=timeout,
        name=name,
        file=_KEY,
        port=port,
    )
