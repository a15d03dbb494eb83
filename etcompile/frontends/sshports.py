"""The ssh port of a job: what its annotation says, else what its templates agree on.

Apart from the kinds, so that all whose launcher comes by ssh decide in the same way.
"""

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import PREFIX, annotation_value, annotations_of
from etcompile.launch.ssh import SshPort, connecting_ports, declared_ports, listening_ports
from etcompile.model import PodTemplate

SSH_PORT = f"{PREFIX}ssh-port"

_HIGHEST = 65535
RETRIES = "-o ConnectionAttempts=10"


def ssh_arguments(source: Source) -> str:
    """The arguments of the ssh of a launcher: it tries again, on the annotated port if any."""
    given = annotations_of(source).get(SSH_PORT, "")
    return f"{RETRIES} -p {given}" if _is_port(given) else RETRIES


def ssh_port(
    source: Source, launcher: PodTemplate, worker: PodTemplate | None, *, serves: bool
) -> tuple[int | None, list[Diagnostic]]:
    """The port on which the workers' sshd is reached.

    Args:
        source: The document.
        launcher: The launcher's template.
        worker: The workers' template, if there are any.
        serves: The workers run etcompile's sshd, which listens where the launcher connects to.

    Returns:
        The port, None where the images decide, and what is to be said about it.
    """
    given = annotations_of(source).get(SSH_PORT)
    if given is not None:
        if _is_port(given):
            return int(given), []
        return None, [annotation_value(source, SSH_PORT, "a port number, quoted")]
    if worker is None:
        return None, []
    listens = () if serves else listening_ports(worker.main_container)
    declared = declared_ports(worker.main_container)
    connects = connecting_ports(launcher.main_container)
    # The nearest to the program comes first. What is only exposed moves no sshd of etcompile's.
    said = (*listens, *connects, *(() if serves else declared))
    if not said:
        return None, []
    open_ports = {port.number for port in listens}
    others = (*connects, *declared)
    port = next((other.number for other in others if other.number in open_ports), said[0].number)
    wanted = open_ports or {port}
    if all(other.number in wanted for other in others):
        return port, []
    return port, [_disagreement(source, (*listens, *others), port, launcher, worker)]


def _disagreement(
    source: Source,
    said: tuple[SshPort, ...],
    port: int,
    launcher: PodTemplate,
    worker: PodTemplate,
) -> Diagnostic:
    told = dict.fromkeys(f"{mention.where} {mention.number}" for mention in said)
    odd = next(mention for mention in said if mention.number != port)
    template = launcher if "launcher" in odd.where else worker
    place = template.main_origin.locate(*odd.path)
    facts = {"job": source.data["metadata"]["name"], "name": SSH_PORT, "port": port}
    return diagnose(codes.SSH_PORTS_DISAGREE, place, ports=", ".join(told), **facts)


def _is_port(text: str) -> bool:
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(_HIGHEST))
    return plain and 0 < int(text) <= _HIGHEST
