"""Annotate objects for the tools that sync the output, with a function per tool.

A tool is a function from an object, its wave and its situation to the annotations of
reference/gitops.md 9. A new tool is a function here, a row in `_TOOLS` and a name in
`etcompile.model.settings`.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field, structs

from etcompile.backend.job_config import ends_with_run
from etcompile.backend.job_objects import waits
from etcompile.k8s.bookkeeping import ANNOTATIONS_LIMIT, copied_annotations
from etcompile.k8s.objects import SYNC_WAVE, Object, labels_of, wave
from etcompile.model import Job, Profile

_NEVER_DELETED = frozenset({"Namespace", "PersistentVolumeClaim"})
_CUSTOM = frozenset({"ExternalSecret", "PodGroup", "SSHKey", "SealedSecret", "SecretProviderClass"})
"""Kinds whose definition may arrive with the same sync."""
_SMALL = frozenset({"Pod", "Service", "ServiceAccount", "Namespace"})
"""Kinds with thousands of objects, whose size does not grow with the job."""
_OPTIONS = "argocd.argoproj.io/sync-options"
_NO_COPY = "kapp.k14s.io/disable-original"


class Situation(Struct, frozen=True):
    """What an object's annotations depend on besides the object."""

    job: str | None = None
    namespace: str | None = None
    resident: frozenset[str] = frozenset()  # Pods that serve others until the run is done
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # Pods, and their hosts
    # Waves of the job's other objects, ascending; `annotated` adds those of its arguments.
    waves: tuple[int, ...] = ()
    variables: bool = False  # whether a text of the object contains `${`

    @classmethod
    def around(cls, job: Job, declared: Job, scheduler: str) -> "Situation":
        """Return the situation of the objects of a job.

        Args:
            declared: The job as its document describes it. A Pod is declared to wait only for
                replicas in both: otherwise each ScaleOut would change the launcher. Its gate waits
                for all of them anyway.
            scheduler: The gang scheduler, or `none`. Pods of a gang start together, so none may
                wait for another to run.
        """
        first = set()
        for role, before in zip(job.roles, declared.roles, strict=True):
            known = {member.index: member for member in before.members}
            first |= {role.pod_name(m) for m in role.members if known.get(m.index) == m}
        return cls(
            job=job.name,
            namespace=job.namespace,
            resident=frozenset(
                role.pod_name(member)
                for role in job.roles
                if ends_with_run(role)
                for member in role.members
            ),
            waits={
                pod: tuple(host for host in hosts if host in first)
                for pod, hosts in (waits(job).items() if scheduler == "none" else ())
            },
        )


def annotated(
    objects: Sequence[Object],
    profiles: Sequence[Profile],
    situation: Situation,
) -> tuple[Object, ...]:
    """Return the objects, in the same order, with the annotations of the chosen tools.

    An existing annotation stays: its author is more specific than a profile for all objects.
    """
    tools = [_TOOLS[profile] for profile in dict.fromkeys(profiles) if profile in _TOOLS]
    if not tools:
        return tuple(objects)
    waves = [wave(value) for value in objects]
    situation = structs.replace(situation, waves=tuple(sorted({*situation.waves, *waves})))
    by_variables = {there: structs.replace(situation, variables=there) for there in (False, True)}
    # A role's Pods have equal annotations: they share one mapping, as they share a spec.
    shared: dict[tuple[int, tuple[tuple[str, str], ...]], dict[str, str]] = {}
    annotated_objects = []
    # A role's Pods share one spec, which is searched once for variables.
    known: dict[int, bool] = {}
    for value, number in zip(objects, waves, strict=True):
        spec = value.get("spec")
        parts = [*spec.values()] if isinstance(spec, Mapping) else []
        for part in parts:
            if id(part) not in known:
                known[id(part)] = "${" in json.dumps(part)
        others = {key: inner for key, inner in value.items() if key != "spec"}
        has_variables = any(known[id(part)] for part in parts) or "${" in json.dumps(others)
        around = by_variables[has_variables]
        added = {key: text for tool in tools for key, text in tool(value, number, around).items()}
        if not added:
            annotated_objects.append(value)
            continue
        metadata = value["metadata"]
        existing = metadata.get("annotations")
        key = (id(existing), tuple(added.items()))
        merged = shared.setdefault(key, {**added, **(existing or {})})
        annotated_objects.append({**value, "metadata": {**metadata, "annotations": merged}})
    return tuple(annotated_objects)


