"""What people call a job in a cluster to the job: `NAME`, `KIND/NAME`, or the name of a Pod."""

import contextlib

from msgspec import Struct

from etcompile import frontends
from etcompile.diagnostics import RefusedError, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.k8s.names import is_label, is_subdomain
from etcompile.k8s.pods import KUBECTL_NAMES
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.status.job_status import is_config, jobs_among


class NoSuchJobError(RefusedError):
    """No ConfigMap declares a job of that name; the diagnostic names those that may be meant."""


class AnotherJobError(RefusedError):
    """The name is not that of a job: its kind is wrong, or its Pod belongs to none."""


class JobName(Struct, frozen=True):
    """A job in a cluster."""

    name: str
    namespace: str | None  # None for all that have a job of this name
    pod: str = ""  # that it was named by


def find_job(cluster: Cluster, word: str, namespace: str | None) -> JobName:
    """Find the job that a word names.

    Args:
        word: `bert`, `pytorchjob/bert`, `bert-worker-0` or `pod/bert-worker-0`; kinds as kubectl
            takes them.
        namespace: Where; None for all namespaces.

    Raises:
        NoSuchJobError: there is no such job.
        AnotherJobError: the kind is unknown or that of no such job, or the Pod belongs to no job.
        ClusterError: the cluster cannot be read.
    """
    kind, slash, name = word.rpartition("/")
    is_pod = kind.lower() in KUBECTL_NAMES
    kinds = {known.name for known in frontends.jobs_called(kind)} if slash and not is_pod else set()
    if slash and not (is_pod or kinds):
        every = {known.name.lower() for known in frontends.kinds() if known.pod_templates}
        known_kinds = f"kinds are pod, {', '.join(sorted(every))}"
        raise _another(word, f"there is no kind '{kind}' of jobs", known_kinds)
    if is_label(name) and not is_pod:
        maps = cluster.resource("v1", "ConfigMap")
        labelled = cluster.list(maps, namespace, labels=f"{JOB_LABEL}={name}").items
        jobs = jobs_among(value for value in labelled if is_config(value))
        meant = [its for its in jobs if not kinds or its.job is None or its.job.kind in kinds]
        if meant:
            return JobName(name, meant[0].namespace if len(meant) == 1 else namespace)
        for job in (its.job for its in jobs if its.job):
            raise _another(word, f"the job '{name}' is a {job.kind}", f"leave out {kind}/")
    if is_subdomain(name) and not kinds:
        resource, fields = cluster.resource("v1", "Pod"), f"metadata.name={name}"
        pods = [pod["metadata"] for pod in cluster.list(resource, namespace, fields=fields).items]
        owned = [pod for pod in pods if (pod.get("labels") or {}).get(JOB_LABEL)]
        if owned:
            where = owned[0]["namespace"] if len(owned) == 1 else namespace
            return JobName(owned[0]["labels"][JOB_LABEL], where, name)
        if is_pod and pods:
            raise _another(word, "the Pod belongs to no job", "etcompile status lists the jobs")
    if is_pod:
        raise _another(word, f"there is no such Pod in {_place(namespace)}", "name its job instead")
    raise _no_such_job(cluster, name, namespace)


def _another(word: str, problem: str, advice: str) -> AnotherJobError:
    facts = {"name": word, "problem": problem, "advice": advice}
    return AnotherJobError([diagnose(codes.ANOTHER_JOB, None, **facts)])


def _place(namespace: str | None) -> str:
    return f"namespace '{namespace}'" if namespace else "any namespace"


def _no_such_job(cluster: Cluster, job: str, namespace: str | None) -> NoSuchJobError:
    """The error for a job that is not there, with the names that may be meant."""
    resource, jobs = cluster.resource("v1", "ConfigMap"), set[tuple[str, str]]()
    for where in (namespace, None):  # wherever this user may look
        with contextlib.suppress(ClusterError):
            for value in cluster.list(resource, where, labels=JOB_LABEL, metadata_only=True).items:
                jobs.add((value["metadata"]["namespace"], value["metadata"]["labels"][JOB_LABEL]))
    here = [name for place, name in sorted(jobs) if namespace in (None, place)]
    if elsewhere := sorted(place for place, name in jobs if name == job):
        advice = f"it is in namespace '{elsewhere[0]}': add -n {elsewhere[0]}"
    elif close := probably(job, here):
        advice = f"did you mean '{close}'?"
    elif here:
        advice = f"jobs there: {', '.join(dict.fromkeys(here[:8]))}"
    else:
        advice = "there are no jobs at all: has it been applied, and is this the right cluster?"
    facts = {"job": job, "where": _place(namespace), "advice": advice}
    return NoSuchJobError([diagnose(codes.NO_SUCH_JOB_IN_CLUSTER, None, **facts)])
