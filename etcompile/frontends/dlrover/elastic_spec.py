"""What the kinds of DLRover share: names, labels, and what changed from version to version.

reference/dlrover.md 0 and 3. The operator makes a master and the master makes all other Pods, so
"DLRover" here is both of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.digest import sha256
from etcompile.frontends.annotations import NNODES, annotation_value, annotations_of
from etcompile.model import DLROVER_NEWEST, DLROVER_VERSION, Origin

API_VERSION = "elastic.iml.github.io/v1alpha1"
JOB_LABEL = "elasticjob.dlrover/name"
TYPE_LABEL = "elasticjob.dlrover/replica-type"
INDEX_LABEL = "elasticjob.dlrover/replica-index"
RANK_LABEL = "elasticjob.dlrover/rank-index"
RELAUNCH_LABEL = "elasticjob.dlrover/relaunch-count"
APP = {"app": "dlrover"}
CRASHING = ("app.kubernetes.io/name", "elasticjob")
"""A label on which an operator that still runs crashes, on a Pod without an owner (defect d)."""

MASTER = "dlrover-master"
"""The master's type, and its role."""
MASTER_PORT = 50001
_LONGEST_SERVICE = 63
_DIGEST = 8
ALLREDUCE = "AllreduceStrategy"

PARAMETER_SERVERS = "etcompile.dev/parameter-servers"
ANNOTATIONS = (DLROVER_VERSION, PARAMETER_SERVERS, NNODES)
"""Annotations of our prefix that an ElasticJob may have."""

Version = tuple[int, int]
"""Major and minor: what decides what a master does (reference 0)."""
NEWEST: Version = DLROVER_NEWEST
"""The newest that was recorded."""
_OLDEST: Version = (0, 3)

_VERSION = re.compile(r"v?(?P<major>\d{1,3})\.(?P<minor>\d{1,3})(\.\d{1,3})?", re.ASCII)
_IN_TAG = re.compile(r"(?:^|[-_])v?(0\.\d{1,3})(?:\.\d{1,3})?(?=$|[-_.])", re.ASCII)


def master_name(job: str) -> str:
    """The name of the master's Service.

    Upstream's, `elasticjob-JOB-dlrover-master`, where a Service may have it. Of a longer one the
    API server refuses the Service, upstream's operator ignores that, and workers are told the
    address of the master's Pod (reference 7, defect 21). Nobody knows that address before the Pod
    is there, so the Service gets a shorter name: the job's first characters and a digest of all.
    """
    name = master_pod_stem(job)
    if len(name) <= _LONGEST_SERVICE:
        return name
    digest = sha256(job.encode())[:_DIGEST]
    rest = len(f"elasticjob--{digest}-{MASTER}")
    start = job[: _LONGEST_SERVICE - rest].rstrip("-")
    return f"elasticjob-{start}-{digest}-{MASTER}"


def master_pod_stem(job: str) -> str:
    """What the name of the master's Pod begins with; a Pod's name may be long."""
    return f"elasticjob-{job}-{MASTER}"


def pod_stem(job: str, role: str) -> str:
    """What the names of a type's Pods and Services begin with."""
    return f"{job}-edljob-{role}"


def pod_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels for a Pod, without the one on which DLRover's operator crashes."""
    return {name: value for name, value in labels.items() if (name, value) != CRASHING}


def crash_notes(origin: Origin, metadata: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A warning for the label that `pod_labels` leaves out."""
    name, value = CRASHING
    if metadata.get("labels", {}).get(name) == value:
        reason = "on a Pod without an owner it makes a DLRover operator that still runs crash"
        facts = {"where": "label", "name": f"{name}: {value}", "reason": reason}
        yield diagnose(
            codes.OVERWRITTEN, origin.locate("labels", name), **facts, advice="remove it"
        )


class Spec(Struct, frozen=True):
    """An ElasticJob, read.

    Args:
        version: Of the DLRover whose operator the job is written for: major and minor.
        mains: The container that trains, by type.
    """

    source: Source
    version: Version
    mains: Mapping[str, str]

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.source.data["metadata"]["name"])

    @property
    def fields(self) -> Mapping[str, Any]:
        """The document's `spec`."""
        fields: Mapping[str, Any] = self.source.data["spec"]
        return fields

    @property
    def types(self) -> Mapping[str, Mapping[str, Any]]:
        """The types of Pods."""
        types: Mapping[str, Mapping[str, Any]] = self.fields["replicaSpecs"]
        return types

    def replicas(self, name: str) -> int:
        """How many Pods of a type the document asks for; 0 if absent, as upstream counts."""
        return int(self.types.get(name, {}).get("replicas") or 0)

    def origin(self, name: str) -> Origin:
        """Where a type stands; all types if it is not there."""
        return Origin(
            self.source, ("spec", "replicaSpecs", *([name] if name in self.types else []))
        )

    def main(self, name: str) -> Mapping[str, Any]:
        """The container of a type that trains."""
        containers: Sequence[Mapping[str, Any]] = self.types[name]["template"]["spec"]["containers"]
        return next(container for container in containers if container["name"] == self.mains[name])

    def annotation(self, name: str) -> str | None:
        """One of the document's annotations."""
        return annotations_of(self.source).get(name)

    @property
    def is_allreduce(self) -> bool:
        """Whether all workers are alike and meet at the master."""
        return bool(self.fields.get("distributionStrategy") == ALLREDUCE)


def version_of(text: str) -> Version | None:
    """The version that a text stands for: `0.6.1`, `v0.5`; None if it is none."""
    found = _VERSION.fullmatch(text)
    return (int(found["major"]), int(found["minor"])) if found else None


def read_version(source: Source) -> tuple[Version, list[Diagnostic]]:
    """The version of DLRover that a job runs, and what is to be said about it.

    The annotation says it, else the tag of an image that is called after DLRover, the master's
    first. A job that says nothing is taken to run the newest (reference 0).
    """
    metadata = source.data["metadata"]
    given = annotations_of(source).get(DLROVER_VERSION)
    if given is not None:
        if found := version_of(given):
            return max(found, _OLDEST), []
        return NEWEST, [annotation_value(source, DLROVER_VERSION, "a version such as 0.6.1")]
    for image in _images(source.data["spec"]["replicaSpecs"]):
        repository, _, tag = image.partition("@")[0].rpartition(":")
        if "dlrover" in repository and (seen := _IN_TAG.search(tag)):
            return max(version_of(seen[1]) or NEWEST, _OLDEST), []
    place = source.locate(("metadata", "name"))
    facts = {"job": metadata["name"], "version": "{}.{}".format(*NEWEST)}
    return NEWEST, [diagnose(codes.ASSUMED_DLROVER_VERSION, place, **facts)]


def _images(types: Mapping[str, Any]) -> Iterator[str]:
    for name in (MASTER, "worker"):
        spec = types.get(name, {}).get("template", {}).get("spec", {})
        yield from (
            str(container["image"])
            for container in spec.get("containers", ())
            if "image" in container
        )
