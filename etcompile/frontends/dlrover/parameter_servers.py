"""ParameterServerStrategy to roles, in one of two ways (reference 6.6, A and E).

With DLRover's own master, which makes all other Pods: it wants a custom resource to read and
rights in its namespace, and gets both, with everything closed that it stumbles over. Or without
any master: the Pods are rendered and know each other by TF_CONFIG, for scripts that do not ask
DLRover to scale them. An annotation says which; nobody can tell it from the outside.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.annotations import NNODES, annotation_value, unused_annotation
from etcompile.frontends.dlrover import elastic_spec, master, replica_types
from etcompile.frontends.dlrover.elastic_spec import MASTER, MASTER_PORT, Spec
from etcompile.frontends.notes import no_effect, unused
from etcompile.launch.commands import command_words
from etcompile.model import (
    DOMAIN,
    ClusterAccess,
    CustomResource,
    FieldEnv,
    IndexedEnv,
    Role,
    Success,
)
from etcompile.model.quantity import number

MODES = ("master", "static")
_SCALING = "--enable_auto_scaling"
_SERVED = ("ps", "worker", "evaluator", "chief")
"""The order of upstream's TF_CONFIG."""
_SCALED = ("ps", "worker")
_LAST_WITH_PLANS = (0, 5)
_DEAD = (
    *("brainService", "envs", "enableElasticScheduling", "enableDynamicSharding"),
    *("restartPolicy", "restartTimeout", "criticalNodes", "BatchScheduler"),
)
_KEPT_MEMORY = 1024 * 1024**2
"""Bytes: smaller requests of parameter servers are replaced (reference 1.1)."""
_DROPPED = "terminationGracePeriodSeconds"
_DROPS = "DLRover's master drops it"


def is_static(spec: Spec) -> bool:
    """Whether the Pods are rendered and no master makes them."""
    return spec.annotation(elastic_spec.PARAMETER_SERVERS) == "static"


def reads_plans(spec: Spec) -> bool:
    """Whether the job's master reads ScalePlans that people write (reference 5)."""
    return not is_static(spec) and spec.version <= _LAST_WITH_PLANS


def counts(spec: Spec) -> dict[str, int]:
    """How many replicas of each type there are.

    As the master counts (reference 4.6): types that it sizes have at least one, and without a
    chief one of the workers is.
    """
    found = {"ps": _count(spec, "ps"), "worker": _count(spec, "worker")}
    found["evaluator"] = spec.replicas("evaluator")
    chief = max(spec.replicas("chief"), spec.replicas("master"))
    if not chief and found["worker"]:
        found["worker"] -= 1
        chief = 1
    return {**found, "chief": chief}


def _count(spec: Spec, name: str) -> int:
    """A type's replicas; with autoScale, which is the default, at least one."""
    given = spec.replicas(name)
    if given or not spec.types.get(name, {}).get("autoScale", True):
        return given
    return 0 if is_static(spec) else int(name in spec.types)


# Without a master ---------------------------------------------------------------------------------


def static_roles(spec: Spec) -> tuple[Role, ...]:
    """Parameter servers, chief, workers and evaluators that know each other from the start."""
    found = counts(spec)
    made = [_static(spec, name, found) for name in ("ps", "chief", "worker", "evaluator")]
    return tuple(role for role in made if role.members)


def _static(spec: Spec, name: str, found: Mapping[str, int]) -> Role:
    like = _like(spec, name)
    # A share of the cluster that is empty is not in it.
    cluster = {
        served: [
            f"{replica_types.host(spec, served, rank)}{DOMAIN}:{replica_types.port(served)}"
            for rank in range(found[served])
        ]
        for served in _SERVED
        if found[served]
    }
    config = json.dumps({"cluster": cluster, "task": {"type": name, "index": "#"}})
    before, after = config.rsplit('"#"', 1)
    env = (
        *replica_types.variables(spec, name, found[name], master=False),
        IndexedEnv("TF_CONFIG", (before, after), rank=True),
    )
    role = replica_types.role(spec, name, found[name], env, like=like)
    always = spec.types["worker"]["template"]["spec"].get("restartPolicy") == "Always"
    policy = structs.replace(
        replica_types.relaunch(spec, budget=False),
        never=() if always else replica_types.FATAL,
        memory=2,
    )
    role = structs.replace(
        role,
        recovery=structs.replace(role.recovery, relaunch=policy),
    )
    return replica_types.ends_with_run(role) if name in ("ps", "evaluator") else role


