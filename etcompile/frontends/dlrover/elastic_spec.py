"""An ElasticJob, read: names, labels, and what changed from version to version of DLRover.

reference/dlrover.md 0 and 3. The operator makes a master and the master makes all other Pods, so
"DLRover" here is both of them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.digest import sha256
from etcompile.frontends.annotations import ANY, NNODES, Annotations, annotations_of, matching
from etcompile.frontends.document_parts import JobDocument
from etcompile.frontends.notes import overwritten
from etcompile.k8s.names import image_parts
from etcompile.model import DLROVER_NEWEST, DLROVER_VERSION, Origin

API_VERSION = "elastic.iml.github.io/v1alpha1"
JOB_LABEL = "elasticjob.dlrover/name"
TYPE_LABEL = "elasticjob.dlrover/replica-type"
INDEX_LABEL = "elasticjob.dlrover/replica-index"

MASTER = "dlrover-master"
"""The master's type, and its role."""
MASTER_PORT = 50001
ALLREDUCE = "AllreduceStrategy"
PARAMETER_SERVERS = "etcompile.dev/parameter-servers"

Version = tuple[int, int]
"""Major and minor: what decides what a master does (reference 0)."""
_OLDEST: Version = (0, 3)
ANNOTATIONS: Annotations = {
    DLROVER_VERSION: matching(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})?", "a version such as 0.6.1"),
    PARAMETER_SERVERS: ANY,
    NNODES: ANY,
}
"""Annotations of our prefix that an ElasticJob may have."""
_IN_TAG = re.compile(r"(?:^|[-_])v?(0\.\d{1,3})(?:\.\d{1,3})?(?=$|[-_.])", re.ASCII)

_CRASHING = ("app.kubernetes.io/name", "elasticjob")
"""A label on which an operator that still runs crashes, on a Pod without an owner (defect d)."""
_LONGEST_SERVICE = 63


class Spec(JobDocument, frozen=True):
    """An ElasticJob, read.

    Args:
        version: Of the DLRover whose operator the job is written for: major and minor.
    """

    version: Version
    mains: Mapping[str, str]

    @property
    def types(self) -> Mapping[str, Mapping[str, Any]]:
        """The types of Pods."""
        types: Mapping[str, Mapping[str, Any]] = self.fields["replicaSpecs"]
        return types

    @property
    def is_allreduce(self) -> bool:
        """Whether all workers are alike and meet at the master."""
        return bool(self.fields.get("distributionStrategy") == ALLREDUCE)

    @property
    def master_pod_stem(self) -> str:
        """What the name of the master's Pod begins with; a Pod's name may be long."""
        return f"elasticjob-{self.name}-{MASTER}"

    @property
    def master_service(self) -> str:
        """The name of the master's Service.

        Upstream's where a Service may have it, else a shorter one. With upstream's, the API server
        refuses the Service, and workers get the address of the master's Pod (reference 7, defect
        21), which nobody knows before the Pod is there.
        """
        if len(self.master_pod_stem) <= _LONGEST_SERVICE:
            return self.master_pod_stem
        digest = sha256(self.name.encode())[:8]
        rest = len(f"elasticjob--{digest}-{MASTER}")
        start = self.name[: _LONGEST_SERVICE - rest].rstrip("-")
        return f"elasticjob-{start}-{digest}-{MASTER}"

    def pod_stem(self, name: str) -> str:
        """What the names of a type's Pods and Services begin with."""
        return f"{self.name}-edljob-{name}"

    def replicas(self, name: str) -> int:
        """How many Pods of a type the document asks for; 0 if absent, as upstream counts."""
        return int(self.types.get(name, {}).get("replicas") or 0)

    def origin(self, name: str) -> Origin:
        """Where a type stands; all types if it is not there."""
        below = (name,) if name in self.types else ()
        return Origin(self.source, ("spec", "replicaSpecs", *below))

    def main_place(self, name: str) -> int:
        """Which container of a type trains."""
        containers = self.types[name]["template"]["spec"]["containers"]
        return [container["name"] for container in containers].index(self.mains[name])

    def main(self, name: str) -> Mapping[str, Any]:
        """The container of a type that trains."""
        containers = self.types[name]["template"]["spec"]["containers"]
        container: Mapping[str, Any] = containers[self.main_place(name)]
        return container


def read_version(source: Source) -> tuple[Version, list[Diagnostic]]:
    """The version of DLRover that a job runs, and what is to be said about it.

    The annotation says it, else the tag of an image that is called after DLRover, the master's
    first. A job that says nothing is taken to run the newest (reference 0).
    """
    metadata = source.data["metadata"]
    annotated = annotations_of(source).get(DLROVER_VERSION)
    if annotated is not None:
        if ANNOTATIONS[DLROVER_VERSION].read(annotated) is None:
            return DLROVER_NEWEST, []
        major, minor, *_ = annotated.removeprefix("v").split(".")
        return max((int(major), int(minor)), _OLDEST), []
    for name in (MASTER, "worker"):
        template = source.data["spec"]["replicaSpecs"].get(name, {}).get("template", {})
        for container in template.get("spec", {}).get("containers", ()):
            repository, tag, _ = image_parts(str(container.get("image", "")))
            if "dlrover" in repository and (match := _IN_TAG.search(tag)):
                major, minor = match[1].split(".")
                return max((int(major), int(minor)), _OLDEST), []
    place = source.locate(("metadata", "name"))
    facts = {"job": metadata["name"], "version": "{}.{}".format(*DLROVER_NEWEST)}
    return DLROVER_NEWEST, [diagnose(codes.ASSUMED_DLROVER_VERSION, place, **facts)]


def pod_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels for a Pod, without the one on which DLRover's operator crashes."""
    return {name: value for name, value in labels.items() if (name, value) != _CRASHING}


def crash_notes(origin: Origin, metadata: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A warning for the label that `pod_labels` leaves out."""
    name, value = _CRASHING
    if metadata.get("labels", {}).get(name) == value:
        reason = "on a Pod without an owner it makes a DLRover operator that still runs crash"
        yield overwritten(origin.locate("labels", name), "label", f"{name}: {value}", reason)
