"""What the annotations of an object depend on, beside the object itself.

Apart so that the tools know neither jobs nor each other.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from etcompile.backend.config import ends_with_run
from etcompile.backend.gates import waits
from etcompile.k8s.objects import Object
from etcompile.model import Job
from etcompile.model.sizes import is_copied

_SMALL = frozenset({"Pod", "Service", "ServiceAccount", "Namespace"})
"""Kinds of which there are thousands, and which do not grow with the job."""


def must_not_be_copied(value: Object) -> bool:
    """Whether an object is too large for the copy of it that a tool would keep in an annotation."""
    return value["kind"] not in _SMALL and not is_copied(value)


class Situation(Struct, frozen=True):
    """What is around an object.

    Args:
        job: The job's name; None for an object that belongs to none.
        namespace: The job's namespace.
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
    def around(cls, job: Job, declared: Job) -> "Situation":
        """What is around the objects of a job.

        Args:
            job: The job, after its intents.
            declared: The job as its document describes it. A Pod is said to wait only for
                replicas that are in both: with those of a ScaleOut too, each ScaleOut would
                change the launcher. Its gate waits for all of them anyway.
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
                for pod, hosts in waits(job).items()
            },
        )
