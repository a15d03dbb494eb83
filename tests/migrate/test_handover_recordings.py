"""Hand-overs of what real operators left in a cluster, and whether the API server agrees.

The first part holds for all recordings; the second brings the live objects of some into a real
API server, without their owner, and applies there what is rendered.
"""

import copy
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from etcompile import compiler, frontends
from etcompile.compiler import Options
from etcompile.diagnostics import Severity
from etcompile.integrations.migrate import Migrated, migrated
from etcompile.kubeapi import ClusterError, connect

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("ETCOMPILE_RECORDINGS", ROOT.parent / "shared" / "oracle"))
OWN = ROOT / "tests" / "oracle"
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


def dumps() -> Iterator[Path]:
    for operator in OPERATORS:
        found = SHARED / operator if (SHARED / operator).is_dir() else OWN / operator
        for path in sorted(found.glob("*/objects*.yaml")):
            if any(map(_is_job, _KIND.findall(path.read_text()))):
                yield path


_KIND = re.compile(r"^apiVersion: (\S+)\nkind: (\S+)$", re.MULTILINE)
"""Of each document of a dump; reading all of them as YAML takes seconds, also of those who collect
other tests."""


def _is_job(named: tuple[str, str]) -> bool:
    kind = frontends.find(*named)
    return kind is not None and bool(kind.pod_templates)


def _documents(path: Path) -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [one for one in yaml.load_all(path.read_text(), loader) if one]


def _jobs(path: Path) -> Iterator[dict[str, Any]]:
    for one in _documents(path):
        if _is_job((one.get("apiVersion"), one.get("kind"))):
            yield one


DUMPS = [*dumps()]


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def handed_over(path: Path) -> Migrated:
    return migrated(compiler.loaded([str(path)], Options(), None).documents)


@pytest.mark.parametrize("path", DUMPS, ids=name)
def test_what_an_operator_left_migrates_to_files_that_render(path: Path, tmp_path: Path) -> None:
    result = handed_over(path)
    problems = [one.message for one in result.diagnostics if one.severity is Severity.ERROR]
    if path.parent.name in REFUSED:
        assert problems
        return
    assert not problems
    for file, text in result.files.items():
        (tmp_path / file).write_text(text)
    overlays = (str(tmp_path),) if "overlay.yaml" in result.files else ()
    compilation = etcompile.compile([str(tmp_path)], Options(overlays=overlays))
    assert compilation.ok
    (job,) = _jobs(path)
    running = (job.get("status") or {}).get("targetWorkers") or ()
    workers = [one for one in compilation.objects if "-worker-" in _pod_name(one)]
    if running:
        assert len(workers) == len(running)


def _pod_name(value: Any) -> str:
    return value["metadata"]["name"] if value["kind"] == "Pod" else ""


# A real API server ------------------------------------------------------------------------------

REAL = [
    path
    for path in DUMPS
    if name(path)
    in {
        "example-scale-out-then-in-objects",
        "mpijob-elastic-objects",
        "pi-openmpi-objects-running",
        "pytorch-simple-objects",
        "xgboost-lightgbm-objects",
    }
]


@pytest.mark.parametrize("path", REAL, ids=name)
def test_the_api_server_takes_over_what_the_table_says(
    path: Path, control_plane, namespace
) -> None:
    """`any time`, `same` and `at the end` are accepted, and `runs on` is refused."""
    table = _fates(handed_over(path).files["HANDOVER.md"])
    assert table
    live = [_orphan(one, namespace) for one in _documents(path) if _is_made(one)]
    live.sort(key=lambda one: one["kind"] == "Pod")  # which name ServiceAccounts
    kubeconfig = control_plane.kubeconfig(
        user="migrator", groups=["system:masters"], namespace=namespace
    )
    with connect(kubeconfig=kubeconfig) as cluster:
        for one in live:
            cluster.create(one, field_manager="operator", field_validation="Ignore")
        for one in _rendered(path, namespace):
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
    found = {}
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| object"):
            objects, meaning = line.strip("| ").split(" | ")
            kind, _, names = objects.partition(" ")
            found.update({((kind, one)): meaning for one in names.split(", ")})
    return found


def _is_made(value: dict[str, Any]) -> bool:
    custom = "." in value["apiVersion"].partition("/")[0]
    owners = value["metadata"].get("ownerReferences") or ()
    by_job = any(one["kind"] == "Job" for one in owners)  # it goes and comes with its Job
    return not by_job and (not custom or value["apiVersion"].startswith("rbac."))


def _orphan(value: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object as the garbage collector leaves it, as far as it can be created again."""
    made = copy.deepcopy(value)
    made.pop("status", None)
    metadata = made["metadata"]
    for field in ("ownerReferences", "uid", "resourceVersion", "generation", "finalizers"):
        metadata.pop(field, None)
    metadata["namespace"] = namespace
    if made["kind"] == "Secret":
        made["data"] = dict.fromkeys(made.get("data", {}), "eA==")
    for subject in made.get("subjects", ()):
        subject["namespace"] = namespace
    if made["kind"] == "Job":  # what the API server adds names the old one's uid
        made["spec"].pop("selector", None)
        labels = made["spec"]["template"]["metadata"].get("labels", {})
        for key in [one for one in labels if "controller-uid" in one or one == "job-name"]:
            del labels[key]
        labels.pop("batch.kubernetes.io/job-name", None)
    return made


def _rendered(path: Path, namespace: str) -> list[dict[str, Any]]:
    result = handed_over(path)
    values = [
        one
        for file, text in result.files.items()
        if file.endswith(".yaml")
        for one in yaml.safe_load_all(text)
        if one and one["kind"] != "Overlay"
    ]
    for value in values:
        value["metadata"].pop("namespace", None)
    compilation = etcompile.compile(values, Options(namespace=namespace))
    assert compilation.ok
    return [dict(one) for one in compilation.objects]
