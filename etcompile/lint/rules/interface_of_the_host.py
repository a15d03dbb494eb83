"""NCCL or Gloo bound to a network interface that Pods do not have."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.commands import place_of
from etcompile.lint.facts import passed, variables
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.INTERFACE_OF_THE_HOST
_OF_PODS = "eth0"
"""The interface that container runtimes give a Pod."""
_MORE_NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""Annotation by which a Pod gets more interfaces."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each variable that names no interface by which the peers can be reached."""
    for pods in job.pods:
        given, by_option = variables(pods.main), passed(pods)
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value, option = by_option.get(name) or (given.get(name), None)
            if value and (problem := _problem(job, pods, name, value)):
                names = [env["name"] for env in pods.role.template.main_container.get("env", ())]
                where = ("env", names.index(name), "value") if name in names else ("env",)
                # The option may stand there for several variables.
                said = f"{name}={value}"
                place = place_of(option.by, said) if option else pods.place_in(pods.main, *where)
                yield diagnose(CODE, place, variable=name, value=value, problem=problem)


def _problem(job: LintedJob, pods: RolePods, name: str, value: str) -> str | None:
    is_nccl = name.startswith("NCCL")
    if is_nccl and value.startswith("^"):
        return None
    exact = not is_nccl or value.startswith("=")
    parts = value.removeprefix("=").split(",")
    wanted = [part.strip() for part in parts if part.strip()]
    if job.count > 1 and wanted == ["lo"]:
        return "by the loopback interface no other Pod can be reached"
    if pods.spec.get("hostNetwork") or _MORE_NETWORKS in pods.metadata.get("annotations", {}):
        return None
    if "$(" in value or any(_has(interface, exact=exact) for interface in wanted):
        return None
    return f"a Pod outside the network of its node has {_OF_PODS} and lo only"


def _has(wanted: str, *, exact: bool) -> bool:
    return wanted in (_OF_PODS, "lo") if exact else _OF_PODS.startswith(wanted) or wanted == "lo"