def _like(spec: Spec, name: str) -> str:
    """The type whose template a type has: a chief that is not written down is a worker."""
    if name in spec.types:
        return name
    return "master" if name == "chief" and "master" in spec.types else "worker"


def static_success(spec: Spec) -> Success:
    """Chief and workers decide; parameter servers never end by themselves."""
    found = counts(spec)
    return Success(tuple(name for name in ("chief", "worker") if found[name]))


# With DLRover's master ----------------------------------------------------------------------------


def master_role(spec: Spec) -> Role:
    """The master, which makes all other Pods."""
    command = (
        *master.PROGRAM,
        *("--platform", "pyk8s"),
        # Known when the Pod is there: Kubernetes fills it in.
        *("--namespace", "$(POD_NAMESPACE)"),
        *("--job_name", spec.name),
        *("--port", str(MASTER_PORT)),
        *master.words(spec, local=False),
    )
    env = (FieldEnv("POD_NAMESPACE", "metadata.namespace"),)
    account = f"{spec.name}-{MASTER}"
    role = master.role(spec, command, account=account, env=env)
    return structs.replace(
        role,
        additions=structs.replace(role.additions, run_once=True),
        # Exit code 1 is its verdict on the job, others are accidents (reference 2.4).
        recovery=structs.replace(role.recovery, restart="ExitCode"),
    )


def access(spec: Spec) -> ClusterAccess:
    """What the master needs in its namespace, and nothing else (reference 2.5)."""
    name = f"{spec.name}-{MASTER}"
    group = elastic_spec.API_VERSION.partition("/")[0]
    rules: list[Mapping[str, Any]] = [
        {"apiGroups": [group], "resources": ["elasticjobs"], "verbs": ["get", "list", "watch"]},
        # Where an owner that blocks a deletion needs a right.
        {
            "apiGroups": [group],
            "resources": ["elasticjobs/finalizers"],
            "resourceNames": [spec.name],
            "verbs": ["update"],
        },
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["create", "delete", "get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get", "patch"]},
    ]
    if reads_plans(spec):
        verbs = ["list", "patch", "watch"]
        rules.append({"apiGroups": [group], "resources": ["scaleplans"], "verbs": verbs})
    return ClusterAccess(account=name, create_account=True, rules=tuple(rules), role=name)


def custom_resource(spec: Spec) -> CustomResource:
    """The job as its master reads it, with nothing left that it stumbles over (reference 6.6, A).

    The master's own template is not in it: the master is rendered, and no operator is needed. Of
    an operator that runs all the same, the master's Pod of the same name keeps it from making one.
    """
    fields = {k: v for k, v in spec.fields.items() if k not in _DEAD}
    types = {name: _normal(spec, name) for name in spec.types if name != MASTER}
    fields |= {"distributionStrategy": "ParameterServerStrategy", "replicaSpecs": types}
    fields.pop("suspend", None)
    return CustomResource(elastic_spec.API_VERSION, "ElasticJob", spec.name, fields)


def _normal(spec: Spec, name: str) -> dict[str, Any]:
    given: dict[str, Any] = copy.deepcopy(dict(spec.types[name]))
    made = {k: v for k, v in given.items() if k not in _DEAD}
    made["replicas"] = _count(spec, name) if name in _SCALED else spec.replicas(name)
    pod = made["template"]["spec"]
    if name == "worker":
        # Without it a worker that exits with 1 takes the whole job along (reference 4.2).
        pod.setdefault("restartPolicy", "Always")
    containers = pod["containers"]
    main = next(container for container in containers if container["name"] == spec.mains[name])
    for container in containers:
        _even(container)
    # The master reads cpu and memory of the first container and writes them to the main one.
    pod["containers"] = [main, *(container for container in containers if container is not main)]
    return made


def _even(container: dict[str, Any]) -> None:
    """Makes requests and limits of a container the same: the master keeps the requests only."""
    resources = container.get("resources")
    if resources is None:
        return
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    amounts = {**limits, **requests}
    if amounts:
        container["resources"] = {**resources, "limits": amounts, "requests": dict(amounts)}


# What is wrong, and what changes nothing ----------------------------------------------------------


