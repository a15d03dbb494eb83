"""Variables of Pods that are longer than Linux hands to a program.

Apart from the schema of Kubernetes, which takes any text: the API server does too, and the
container then fails to start with "argument list too long", for as long as it is tried.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import Job, Role
from etcompile.model.protocol import ROLE_LABEL

_LIMIT = 128 * 1024
"""Bytes of one variable, its name and the 0 at its end included: execve(2), MAX_ARG_STRLEN."""


def check_variables(job: Job, objects: Iterable[Mapping[str, Any]]) -> list[Diagnostic]:
    """A warning for each role whose Pods have a variable that no program can be started with.

    Args:
        job: The job that they are made of.
        objects: Its compiled objects.
    """
    seen: set[str] = set()
    problems: list[Diagnostic] = []
    for value in objects:
        pod = value["spec"]["template"] if value["kind"] == "Job" else value
        name = pod["metadata"].get("labels", {}).get(ROLE_LABEL) if "spec" in pod else None
        # One Pod of a role is as good as all: they differ in an index.
        if name is None or name in seen or "containers" not in pod["spec"]:
            continue
        seen.add(name)
        if role := job.role(name):
            problems += _too_long(job, role, pod["spec"])
    return problems


def _too_long(job: Job, role: Role, spec: Mapping[str, Any]) -> Iterator[Diagnostic]:
    ours = {variable.name for variable in role.additions.env}
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            for variable in container.get("env") or ():
                text = variable.get("value")
                if not isinstance(text, str):
                    continue
                size = len(variable["name"].encode()) + len(text.encode()) + 2
                if size > _LIMIT:
                    facts = {"variable": variable["name"], "role": role.name}
                    advice = _advice(job, variable["name"] in ours)
                    place = role.origin.locate(key=True)
                    yield diagnose(
                        codes.VARIABLE_TOO_LONG,
                        place,
                        **facts,
                        size=-(-size // 1024),
                        advice=advice,
                    )
                    return


def _advice(job: Job, ours: bool) -> str:  # noqa: FBT001
    if not ours:
        return "put it into a file, of a ConfigMap for example"
    if job.names_fewer:
        return f"have fewer replicas, or {job.names_fewer}"
    return "have fewer replicas: it names each of them"
