"""A job's ConfigMap to any of the job's Pods, exactly as the compiler made it the first time.

The same compiler, over the stored job: its Pod must equal the one in Git, or Argo CD and Flux
would not take it for theirs (reference/gitops.md 1.6). A role is lowered for the replicas that are
wanted, never for all: one Pod of a job of a thousand costs what one Pod costs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, structs

from etcompile import backend, emit, overlays
from etcompile.backend import pods, secrets
from etcompile.k8s.objects import LiveObject
from etcompile.model import Job, Member, Role, Settings
from etcompile.model.protocol import STORED_JOB
from etcompile.stages.stored import (
    StoredJobError,
    check_place,
    read_declared,
    read_patches,
    read_text,
)
from etcompile.watch import ownership
from etcompile.watch.state import PodView, Ran, ran, seconds
from etcompile.watch.tracking_labels import Tracking

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


_MOST_COMPARED = 100
"""Of how many different programs of ended Pods it is remembered whether the job declares them."""


def _reading(
    method: Callable[Concatenate["StoredRun", _Given], _Made],
) -> Callable[Concatenate["StoredRun", _Given], _Made]:
    """Has a method blame the stored job for what it cannot make of it."""

    @wraps(method)
    def read(run: "StoredRun", /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
        try:
            return method(run, *args, **kwargs)
        except StoredJobError:
            raise
        except Exception as error:
            raise StoredJobError(f"{STORED_JOB} is broken: {error!r:.300}") from error

    return read


class StoredRun:
    """What a job's ConfigMap says, compiled as far as it is needed.

    Attributes:
        job: The job, as the run that it is.
        settings: How it was compiled.
        spec_hash: The run's identity.
        tracking: What the tool that declares the ConfigMap puts on its objects.
        uid: The ConfigMap's.
        created: When the ConfigMap was created, in seconds since 1970.
        text: The job, as it is written there.
        version: The ConfigMap's resource version.
        namespace: Where it is, whatever the job says.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Reads a live ConfigMap.

        Raises:
            StoredJobError: it holds no job that this version of etcompile can read.
        """
        metadata = config["metadata"]
        self.uid: str = metadata["uid"]
        self.created = seconds(metadata.get("creationTimestamp")) or 0.0
        self.version: str = metadata["resourceVersion"]
        self.namespace: str = metadata["namespace"]
        self.tracking = Tracking.of(metadata)
        self._compared: dict[tuple[str, Ran], str] = {}
        if STORED_JOB not in (config.get("data") or {}):
            raise StoredJobError(f"it has no {STORED_JOB}")
        self.text: str = config["data"][STORED_JOB]
        stored = read_text(self.text)
        check_place(stored.job, metadata)
        self._value, self.settings = stored.value, stored.settings
        try:
            self.job = backend.gang.suited(stored.job, self.settings)
            self.spec_hash = backend.spec_hash(self.job)
        except Exception as error:
            raise StoredJobError(f"{STORED_JOB} is broken: {error!r:.300}") from error

    @cached_property
    def names(self) -> Mapping[str, Role]:
        """The names of the Pods that the job declares, each with its role."""
        return ownership.declared_names(self.job)

    @cached_property
    def _lowered(self) -> "_Lowered":
        resolved, _ = secrets.resolve(self.job, self.settings.secret)
        declared = read_declared(self._value)
        situation = backend.Situation.around(resolved, declared)
        edits = read_patches(self._value)
        return _Lowered(resolved, situation, edits, backend.own_labels(resolved))

    @_reading
    def pods(
        self, role: str, indexes: Iterable[int | None], tracking: Tracking | None = None
    ) -> list[tuple[int | None, LiveObject]]:
        """The Pods of replicas, as they are to be created.

        Args:
            role: The role's name.
            indexes: The replicas' numbers; None for that of a role without numbers.
            tracking: What a tool puts on the job's Pods, if any has been seen: the same as on the
                ConfigMap, unless two parts of Git declare them.

        Returns:
            Those that the job has, each with its number.
        """
        lowered = self._lowered
        wanted = frozenset(indexes)
        found = lowered.job.role(role)
        if found is None:
            return []
        members = tuple(member for member in found.members if member.index in wanted)
        some = structs.replace(found, members=members)
        made = self._patched(some)
        if self.settings.profiles:
            beside = self._beside(some)
            made = backend.annotated(
                (*made, *beside), self.settings.profiles, emit.wave, lowered.situation
            )[: len(made)]
        marks = self.tracking.as_on(tracking) if tracking else self.tracking
        marked = (marks.on(value, self.namespace) for value in made)
        return [(member.index, pod) for member, pod in zip(members, marked, strict=True)]

    @_reading
    def difference(self, pod: PodView) -> str:
        """What a Pod ran that is not what the job declares for its place; empty if nothing is.

        Args:
            pod: A Pod that has ended.
        """
        known = self._compared.get((pod.role, pod.ran))
        if known == "":
            return ""  # as others of its role: none of them need be compiled for this
        found = self._compared.get((pod.name, pod.ran))
        if found is None:
            found = self._difference(pod)
            if len(self._compared) >= _MOST_COMPARED:
                self._compared.clear()  # somebody makes Pods that all run something else
            self._compared[pod.name if found else pod.role, pod.ran] = found
        return found

    def _difference(self, pod: PodView) -> str:
        role, made = self.job.role(pod.role), self.pods(pod.role, [pod.index])
        if role is None or not made:
            return ""
        [(_, compiled)] = made
        main = next(one for one in ran(compiled["spec"]) if one.name == role.template.main)
        patched = bool(self._lowered.edits)
        written = role.template.main_container
        return ownership.difference(pod.ran, main, written, patched=patched)

    @_reading
    def follower(self, role: str, member: Member) -> LiveObject | None:
        """The Pod of a replica that follows a lost one and that the job does not declare.

        It carries no marks of a tool that syncs Git: the tool would remove what Git does not have
        (reference/gitops.md 1.5).

        Args:
            role: The role's name.
            member: The replica.

        Returns:
            The Pod; None if the job has no such role.
        """
        found = self._lowered.job.role(role)
        if found is None:
            return None
        [pod] = self._patched(structs.replace(found, members=(member,)))
        return {**pod, "metadata": {**pod["metadata"], "namespace": self.namespace}}

    def renamed(self, role: str, index: int | None, name: str) -> LiveObject | None:
        """The Pod of a replica under another name, with the host name that it always has.

        Like a follower it carries no marks of a tool that syncs Git, which does not know it.

        Args:
            role: The role's name.
            index: The replica's number.
            name: The Pod's name.

        Returns:
            The Pod; None if the job has no such replica.
        """
        found = self._lowered.job.role(role)
        members = [one for one in found.members if one.index == index] if found else []
        if found is None or not members:
            return None
        [pod] = self._patched(structs.replace(found, members=(members[0],)))
        spec = {"hostname": pod["metadata"]["name"], **pod["spec"]}
        metadata = {**pod["metadata"], "name": name, "namespace": self.namespace}
        return {**pod, "metadata": metadata, "spec": spec}

    def objects(self) -> dict[tuple[str, str], frozenset[str]]:
        """The names of all objects that the job was compiled to, but its Pods and its claims.

        Returns:
            By apiVersion and kind.
        """
        found: dict[tuple[str, str], set[str]] = {}
        for value in backend.lower(self.job, self.settings, backend.Texts(None), ""):
            if value["kind"] not in ("Pod", "PersistentVolumeClaim"):
                kind = value["apiVersion"], value["kind"]
                found.setdefault(kind, set()).add(value["metadata"]["name"])
        if made := {one["metadata"]["name"] for one in self.secrets()}:
            found.setdefault(("v1", "Secret"), set()).update(made)
        return {kind: frozenset(names) for kind, names in found.items()}

    def _patched(self, role: Role) -> Sequence[Mapping[str, Any]]:
        """A role's Pods, as members of their gang and with what overlays change of them."""
        lowered = self._lowered
        made: Sequence[Mapping[str, Any]] = pods.objects(lowered.job, role, self.settings)
        if self.settings.gang != "none":
            made = _ganged(lowered.job, role, self.settings, made)
        return overlays.patched_objects(made, lowered.edits, own_labels=lowered.own_labels).objects

    @_reading
    def secrets(self) -> list[LiveObject]:
        """The Secrets that are made in the cluster, without their keys."""
        return [
            {**value, "metadata": {**value["metadata"], "namespace": self.namespace}}
            for value in backend.generated(self.job, self.settings.secret)
        ]

    def _beside(self, role: Role) -> Sequence[Mapping[str, Any]]:
        """An object of each wave there is: kapp's rules name those before the Pods."""
        if "kapp" not in self.settings.profiles:
            return ()
        job = structs.replace(self._lowered.job, roles=(structs.replace(role, members=()),))
        return backend.lower(job, self.settings, backend.Texts(None), "")