def notes(spec: Spec) -> Iterator[Diagnostic]:
    """What is wrong with the job, and what happens to it that nobody wrote."""
    mode = spec.annotation(elastic_spec.PARAMETER_SERVERS)
    if mode is None:
        yield diagnose(
            codes.PARAMETER_SERVERS_HOW, spec.source.locate(("metadata", "name")), job=spec.name
        )
    elif mode not in MODES:
        yield annotation_value(spec.source, elastic_spec.PARAMETER_SERVERS, "master or static")
    if "ps" not in spec.types:
        place = spec.source.locate(("spec", "replicaSpecs"), key=True)
        stated = "distributionStrategy" in spec.fields
        said = "is this job's strategy" if stated else "counts where no strategy is written"
        yield diagnose(codes.NO_PARAMETER_SERVERS, place, said=said)
        return
    if is_static(spec):
        yield from _static_notes(spec)
    else:
        yield from _master_notes(spec)
    if spec.annotation(NNODES) is not None:
        yield unused_annotation(spec.source, NNODES, "parameter servers have no rendezvous")


def _static_notes(spec: Spec) -> Iterator[Diagnostic]:
    for name in ("chief", "worker"):
        if name in spec.types and any(_SCALING in word for word in command_words(spec.main(name))):
            place = spec.origin(name).locate("template")
            yield diagnose(codes.NEEDS_DLROVER_MASTER, place, where=name, flag=_SCALING)
    for field in ("optimizeMode", "resourceLimits"):
        yield from no_effect(spec.source, ("spec", field), "no master sizes the Pods")
    for name in _SCALED:
        if spec.types[name].get("autoScale"):
            reason = "no master scales the Pods"
            yield from replica_types.unused_fields(spec, name, {"autoScale": reason})
    path = ("spec", "replicaSpecs", MASTER)
    yield from no_effect(spec.source, path, "there is no master", where=MASTER)
    if not spec.replicas("ps"):
        yield diagnose(
            codes.NOBODY_TRAINS, spec.origin("ps").locate(key=True), job=spec.name, where="ps"
        )


def _master_notes(spec: Spec) -> Iterator[Diagnostic]:
    if spec.fields.get("optimizeMode", "single-job") in ("single-job", "cluster"):
        for name in _SCALED:
            given = spec.types[name]
            if given.get("autoScale", True) and not (name == "ps" and _is_big(spec.main(name))):
                place = spec.origin(name).locate("autoScale", key="autoScale" in given)
                yield diagnose(codes.SIZED_BY_DLROVER, place, where=name)
    for name, given in spec.types.items():
        if name == MASTER:
            continue
        origin = spec.origin(name).at("template", "spec")
        pod = given["template"]["spec"]
        yield from _lost(spec, name)
        for index, container in enumerate(pod["containers"]):
            if container["name"] != spec.mains[name]:
                continue
            if "lifecycle" in container:
                place = origin.locate("containers", index, "lifecycle", key=True)
                yield unused(place, "lifecycle", _DROPS)
            resources = container.get("resources", {})
            for resource, limit in resources.get("limits", {}).items():
                asked = resources.get("requests", {}).get(resource, limit)
                if str(asked) != str(limit):
                    path = ("containers", index, "resources", "limits", resource)
                    reason = f"DLRover's master makes it the request, {asked}"
                    facts = {"where": f"limit of {resource}", "name": limit, "reason": reason}
                    yield diagnose(codes.OVERWRITTEN, origin.locate(*path), **facts, advice="")


def _is_big(container: Mapping[str, Any]) -> bool:
    """Whether a parameter server keeps the memory that it asks for."""
    resources = container.get("resources", {})
    asked = {**resources.get("limits", {}), **resources.get("requests", {})}.get("memory", 0)
    return (number(asked) or 0) >= _KEPT_MEMORY


def _lost(spec: Spec, name: str) -> Iterator[Diagnostic]:
    """Fields of a template that DLRover's master drops (reference 3.3)."""
    pod = spec.types[name]["template"]["spec"]
    for field in (_DROPPED, "priorityClassName"):
        if field in pod and not (field != _DROPPED and spec.types[name].get("priority")):
            place = spec.origin(name).locate("template", "spec", field, key=True)
            yield unused(place, f"{name}.template.spec.{field}", _DROPS)