# The tools ----------------------------------------------------------------------------------------


def _argocd(value: Object, wave: int, situation: Situation) -> dict[str, str]:
    """Return Argo CD's annotations: waves, and what it must not prune or dry-run.

    Force, Replace and hooks are never used: each of them restarts a healthy training
    (reference/gitops.md 0, facts 6 and 7, and 1.7).
    """
    added = {SYNC_WAVE: str(wave)}
    kind = value["kind"]
    if kind in _NEVER_DELETED:
        added[_OPTIONS] = "Prune=false,Delete=false"
    elif kind in _CUSTOM:
        added[_OPTIONS] = "SkipDryRunOnMissingResource=true"
    elif kind == "Pod" and value["metadata"].get("name") in situation.resident:
        # A Pod that only serves is healthy once it is ready. By default Argo CD shows it as
        # Progressing to the end, which is right only for a training Pod (reference/gitops.md 1.2).
        added["argocd.argoproj.io/ignore-restart-policy"] = "true"
    if _must_not_be_copied(value):
        # By default Argo CD stores a copy of the object in an annotation, as kubectl does.
        options = (added.get(_OPTIONS), "ServerSideApply=true")
        added[_OPTIONS] = ",".join(option for option in options if option)
    return added


def _must_not_be_copied(value: Object) -> bool:
    return value["kind"] not in _SMALL and copied_annotations(value) > ANNOTATIONS_LIMIT


def _flux(value: Object, _wave: int, situation: Situation) -> dict[str, str]:
    """Return Flux's annotations: what it must not substitute or prune.

    Flux has no waves; the launcher's gate replaces them (reference/gitops.md 2.3).
    """
    added = {}
    if situation.variables:
        # Substitution would empty each `${...}` of a script (reference/gitops.md 2.5).
        added["kustomize.toolkit.fluxcd.io/substitute"] = "disabled"
    if value["kind"] in _NEVER_DELETED:
        added["kustomize.toolkit.fluxcd.io/prune"] = "Disabled"
    # Flux reads labels too (reference/gitops.md 2.1).
    labels = labels_of(value)
    return {key: text for key, text in added.items() if key not in labels}


def _kapp(value: Object, wave: int, situation: Situation) -> dict[str, str]:
    """Return kapp's annotations: a change group for each wave, after all earlier ones.

    A rule names every earlier wave, not only the last: kapp leaves unchanged objects out of its
    graph, which could break a chain of rules in the middle (reference/gitops.md 4.1).
    """
    # By default kapp stores a copy of the object in an annotation, as kubectl does.
    large = {_NO_COPY: ""} if _must_not_be_copied(value) else {}
    if situation.job is None:
        return large
    earlier = [number for number in situation.waves if number < wave]
    group = f"etcompile.dev/{situation.job}"
    rules = {
        f"kapp.k14s.io/change-rule.{place}": f"upsert after upserting {group}-{number}"
        for place, number in enumerate(earlier)
    }
    return {"kapp.k14s.io/change-group": f"{group}-{wave}", **rules, **large}


def _kpt(value: Object, _wave: int, situation: Situation) -> dict[str, str]:
    """Return kpt's annotation: the Pods that a Pod waits for.

    kpt does not apply an object before its dependencies are ready, and refuses dependencies
    outside of the package, so only Pods of the output are named.
    """
    if value["kind"] not in ("Pod", "Job"):
        return {}
    hosts = situation.waits.get(value["metadata"].get("name", ""), ())
    namespace = situation.namespace or "default"
    named = ",".join(f"/namespaces/{namespace}/Pod/{host}" for host in hosts)
    return {"config.kubernetes.io/depends-on": named} if named else {}


_TOOLS: dict[Profile, Callable[[Object, int, Situation], dict[str, str]]] = {
    "argocd": _argocd,
    "flux": _flux,
    "kapp": _kapp,
    "kpt": _kpt,
}