def _ganged(
    job: Job, role: Role, settings: Settings, made: Sequence[Mapping[str, Any]]
) -> Sequence[Mapping[str, Any]]:
    """Pods of a role with the marks of their gang.

    A Pod of each role goes with them, and of each size: what the gang asks for depends on all.
    """
    ranks = {member.place: member for member in role.members}
    members = {one.name: one.members for one in job.roles}
    # Who follows a replica has its place in the gang.
    members[role.name] = tuple(ranks.get(one.place, one) for one in members[role.name])
    roles = tuple(structs.replace(one, members=members[one.name]) for one in job.roles)
    samples = [
        value
        for one in job.roles
        for value in pods.objects(job, structs.replace(one, members=_sizes(one)), settings)
    ]
    whole = structs.replace(job, roles=roles)
    marked = backend.gang.ganged(whole, settings, [*samples, *map(dict, made)])
    return marked[len(marked) - len(made) :]


def _sizes(role: Role) -> tuple[Member, ...]:
    """A replica of each size that there is in a role, the first one first."""
    found = {tuple(sorted(one.resources.items())): one for one in reversed(role.members)}
    return tuple(member for member in role.members if any(member is one for one in found.values()))


class _Lowered(Struct, frozen=True):
    """What all Pods of a run are made with."""

    job: Job
    situation: backend.Situation
    edits: Sequence[overlays.Edit]
    own_labels: frozenset[str]
