"""Find the ssh port of a job's hosts in the commands and ports of its containers.

A worker names the port of its sshd, a launcher the port that its ssh connects to. A gate must try
exactly that port. The frontends of MPI and Horovod share this module.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.launch.launchers import launches
from etcompile.launch.shell import (
    command_line,
    commands,
    script_of,
    script_words,
    whole_number,
)

_SSHD_VALUES = frozenset("CEcfghkopu")
_SSH_VALUES = frozenset("BbcDEeFIiJLlmOopQRSWw")
"""Letters of sshd's and of ssh's options that have a value: sshd(8), ssh(1)."""
_PARAMETERS = frozenset({"plm_rsh_args", "plm_ssh_args", "pls_rsh_args"})
"""Parameters of Open MPI, before and since version 5, with arguments for ssh."""
_VARIABLES = frozenset(
    {
        *(f"{prefix}{name}" for prefix in ("OMPI_MCA_", "PRTE_MCA_") for name in _PARAMETERS),
        "HYDRA_LAUNCH_EXTRA_ARGS",
        "HYDRA_LAUNCHER_EXTRA_ARGS",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
        "PDSH_SSH_ARGS",
        "PDSH_SSH_ARGS_APPEND",
    }
)
"""Variables with arguments for ssh: of Open MPI, MPICH and Intel MPI, and of DeepSpeed's pdsh."""
# Patterns as texts: `re` compiles and caches them for the few jobs that need them.
_ASSIGNMENT = rf"""(?a)\b({"|".join(sorted(_VARIABLES))})=("[^"]*"|'[^']*'|[^\s;&|]*)"""
_CONFIGURED = r"(?a)(?<![A-Za-z])[Pp]ort[ =]+([0-9]{1,5})(?![0-9])"
_USE = r"(?a)\$(?:\((\w+)\)|\{(\w+)\}|(\w+))"
_HIGHEST = 65535


class SshPort(Struct, frozen=True):
    """A port that a container names for ssh.

    Args:
        where: What names it, for messages.
        path: The field of the container that names it.
    """

    number: int
    where: str
    path: tuple[str | int, ...]


def listening_ports(container: Mapping[str, Any]) -> tuple[SshPort, ...]:
    """Return the ports of the sshd that a container's command starts; none if it names none."""
    known = _with_values(container)
    field = ("command",) if container.get("command") else ("args",)
    ports = tuple(
        SshPort(port, "the workers' sshd listens on", field)
        for command in commands(known)
        if command.program == "sshd"
        for port in _options([word.text for word in command.words[1:]], _SSHD_VALUES)
    )
    return ports or _configured(known, "sshd_config", "the workers' sshd listens on", field)


def declared_ports(container: Mapping[str, Any]) -> tuple[SshPort, ...]:
    """Return the ports of a container that can only be ssh's: probed by TCP, or exposed.

    Their names say so, or their numbers end in 22.
    """
    ports = container.get("ports") or ()
    named = {port.get("name"): port["containerPort"] for port in ports}
    exposed: list[tuple[object, Any, str, tuple[str | int, ...]]] = []
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        probed = ((container.get(kind) or {}).get("tcpSocket") or {}).get("port")
        port, where = named.get(probed, probed), f"the workers' {kind} tries"
        exposed.append((probed, port, where, (kind, "tcpSocket", "port")))
    for place, entry in enumerate(ports):
        if (entry.get("protocol") or "TCP") == "TCP":
            path = ("ports", place, "containerPort")
            exposed.append((entry.get("name"), entry["containerPort"], "the workers expose", path))
    return tuple(
        SshPort(port, where, path)
        for name, port, where, path in exposed
        if isinstance(port, int) and ("ssh" in str(name).lower() or port % 100 == 22)
    )


def connecting_ports(container: Mapping[str, Any]) -> tuple[SshPort, ...]:
    """Return the ports that a launcher's ssh connects to; none if its image decides."""
    known = _with_values(container)
    field: tuple[str | int, ...] = ("command",) if container.get("command") else ("args",)
    texts = []
    for option in (option for launch in launches(known) for option in launch.options):
        name, values = option.name.lstrip("-"), [word.text for word in option.values]
        if len(values) > 1 and (values[0] in _PARAMETERS or values[0] in _VARIABLES):
            texts.append(values[1])
        elif name == "x" and values:
            variable, _, value = values[0].partition("=")
            texts += [value] if variable in _VARIABLES else []
    script = script_of(command_line(known)) or ""
    texts += [match[2].strip("\"'") for match in re.finditer(_ASSIGNMENT, script)]
    numbers = [port for text in texts for port in _options(script_words(text), _SSH_VALUES)]
    numbers += [
        port
        for launch in launches(known)
        if launch.program == "horovodrun"
        for _, port in launch.numbers("-p", "--ssh-port")
    ]
    for command in commands(known):
        words = [word.text for word in command.words]
        if command.program in ("ssh", "pdsh"):
            numbers += _options(words[1:], _SSH_VALUES, stops=True)
        elif command.program == "deepspeed":
            for word, following in zip(words, [*words[1:], ""], strict=True):
                flag, equals, value = word.partition("=")
                if flag == "--ssh_port" and (port := port_number(value if equals else following)):
                    numbers.append(port)
    where = "the launcher connects to"
    mentions = [SshPort(port, where, field) for port in numbers if 0 < port <= _HIGHEST]
    for place, env in enumerate(container.get("env") or ()):
        if env["name"] in _VARIABLES:
            text = _expanded(str(env.get("value") or ""), container)
            variable = f"the launcher's {env['name']} names"
            ports = _options(script_words(text), _SSH_VALUES)
            mentions += [SshPort(port, variable, ("env", place)) for port in ports]
    return tuple(mentions) or _configured(known, "ssh_config", where, field)


def _options(
    words: Sequence[str], valued: Collection[str], *, stops: bool = False
) -> Iterator[int]:
    """Yield the ports in options of sshd or ssh: `-p 2222`, `-Dp2222`, `-o Port=2222`."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word.startswith("--"):
            if stops:
                return
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter not in valued:
                continue
            value = word[place:] or next(rest, "")
            match = re.fullmatch(_CONFIGURED, value.strip()) if letter == "o" else None
            if port := port_number(match[1] if match else value if letter == "p" else ""):
                yield port
            break


def port_number(text: str) -> int | None:
    port = whole_number(text)
    return port if port is not None and 0 < port <= _HIGHEST else None


def _configured(
    container: Mapping[str, Any], file: str, where: str, field: tuple[str | int, ...]
) -> tuple[SshPort, ...]:
    script = script_of(command_line(container)) or ""
    numbers = re.findall(_CONFIGURED, script) if file in script else []
    port = port_number(numbers[-1]) if numbers else None
    return (SshPort(port, where, field),) if port else ()


def _with_values(container: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field: [_expanded(str(word), container) for word in container.get(field) or ()]
        for field in ("command", "args")
    }


def _expanded(text: str, container: Mapping[str, Any]) -> str:
    if "$" not in text:
        return text
    values = {env["name"]: str(env.get("value") or "") for env in container.get("env") or ()}

    def value(match: re.Match[str]) -> str:
        text = values.get(match[1] or match[2] or match[3], "")
        return text if whole_number(text) is not None else match[0]

    return re.sub(_USE, value, text)
