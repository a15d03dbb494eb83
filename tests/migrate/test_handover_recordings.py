"""Hand-overs of what real operators left in a cluster, and whether the API server agrees.

The first part holds for all recordings; the second brings the live objects of some into a real
API server, without their owner, and applies there what is rendered.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
from dumps import handed_over, put, rendered_in
from msgspec import Struct

import etcompile
from etcompile import frontends
from etcompile.compiler.choices import Options
from etcompile.diagnostics import Severity
from etcompile.kubeapi import ClusterError, connect
from operator_recordings import recordings

OPERATORS = ("et-operator", "mpi-operator", "training-operator")
REFUSED = {
    "crash-empty-containers",
    "crash-no-replicas",
    "crash-no-spec",
    "invalid-launcher-replicas",
    "invalid-no-launcher",
    "invalid-restart-policy",
    "invalid-worker-replicas-missing",
    "tfjob-managed-by-other",
}
"""Their custom resources are not valid, or another controller's."""


class Dump(Struct, frozen=True, eq=False):
    """What stood in a cluster at some moment of a recording."""

    recording: str
    moment: str
    objects: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The name of its tests."""
        return f"{self.recording}-{self.moment}"


def _is_job(value: dict[str, Any]) -> bool:
    kind = frontends.find(value["apiVersion"], value["kind"])
    return kind is not None and bool(kind.pod_templates)


DUMPS = [
    Dump(recording.name, moment, objects)
    for operator in OPERATORS
    for recording in recordings(operator)
    for moment, objects in recording.objects.items()
    if any(map(_is_job, objects))
]


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name)
def test_what_an_operator_left_migrates_to_files_that_render(dump: Dump, tmp_path: Path) -> None:
    result = handed_over(dump.objects, tmp_path)
    problems = [one.message for one in result.diagnostics if one.severity is Severity.ERROR]
    if dump.recording in REFUSED:
        assert problems
        return
    assert not problems
    folder = put(result, tmp_path / "migrated")
    overlays = (str(folder),) if "overlay.yaml" in result.files else ()
    compilation = etcompile.compile([str(folder)], Options(overlays=overlays))
    assert compilation.ok
    (job,) = filter(_is_job, dump.objects)
    running = (job.get("status") or {}).get("targetWorkers") or ()
    workers = [one for one in compilation.objects if "-worker-" in _pod_name(one)]
    if running:
        assert len(workers) == len(running)


def _pod_name(value: Any) -> str:
    return value["metadata"]["name"] if value["kind"] == "Pod" else ""


# A real API server ------------------------------------------------------------------------------

REAL = [
    dump
    for dump in DUMPS
    if dump.name
    in {
        "example-scale-out-then-in-objects",
        "mpijob-elastic-objects",
        "pi-openmpi-objects-running",
        "pytorch-simple-objects",
        "xgboost-lightgbm-objects",
    }
]


@pytest.mark.parametrize("dump", REAL, ids=lambda dump: dump.name)
def test_the_api_server_takes_over_what_the_table_says(
    dump: Dump, control_plane, namespace, tmp_path
) -> None:
    """`any time`, `same` and `at the end` are accepted, and `runs on` is refused."""
    result = handed_over(dump.objects, tmp_path)
    table = _fates(result.files["HANDOVER.md"])
    assert table
    live = [_orphan(one, namespace) for one in dump.objects if _is_compiled(one)]
    live.sort(key=lambda one: one["kind"] == "Pod")  # which name ServiceAccounts
    kubeconfig = control_plane.kubeconfig(
        user="migrator", groups=["system:masters"], namespace=namespace
    )
    with connect(kubeconfig=kubeconfig) as cluster:
        for one in live:
            cluster.create(one, field_manager="operator", field_validation="Ignore")
        for one in rendered_in(namespace, result):
            meaning = table.get((one["kind"], one["metadata"]["name"]))
            if meaning is None:
                continue
            if "stays as the operator made it" in meaning or "cannot become" in meaning:
                with pytest.raises(ClusterError) as refused:
                    cluster.server_side_apply(one, force=True)
                assert refused.value.invalid, meaning
            else:
                cluster.server_side_apply(one, force=True)


def _fates(text: str) -> dict[tuple[str, str], str]:
    fates = {}
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| object"):
            objects, meaning = line.strip("| ").split(" | ")
            kind, _, names = objects.partition(" ")
            fates.update({((kind, one)): meaning for one in names.split(", ")})
    return fates


def _is_compiled(value: dict[str, Any]) -> bool:
    custom = "." in value["apiVersion"].partition("/")[0]
    owners = value["metadata"].get("ownerReferences") or ()
    by_job = any(one["kind"] == "Job" for one in owners)  # it goes and comes with its Job
    return not by_job and (not custom or value["apiVersion"].startswith("rbac."))


def _orphan(value: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object as the garbage collector leaves it, as far as it can be created again."""
    copied = copy.deepcopy(value)
    copied.pop("status", None)
    metadata = copied["metadata"]
    for field in ("ownerReferences", "uid", "resourceVersion", "generation", "finalizers"):
        metadata.pop(field, None)
    metadata["namespace"] = namespace
    if copied["kind"] == "Secret":
        copied["data"] = dict.fromkeys(copied.get("data", {}), "eA==")
    for subject in copied.get("subjects", ()):
        subject["namespace"] = namespace
    if copied["kind"] == "Job":  # what the API server adds names the old one's uid
        copied["spec"].pop("selector", None)
        labels = copied["spec"]["template"]["metadata"].get("labels", {})
        for key in [one for one in labels if "controller-uid" in one or one == "job-name"]:
            del labels[key]
        labels.pop("batch.kubernetes.io/job-name", None)
    return copied
