"""Read an ElasticJob: names, labels, and differences between versions of DLRover.

See reference/dlrover.md 0 and 3. The operator creates a master and the master creates all other
Pods; "DLRover" here is both of them.
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
MASTER_PORT = 50001
ALLREDUCE = "AllreduceStrategy"
PARAMETER_SERVERS = "etcompile.dev/parameter-servers"

Version = tuple[int, int]
"""Major and minor, which decide what a master does (reference 0)."""
_OLDEST: Version = (0, 3)
ANNOTATIONS: Annotations = {
    DLROVER_VERSION: matching(r"v?\d{1,3}\.\d{1,3}(\.\d{1,3})?", "a version such as 0.6.1"),
    PARAMETER_SERVERS: ANY,
    NNODES: ANY,
}
_IN_TAG = re.compile(r"(?:^|[-_])v?(0\.\d{1,3})(?:\.\d{1,3})?(?=$|[-_.])", re.ASCII)

_CRASHING = ("app.kubernetes.io/name", "elasticjob")
"""A label that crashes a running operator, on a Pod without an owner (defect d)."""
_LONGEST_SERVICE = 63


class Spec(JobDocument, frozen=True):
    """The document of an ElasticJob.

    Args:
        version: The version of DLRover that the job is written for.
        mains: The name of the main container by type.
    """

    version: Version
    mains: Mapping[str, str]

    @property
    def types(self) -> Mapping[str, Mapping[str, Any]]:
        types: Mapping[str, Mapping[str, Any]] = self.fields["replicaSpecs"]
        return types

    @property
    def is_allreduce(self) -> bool:
        return bool(self.fields.get("distributionStrategy") == ALLREDUCE)

    @property
    def master_pod_stem(self) -> str:
        return f"elasticjob-{self.name}-{MASTER}"

    @property
    def master_service(self) -> str:
        """Return the name of the master's Service: upstream's if it is valid, else a shorter one.

        If the API server refuses upstream's name, workers get the address of the master's Pod
        (reference 7, defect 21), which is unknown before the Pod exists.
        """
        if len(self.master_pod_stem) <= _LONGEST_SERVICE:
            return self.master_pod_stem
        digest = sha256(self.name.encode())[:8]
        rest = len(f"elasticjob--{digest}-{MASTER}")
        start = self.name[: _LONGEST_SERVICE - rest].rstrip("-")
        return f"elasticjob-{start}-{digest}-{MASTER}"

    def pod_stem(self, name: str) -> str:
        return f"{self.name}-edljob-{name}"

    def replicas(self, name: str) -> int:
        """Return how many Pods of a type the document asks for; 0 if absent, as upstream counts."""
        return int(self.types.get(name, {}).get("replicas") or 0)

    def origin(self, name: str) -> Origin:
        below = (name,) if name in self.types else ()
        return Origin(self.source, ("spec", "replicaSpecs", *below))

    def main_place(self, name: str) -> int:
        containers = self.types[name]["template"]["spec"]["containers"]
        return [container["name"] for container in containers].index(self.mains[name])

    def main(self, name: str) -> Mapping[str, Any]:
        containers = self.types[name]["template"]["spec"]["containers"]
        container: Mapping[str, Any] = containers[self.main_place(name)]
        return container


def read_version(source: Source) -> tuple[Version, list[Diagnostic]]:
    """Return the version of DLRover that a job runs, with a warning if it is assumed.

    The annotation sets it, else the tag of an image with DLRover in its name, the master's first.
    Otherwise it is the newest (reference 0).
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
    """Remove the label on which DLRover's operator crashes."""
    return {name: value for name, value in labels.items() if (name, value) != _CRASHING}


def crash_notes(origin: Origin, metadata: Mapping[str, Any]) -> Iterator[Diagnostic]:
    name, value = _CRASHING
    if metadata.get("labels", {}).get(name) == value:
        reason = "on a Pod without an owner it makes a DLRover operator that still runs crash"
        yield overwritten(origin.locate("labels", name), "label", f"{name}: {value}", reason)
