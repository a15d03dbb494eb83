"""Build all objects of a job, or only the Pods of some replicas.

Only this module knows which modules make up a job; each of them can be read alone. It also says
which Pods wait for which, and which decide the run.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from etcompile.backend import gang, job_config, role_pods, secrets, services
from etcompile.backend.identity import job_labels, job_object, metadata, spec_hash
from etcompile.backend.texts import Texts
from etcompile.model import Job, Member, Settings

_RBAC = "rbac.authorization.k8s.io"


def lower(job: Job, settings: Settings, texts: Texts, stored: str) -> tuple[dict[str, Any], ...]:
    """Return the Kubernetes objects of a job, in no particular order (`etcompile.emit` sorts)."""
    job, sources = secrets.resolve(gang.suited(job, settings), settings.secret)
    objects = [
        *sources,
        *_account(job),
        job_config.config_map(job, settings, texts, stored),
    ]
    # The data of claims is not the job's to delete. etcompile deletes no claim that is not named
    # (`etcompile.plan.owners`); annotations make Argo CD and Flux keep them.
    for claim in job.claims:
        labels = {**job_labels(job), **claim.labels, **job.selector}
        notes = {"annotations": dict(claim.annotations)} if claim.annotations else {}
        head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        meta = metadata(job, claim.name, labels, **notes)
        objects.append({**head, "metadata": meta, "spec": dict(claim.spec)})
    # Custom resources that a program of the job reads; the administrator installs their
    # definitions.
    for custom in () if job.run.suspended else job.custom:
        head = {"apiVersion": custom.api_version, "kind": custom.kind}
        meta = metadata(job, custom.name, {**job_labels(job), **custom.labels})
        objects.append({**head, "metadata": meta, "spec": dict(custom.spec)})
    if not job.run.suspended or job.service:
        objects += services.objects(job, settings)
    run = spec_hash(job)
    for role in job.roles:
        if not job.run.suspended or role.batch:
            objects += role_pods.objects(job, role, settings, run)
    return tuple(gang.ganged(job, settings, objects))


def _account(job: Job) -> list[dict[str, Any]]:
    """Return ServiceAccount, Role and RoleBinding, which allow Pods to use the Kubernetes API.

    The account always exists, because Pods name it; a Role only if there is something to allow
    (reference/et-operator.md 6, defects 6 and 40). Role and binding have the account's name if the
    job creates it, as upstream, and `JOB-launcher` if the account is the user's.
    """
    access = job.access
    if access is None:
        return []
    objects: list[dict[str, Any]] = []
    if access.create_account:
        objects.append(job_object(job, "v1", "ServiceAccount", access.account))
    if access.rules:
        name = access.role or f"{job.name}-launcher"
        rules = [dict(rule) for rule in access.rules]
        if access.exec_into is not None:
            # A rule without names would allow exec into every Pod of the namespace, so without
            # Pods there is no rule (reference/training-operator.md 7, defect 41).
            role = job.role(access.exec_into)
            names = [role.pod_name(member) for member in role.members] if role else []
            rules = [
                {**rule, "resourceNames": names} if "pods/exec" in rule["resources"] else rule
                for rule in rules
                if names or "pods/exec" not in rule["resources"]
            ]
        account = {"kind": "ServiceAccount", "name": access.account, "namespace": job.namespace}
        role_ref = {"apiGroup": _RBAC, "kind": "Role", "name": name}
        binding = {"subjects": [account], "roleRef": role_ref}
        objects.append(job_object(job, f"{_RBAC}/v1", "Role", name, rules=rules))
        objects.append(job_object(job, f"{_RBAC}/v1", "RoleBinding", name, **binding))
    return objects


def lower_pods(
    job: Job, name: str, members: Sequence[Member], settings: Settings, run: str
) -> tuple[dict[str, Any], ...]:
    """Return the Pods of some replicas, as `lower` makes them, at the cost of those alone.

    Args:
        members: Replicas of that role, in the order of the result. A replica that the job does not
            have replaces the one at its place.
        run: The run's hash, which takes longer to compute than a Pod to build.
    """
    job, _ = secrets.resolve(gang.suited(job, settings), settings.secret)
    role = next(candidate for candidate in job.roles if candidate.name == name)
    few = structs.replace(role, members=tuple(members))
    replicas = role_pods.objects(job, few, settings, run)
    if settings.gang == "none":
        return tuple(replicas)
    in_place = {member.place: member for member in members}
    present = tuple(in_place.get(member.place, member) for member in role.members)
    roles = (
        structs.replace(other, members=present) if other is role else other for other in job.roles
    )
    samples: list[dict[str, Any]] = []
    for sampled in job.roles:
        # The first replica of each size in the role.
        sizes: dict[tuple[tuple[str, str], ...], Member] = {}
        for member in sampled.members:
            sizes.setdefault(tuple(sorted(member.resources.items())), member)
        few = structs.replace(sampled, members=tuple(sizes.values()))
        samples += role_pods.objects(job, few, settings, run)
    job = structs.replace(job, roles=tuple(roles))
    return tuple(gang.members(job, settings, replicas, samples))


def namespace_reason(job: Job, settings: Settings) -> str | None:
    if job.access is not None and job.access.rules:
        return "the subject of its RoleBinding must name one"
    if job.names_namespace:
        return job.names_namespace
    searched = job.has_bare_names
    if searched and job.is_behind_one_service(settings.services):
        return "the DNS search domain of shared Services must name one"
    if "kpt" in settings.profiles and any(role.additions.gate for role in job.roles):
        return "kpt's depends-on must name one"
    return secrets.namespace_reason(job, settings.secret)


def waits(job: Job) -> dict[str, tuple[str, ...]]:
    if job.run.suspended:
        return {}
    return {
        role.pod_name(member): tuple(
            other.pod_name(host)
            for other in job.roles
            if other.name in role.additions.gate.awaited
            for host in other.members
        )
        for role in job.roles
        if role.additions.gate
        for member in role.members
    }


def deciding(job: Job) -> tuple[tuple[str, ...], ...]:
    """Return sets of Pod names; the run succeeds when all Pods of any one set have."""
    if job.run.suspended:
        return ()
    success = job.run.success
    roles = [role for role in job.roles if role.name in success.roles]
    names = tuple(role.pod_name(member) for role in roles for member in role.members)
    if success.needs == "any":
        return tuple((name,) for name in names)
    if success.needs == "first":
        # Unnumbered and first replicas decide; without any, all do.
        first = tuple(
            role.pod_name(member)
            for role in roles
            for member in role.members
            if member.index in (0, None)
        )[:1]
        return tuple(dict.fromkeys(watched for watched in (first, names) if watched))
    return (names,) if names else ()
