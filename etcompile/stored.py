"""A job as the watcher reads it: `job.yaml` in the job's ConfigMap.

It holds the document after overlays, the workers that scale intents left, the settings it was
compiled with and the overlays' patches of its Pods and Services; that is all the compiler needs
to make any of the job's Pods again.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends, overlays
from etcompile.diagnostics import Location, ValuePath
from etcompile.load import without_nulls
from etcompile.model import Job, Member, Role, SecretMode, Settings
from etcompile.model.run import in_run

API_VERSION = "etcompile.dev/v1alpha1"
KIND = "StoredJob"


class StoredJobError(Exception):
    """A stored job is not one that this version of etcompile can read."""


def stored_value(
    job: Job, settings: Settings, patches: Sequence[overlays.Edit] = ()
) -> dict[str, Any]:
    """The stored form of a job.

    Args:
        job: The job, after its intents.
        settings: The settings it is compiled with.
        patches: The edits of overlays that touch its Pods and Services, in order.

    Returns:
        A JSON value. Members are written as runs of indexes, so that adding two workers to a
        thousand changes one line.
    """
    value = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "namespace": job.namespace,
        "document": job.document,
        "members": {role.name: list(_runs(role)) for role in job.roles if role.bounds},
        "settings": settings_value(settings),
    }
    stored: dict[str, Any] = without_nulls(value)
    # Here a null is not absent: in a patch it removes something.
    return {**stored, "patches": [*map(overlays.stored_patch, patches)]} if patches else stored


def settings_value(settings: Settings) -> dict[str, Any]:
    """The settings as a JSON value, without those that are not set."""
    value: dict[str, Any] = without_nulls(
        {
            "services": settings.services,
            "secret": str(settings.secret.stored),
            "kubernetesVersion": settings.kubernetes_version,
            "initImage": settings.init_image,
            "kubectlImage": settings.kubectl_image,
            "clusterDomain": settings.cluster_domain,
            "profiles": list(settings.profiles) or None,
            "run": settings.run,
            "gang": settings.gang if settings.gang != "none" else None,
            "gangScheduler": settings.gang_scheduler,
        }
    )
    return value


def with_patches(job: Job, patches: Sequence[overlays.Edit]) -> Job:
    """The job as a run of its own, if the patches change what its Pods do."""
    changing = [
        overlays.stored_patch(edit)
        for edit in patches
        if edit.target.kind == "Pod" and not edit.metadata_only
    ]
    if not changing:
        return job
    return structs.replace(job, identity={**job.identity, "patches": changing})


def read_stored(value: Mapping[str, Any]) -> tuple[Job, Settings]:
    """The job and the settings of a stored form.

    Args:
        value: What `stored_value` made, read back.

    Raises:
        StoredJobError: the value is of another version, or its document does not compile.
    """
    lowered = read_declared(value)
    roles = tuple(
        structs.replace(role, members=tuple(_members(value["members"][role.name])))
        if role.name in value["members"]
        else role
        for role in lowered.roles
    )
    job = structs.replace(lowered, roles=roles, namespace=value.get("namespace"))
    settings = _settings(value["settings"])
    return in_run(with_patches(job, read_patches(value)), settings.run), settings


def read_declared(value: Mapping[str, Any]) -> Job:
    """The job of a stored form as its document describes it: before intents, of no run.

    Args:
        value: What `stored_value` made, read back.

    Raises:
        StoredJobError: the value is of another version, or its document does not compile.
    """
    if (value.get("apiVersion"), value.get("kind")) != (API_VERSION, KIND):
        raise StoredJobError(f"not a {KIND} of {API_VERSION}")
    document = value["document"]
    kind = frontends.find(document.get("apiVersion"), document.get("kind"))
    lowered = kind.lower(_Unlocated(document)).value if kind else None
    if not isinstance(lowered, Job):
        raise StoredJobError(f"its {document.get('kind')} does not compile")
    return lowered


def read_patches(value: Mapping[str, Any]) -> tuple[overlays.Edit, ...]:
    """The edits that a stored job carries, for `overlays.patched_objects`.

    Args:
        value: What `stored_value` made, read back.
    """
    return overlays.stored_edits(_Unlocated(value), ("patches",)) if "patches" in value else ()


def _settings(value: Mapping[str, Any]) -> Settings:
    kind, _, name = value["secret"].partition(":")
    return Settings(
        services=value["services"],
        secret=SecretMode(kind, name or None),
        kubernetes_version=value["kubernetesVersion"],
        init_image=value.get("initImage"),
        kubectl_image=value.get("kubectlImage"),
        cluster_domain=value["clusterDomain"],
        profiles=tuple(value.get("profiles", ())),
        run=value.get("run"),
        gang=value.get("gang", "none"),
        gang_scheduler=value.get("gangScheduler"),
    )


def _runs(role: Role) -> Iterator[dict[str, Any]]:
    def run(place_and_member: tuple[int, Member]) -> tuple[Any, ...]:
        place, one = place_and_member
        index = one.index or 0
        rank = None if one.rank is None else one.rank - index
        return index - place, one.labels, rank, one.relaunches, one.resources

    for _, found in itertools.groupby(enumerate(role.members), key=run):
        members = [member for _, member in found]
        first = members[0]
        yield {
            "from": first.index,
            "to": members[-1].index,
            **({"labels": dict(first.labels)} if first.labels else {}),
            **({"rank": first.rank} if first.rank is not None else {}),
            **({"relaunches": first.relaunches} if first.relaunches else {}),
            **({"resources": dict(first.resources)} if first.resources else {}),
        }


def _members(runs: list[Mapping[str, Any]]) -> Iterator[Member]:
    for run in runs:
        for index in range(run["from"], run["to"] + 1):
            yield Member(
                index,
                run.get("labels", {}),
                run["rank"] + index - run["from"] if "rank" in run else None,
                run.get("relaunches", 0),
                run.get("resources", {}),
            )


class _Unlocated(Struct, frozen=True):
    """A document that comes from no file."""

    data: Any
    relative: str = "job.yaml"

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:  # noqa: ARG002
        return Location("job.yaml")
