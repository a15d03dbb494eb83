"""Annotations for the tool that syncs the output, a function per tool.

Each tool is one function from an object, its wave and what is around it to annotations: those
of reference/gitops.md 9 and nothing else. A new tool is a function here, a row in `_TOOLS` and a
name in `etcompile.model.settings`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, field, structs

from etcompile.backend.job_config import ends_with_run
from etcompile.backend.job_objects import waits
from etcompile.k8s.bookkeeping import ANNOTATIONS_LIMIT, copied_annotations
from etcompile.k8s.objects import Object, wave
from etcompile.model import Job, Profile

_NEVER_DELETED = frozenset({"Namespace", "PersistentVolumeClaim"})
"""Kinds that no tool is to delete."""
_CUSTOM = frozenset({"ExternalSecret", "PodGroup", "SSHKey", "SealedSecret", "SecretProviderClass"})
"""Kinds whose definition may only arrive with the same sync."""
_SMALL = frozenset({"Pod", "Service", "ServiceAccount", "Namespace"})
"""Kinds of which there are thousands, and which do not grow with the job."""
_OPTIONS = "argocd.argoproj.io/sync-options"
_NO_COPY = "kapp.k14s.io/disable-original"


class Situation(Struct, frozen=True):
    """What is around an object.

    Args:
        resident: Names of the Pods that serve others until the run is done.
        waits: Names of the Pods that wait, and of those they wait for.
        waves: The waves of the job's objects, ascending; those of objects that are annotated need
            not be among them before.
        variables: Whether a text of the object contains `${`.
    """

    job: str | None = None
    namespace: str | None = None
    resident: frozenset[str] = frozenset()
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    waves: tuple[int, ...] = ()
    variables: bool = False

    @classmethod
    def around(cls, job: Job, declared: Job, scheduler: str) -> "Situation":
        """What is around the objects of a job.

        Args:
            declared: The job as its document describes it. A Pod is said to wait only for
                replicas that are in both: with those of a ScaleOut too, each ScaleOut would
                change the launcher. Its gate waits for all of them anyway.
            scheduler: The gang scheduler, or `none`. Pods of a gang start together or not at all:
                none may be created after another runs.
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
    """The objects with the annotations of the chosen tools.

    Returns:
        The objects in the same order. An annotation that an object has stays as it is: whoever
        wrote it knows better than a profile for all objects.
    """
    tools = [_TOOLS[profile] for profile in dict.fromkeys(profiles) if profile in _TOOLS]
    if not tools:
        return tuple(objects)
    waves = [wave(value) for value in objects]
    situation = structs.replace(situation, waves=tuple(sorted({*situation.waves, *waves})))
    searched = {there: structs.replace(situation, variables=there) for there in (False, True)}
    # A role's Pods have the same annotations: they share one mapping, as they share a spec.
    shared: dict[tuple[int, tuple[tuple[str, str], ...]], dict[str, str]] = {}
    annotated_objects = []
    for value, number, variables in zip(objects, waves, _with_variables(objects), strict=True):
        around = searched[variables]
        added = {key: text for tool in tools for key, text in tool(value, number, around).items()}
        if not added:
            annotated_objects.append(value)
            continue
        metadata = value["metadata"]
        own = metadata.get("annotations")
        key = (id(own), tuple(added.items()))
        merged = shared.setdefault(key, {**added, **(own or {})})
        annotated_objects.append({**value, "metadata": {**metadata, "annotations": merged}})
    return tuple(annotated_objects)


def _with_variables(objects: Sequence[Object]) -> Iterator[bool]:
    # A role's Pods share one spec: it need not be searched once for each of them.
    known: dict[int, bool] = {}
    for value in objects:
        spec = value.get("spec")
        parts = [*spec.values()] if isinstance(spec, Mapping) else []
        for part in parts:
            if id(part) not in known:
                known[id(part)] = "${" in json.dumps(part)
        others = {key: inner for key, inner in value.items() if key != "spec"}
        yield any(known[id(part)] for part in parts) or "${" in json.dumps(others)


# The tools ----------------------------------------------------------------------------------------


def _argocd(value: Object, wave: int, situation: Situation) -> dict[str, str]:
    """Argo CD: the wave of every object, and what must not be pruned or dry-run.

    No Force, no Replace, no hook on anything: each of them restarts a healthy training
    (reference/gitops.md 0, facts 6 and 7, and 1.7).
    """
    added = {"argocd.argoproj.io/sync-wave": str(wave)}
    kind = value["kind"]
    if kind in _NEVER_DELETED:
        added[_OPTIONS] = "Prune=false,Delete=false"
    elif kind in _CUSTOM:
        added[_OPTIONS] = "SkipDryRunOnMissingResource=true"
    elif kind == "Pod" and value["metadata"].get("name") in situation.resident:
        # A Pod that only serves is healthy once it is ready; without this it is Progressing to
        # its end, which is right only for the Pod that trains (reference/gitops.md 1.2).
        added["argocd.argoproj.io/ignore-restart-policy"] = "true"
    if _must_not_be_copied(value):
        # Else Argo CD keeps a copy of it in an annotation, as kubectl does.
        options = (added.get(_OPTIONS), "ServerSideApply=true")
        added[_OPTIONS] = ",".join(option for option in options if option)
    return added


def _must_not_be_copied(value: Object) -> bool:
    """Whether an object is too large for the copy of it that a tool would keep in an annotation."""
    return value["kind"] not in _SMALL and copied_annotations(value) > ANNOTATIONS_LIMIT


def _flux(value: Object, _wave: int, situation: Situation) -> dict[str, str]:
    """Flux: what must not be substituted, and what must not be pruned.

    Flux has no waves; the launcher's gate does without them (reference/gitops.md 2.3).
    """
    added = {}
    if situation.variables:
        # Substitution would empty the `${...}` of a script (reference/gitops.md 2.5).
        added["kustomize.toolkit.fluxcd.io/substitute"] = "disabled"
    if value["kind"] in _NEVER_DELETED:
        added["kustomize.toolkit.fluxcd.io/prune"] = "Disabled"
    # Flux reads labels too (reference/gitops.md 2.1).
    labels = value["metadata"].get("labels") or {}
    return {key: text for key, text in added.items() if key not in labels}


def _kapp(value: Object, wave: int, situation: Situation) -> dict[str, str]:
    """kapp: a change group for each wave of a job, and each after all that come before it.

    A rule names every earlier wave and not only the last: kapp leaves unchanged objects out of
    its graph, so that a chain of rules could be broken in the middle (reference/gitops.md 4.1).
    """
    # Else kapp keeps a copy of it in an annotation, as kubectl does.
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
    """kpt: the Pods that a Pod waits for.

    kpt applies nothing that depends on an object before that one is ready, and refuses to name an
    object that is not in the package, so only Pods of the output are named.
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
