"""Build roles for ParameterServerStrategy, with DLRover's master or without (reference 6.6, A, E).

DLRover's own master creates all other Pods. It reads a custom resource and needs rights in its
namespace; both are rendered, without anything that would confuse it. Without a master the Pods are
rendered and know each other by TF_CONFIG, for scripts that DLRover need not scale. An annotation
chooses, because the choice does not follow from the document.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from etcompile import model
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.annotations import NNODES, annotation_value, unused_annotation
from etcompile.frontends.dlrover import elastic_pods
from etcompile.frontends.dlrover.elastic_pods import PORTS, UNREAD, UNREAD_OF_TYPE
from etcompile.frontends.dlrover.elastic_spec import (
    API_VERSION,
    MASTER,
    MASTER_PORT,
    PARAMETER_SERVERS,
    Spec,
)
from etcompile.frontends.notes import no_effect, overwritten, unused
from etcompile.k8s.quantity import number
from etcompile.launch.launchers import command_words

_SCALING = "--enable_auto_scaling"
_SERVED = ("ps", "worker", "evaluator", "chief")  # the order of upstream's TF_CONFIG
_SCALED = ("ps", "worker")
_LAST_WITH_PLANS = (0, 5)
_DEAD = UNREAD.keys() | UNREAD_OF_TYPE.keys()
_FATAL = (1, 134)
_PRESERVED_MEMORY = 1024 * 1024**2
"""Bytes; smaller requests of parameter servers are replaced (reference 1.1)."""
_DROPS = "DLRover's master drops it"


def is_static(spec: Spec) -> bool:
    return spec.annotation(PARAMETER_SERVERS) == "static"


def described(spec: Spec) -> dict[str, Any]:
    if is_static(spec):
        counts = counts_of(spec)
        # Empty types are not part of the cluster.
        cluster = {
            name: [
                f"{spec.pod_stem(name)}-{rank}{model.DOMAIN}:{PORTS[name]}"
                for rank in range(counts[name])
            ]
            for name in _SERVED
            if counts[name]
        }
        names = [name for name in ("ps", "chief", "worker", "evaluator") if counts[name]]
        return {
            "roles": tuple(_role(spec, name, counts[name], cluster) for name in names),
            "names_namespace": "TF_CONFIG contains it",
            "fixed": "each of its Pods knows all others by TF_CONFIG",
            # Parameter servers never end by themselves.
            "success": model.Success(tuple(name for name in ("chief", "worker") if counts[name])),
        }
    # A master up to 0.5 reads ScalePlans that people write (reference 5).
    plans = spec.version <= _LAST_WITH_PLANS
    command = (
        *elastic_pods.PROGRAM,
        *("--platform", "pyk8s"),
        # Kubernetes fills it in.
        *("--namespace", "$(POD_NAMESPACE)"),
        *("--job_name", spec.name),
        *("--port", str(MASTER_PORT)),
        *elastic_pods.command_options(spec, local=False),
    )
    env = (model.Env("POD_NAMESPACE", field="metadata.namespace"),)
    account = f"{spec.name}-{MASTER}"
    # With exit code 1 the master fails the job; others are accidents (reference 2.4).
    role = elastic_pods.master_role(
        spec, command, account=account, env=env, run_once=True, restart="ExitCode"
    )
    # The rights that the master needs in its namespace (reference 2.5).
    group = API_VERSION.partition("/")[0]
    rights = [
        (group, "elasticjobs", "get list watch"),
        # Some clusters require this of an owner that blocks a deletion.
        (group, "elasticjobs/finalizers", "update"),
        ("", "pods", "create delete get list watch"),
        ("", "services", "create get patch"),
        *([(group, "scaleplans", "list patch watch")] if plans else []),
    ]
    rules: list[dict[str, Any]] = [
        {"apiGroups": [api_group], "resources": [resource], "verbs": verbs.split()}
        for api_group, resource, verbs in rights
    ]
    rules[1]["resourceNames"] = [spec.name]
    return {
        "roles": (role,),
        "access": model.ClusterAccess(
            account=account, create_account=True, rules=tuple(rules), role=account
        ),
        "custom": (_custom_resource(spec),),
        "keeps_plans": plans,
        "fixed": None
        if plans
        else "DLRover's master makes its Pods, and from 0.6 on it reads no plans",
        "success": model.Success((MASTER,)),
    }


def counts_of(spec: Spec) -> dict[str, int]:
    """Count the replicas of each type as the master does (reference 4.6).

    Types that it sizes have at least one, and without a chief one of the workers is the chief.
    """
    workers = _count(spec, "worker")
    chief = max(spec.replicas("chief"), spec.replicas("master"))
    if not chief and workers:
        workers, chief = workers - 1, 1
    return {
        "ps": _count(spec, "ps"),
        "worker": workers,
        "evaluator": spec.replicas("evaluator"),
        "chief": chief,
    }


def _count(spec: Spec, name: str) -> int:
    replicas = spec.replicas(name)
    if replicas or is_static(spec) or not spec.types.get(name, {}).get("autoScale", True):
        return replicas
    return int(name in spec.types)


def _role(spec: Spec, name: str, count: int, cluster: Mapping[str, Any]) -> model.Role:
    config = json.dumps({"cluster": cluster, "task": {"type": name, "index": "#"}})
    before, after = config.rsplit('"#"', 1)
    env = (
        *elastic_pods.variables(spec, name, count, master=False),
        model.IndexedEnv("TF_CONFIG", (before, after), rank=True),
    )
    # A chief that the document does not have is a worker.
    like = name
    if name not in spec.types:
        like = "master" if name == "chief" and "master" in spec.types else "worker"
    always = spec.types["worker"]["template"]["spec"].get("restartPolicy") == "Always"
    never = () if always else _FATAL
    relaunch = elastic_pods.relaunch(spec, budget=False, never=never, memory=2)
    serves = name in ("ps", "evaluator")
    return elastic_pods.role(
        spec, name, count, env, like=like, run_once=not serves, serves=serves, relaunch=relaunch
    )


def _custom_resource(spec: Spec) -> model.CustomResource:
    """Return the job as its master reads it, without what confuses it (reference 6.6, A).

    The master's template is missing, because the master is rendered. An operator that runs
    nevertheless creates no master, because a Pod of that name exists.
    """
    fields = {k: v for k, v in spec.fields.items() if k not in _DEAD and k != "suspend"}
    types: dict[str, dict[str, Any]] = {}
    for name in spec.types:
        if name == MASTER:
            continue
        types[name] = {k: v for k, v in spec.types[name].items() if k not in _DEAD}
        types[name]["replicas"] = _count(spec, name) if name in _SCALED else spec.replicas(name)
        template = types[name]["template"]
        main = spec.main(name)
        # The master reads requests of cpu and memory of the first container, and writes them to
        # the main one. So that one is first, and requests and limits are equal.
        containers = []
        for container in (main, *(c for c in template["spec"]["containers"] if c is not main)):
            resources = container.get("resources") or {}
            amounts = {**resources.get("limits", {}), **resources.get("requests", {})}
            equal = {**resources, "limits": amounts, "requests": dict(amounts)}
            containers.append({**container, "resources": equal} if amounts else container)
        pod = {**template["spec"], "containers": containers}
        if name == "worker":
            # Otherwise a worker that exits with 1 fails the whole job (reference 4.2).
            pod.setdefault("restartPolicy", "Always")
        types[name]["template"] = {**template, "spec": pod}
    fields |= {"distributionStrategy": "ParameterServerStrategy", "replicaSpecs": types}
    return model.CustomResource(API_VERSION, "ElasticJob", spec.name, fields)


def notes(spec: Spec) -> Iterator[Diagnostic]:
    mode = spec.annotation(PARAMETER_SERVERS)
    if mode is None:
        place = spec.source.locate(("metadata", "name"))
        yield diagnose(codes.PARAMETER_SERVERS_HOW, place, job=spec.name)
    elif mode not in ("master", "static"):
        yield annotation_value(spec.source, PARAMETER_SERVERS, "master or static")
    if "ps" not in spec.types:
        place = spec.source.locate(("spec", "replicaSpecs"), key=True)
        stated = "distributionStrategy" in spec.fields
        said = "is this job's strategy" if stated else "counts where no strategy is written"
        yield diagnose(codes.NO_PARAMETER_SERVERS, place, said=said)
        return
    if is_static(spec):
        for name in ("chief", "worker"):
            words = command_words(spec.main(name)) if name in spec.types else ()
            if any(_SCALING in word for word in words):
                place = spec.origin(name).locate("template")
                yield diagnose(codes.NEEDS_DLROVER_MASTER, place, where=name, flag=_SCALING)
        for field in ("optimizeMode", "resourceLimits"):
            yield from no_effect(spec.source, ("spec", field), "no master sizes the Pods")
        for name in _SCALED:
            if spec.types[name].get("autoScale"):
                reason = "no master scales the Pods"
                yield from elastic_pods.unused_fields(spec, name, {"autoScale": reason})
        path = ("spec", "replicaSpecs", MASTER)
        yield from no_effect(spec.source, path, "there is no master", where=MASTER)
        if not spec.replicas("ps"):
            place = spec.origin("ps").locate(key=True)
            yield diagnose(codes.NOBODY_TRAINS, place, job=spec.name, where="ps")
    else:
        yield from _master_notes(spec)
    if spec.annotation(NNODES) is not None:
        yield unused_annotation(spec.source, NNODES, "parameter servers have no rendezvous")


def _master_notes(spec: Spec) -> Iterator[Diagnostic]:
    if spec.fields.get("optimizeMode", "single-job") in ("single-job", "cluster"):
        for name in _SCALED:
            fields, resources = spec.types[name], spec.main(name).get("resources", {})
            amounts = {**resources.get("limits", {}), **resources.get("requests", {})}
            # DLRover preserves large requests of parameter servers.
            big = name == "ps" and (number(amounts.get("memory", 0)) or 0) >= _PRESERVED_MEMORY
            if fields.get("autoScale", True) and not big:
                place = spec.origin(name).locate("autoScale", key="autoScale" in fields)
                yield diagnose(codes.SIZED_BY_DLROVER, place, where=name)
    for name, fields in spec.types.items():
        if name == MASTER:
            continue
        origin, pod = spec.origin(name).at("template", "spec"), fields["template"]["spec"]
        # The master drops these (reference 3.3), except a class that it sets itself.
        dropped = ["terminationGracePeriodSeconds"]
        dropped += [] if fields.get("priority") else ["priorityClassName"]
        for field in dropped:
            if field in pod:
                place = origin.locate(field, key=True)
                yield unused(place, f"{name}.template.spec.{field}", _DROPS)
        main, at = spec.main(name), origin.at("containers", spec.main_place(name))
        if "lifecycle" in main:
            yield unused(at.locate("lifecycle", key=True), "lifecycle", _DROPS)
        resources = main.get("resources", {})
        for resource, limit in resources.get("limits", {}).items():
            request = resources.get("requests", {}).get(resource, limit)
            if str(request) != str(limit):
                place = at.locate("resources", "limits", resource)
                reason = f"DLRover's master makes it the request, {request}"
                yield overwritten(place, f"limit of {resource}", limit, reason, "")
