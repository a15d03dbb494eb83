"""The setting `profile`: what Argo CD, Flux, kapp and kpt are told.

What holds for any output, and what they must never be told: tests/gitops_rules.
"""

import re
from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile import Compilation, Options, SecretMode, Settings
from etcompile.model import PROFILES
from specs import (
    by_name,
    claim,
    compiled,
    errors,
    launcher,
    manifest,
    scale_in,
    scale_out,
    training_job,
    warnings,
)

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))
TOOLS = [(profile,) for profile in PROFILES] + [PROFILES]
SYNC_WAVE = "argocd.argoproj.io/sync-wave"
SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
SUBSTITUTE = "kustomize.toolkit.fluxcd.io/substitute"
DEPENDS_ON = "config.kubernetes.io/depends-on"
CLAIM = claim("checkpoints")

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
each_tool = pytest.mark.parametrize("profiles", TOOLS, ids="+".join)


def options(*profiles: str, **settings: Any) -> Options:
    return Options(settings=Settings(profiles=profiles, **settings))


def rendered(example: Path, *profiles: str) -> Compilation:
    compilation = etcompile.compile([example], options(*profiles, secret=SecretMode("external")))
    assert compilation.ok, compilation.diagnostics
    return compilation


def annotations(value: Any) -> dict[str, str]:
    return value["metadata"].get("annotations", {})


def without_annotations(value: Any) -> Any:
    ours = {k: v for k, v in annotations(value).items() if k.startswith("etcompile.dev/")}
    return {**value, "metadata": {**value["metadata"], "annotations": ours}}


def settings_for(profiles: tuple[str, ...]) -> dict[str, Any]:
    return {"settings": Settings(profiles=profiles)}


@each_example
@each_tool
def test_a_profile_changes_annotations_and_nothing_else(
    example: Path, profiles: tuple[str, ...]
) -> None:
    plain, profiled = rendered(example).objects, rendered(example, *profiles).objects
    for before, after in zip(plain, profiled, strict=True):
        if before["kind"] == "ConfigMap":  # it stores the profiles
            before, after = ({**one, "data": {}} for one in (before, after))  # noqa: PLW2901
        assert without_annotations(before) == without_annotations(after)


@each_example
def test_plain_is_what_no_profile_is(example: Path) -> None:
    assert rendered(example, "plain").objects != ()
    plain, none = rendered(example, "plain").objects, rendered(example).objects
    assert [*map(annotations, plain)] == [*map(annotations, none)]


@each_tool
def test_a_freed_index_that_is_used_again_does_not_change_the_launcher(
    profiles: tuple[str, ...],
) -> None:
    shrunk = [training_job(replicas=3), scale_in("in", 1)]
    before = by_name(compiled(*shrunk, **settings_for(profiles)))
    after = by_name(compiled(*shrunk, scale_out("out", 1), **settings_for(profiles)))
    assert ("Pod", "mnist-worker-2") in after.keys() - before.keys()
    assert before["Pod", "mnist-launcher"] == after["Pod", "mnist-launcher"]


def test_worker_with_a_custom_command_is_progressing_until_it_ends() -> None:
    job = training_job()
    worker = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    worker["containers"][0]["command"] = ["python", "serve.py"]
    objects = by_name(compiled(job, **settings_for(("argocd",))))
    notes = [*annotations(objects["Pod", "mnist-worker-0"])]
    assert notes == [SYNC_WAVE, "etcompile.dev/spec-hash"]


def test_what_an_object_says_itself_stays() -> None:
    declared = {SYNC_WAVE: "-1", SYNC_OPTIONS: "ServerSideApply=true", SUBSTITUTE: "enabled"}
    metadata, data = {"annotations": declared}, {"greeting": "${WORD}"}
    texts = manifest("ConfigMap", "texts", metadata=metadata, data=data)
    objects = by_name(compiled(training_job(), texts, **settings_for(("argocd", "flux"))))
    assert annotations(objects["ConfigMap", "texts"]) == declared


def test_a_label_that_flux_reads_counts_as_said() -> None:
    labels = {"kustomize.toolkit.fluxcd.io/prune": "enabled"}
    marked = {**CLAIM, "metadata": {"name": "checkpoints", "labels": labels}}
    objects = by_name(compiled(training_job(), marked, **settings_for(("flux",))))
    assert annotations(objects["PersistentVolumeClaim", "checkpoints"]) == {}


def test_kpt_starts_the_launcher_after_the_workers_that_there_are() -> None:
    job = training_job(replicas=3)
    job["metadata"]["namespace"] = "ml"
    gone = scale_in("gone", ["mnist-worker-1"])
    gone["metadata"]["namespace"] = "ml"
    objects = by_name(compiled(job, gone, **settings_for(("kpt",))))
    assert annotations(objects["Pod", "mnist-launcher"])[DEPENDS_ON] == (
        "/namespaces/ml/Pod/mnist-worker-0,/namespaces/ml/Pod/mnist-worker-2"
    )
    assert DEPENDS_ON not in annotations(objects["Pod", "mnist-worker-0"])


def test_kpt_needs_a_namespace_and_says_which_it_takes() -> None:
    assert "ET2043" in warnings(training_job(), **settings_for(("kpt",)))
    objects = by_name(compiled(training_job(), **settings_for(("kpt",))))
    assert objects["Pod", "mnist-launcher"]["metadata"]["namespace"] == "default"


def test_more_annotations_than_the_api_server_takes_are_an_error() -> None:
    name = "a-job-with-a-rather-long-name-of-fifty-characters"
    job = training_job(name, replicas=4000)
    assert errors(job, **settings_for(("kpt",))) == ["ET4011"]
    assert errors(job, **settings_for(("argocd", "flux", "kapp"))) == []


def test_pods_in_two_waves_are_warned_about() -> None:
    job = training_job()
    launcher(job)["template"]["metadata"] = {"annotations": {SYNC_WAVE: "5"}}
    assert "ET4012" in warnings(job, **settings_for(("argocd",)))
    assert "ET4012" in warnings(job)


# The page ---------------------------------------------------------------------------------------


def documented() -> dict[str, dict[str, str]]:
    """The tables of the pages on the tools: profile to object to annotations."""
    cells: dict[str, dict[str, str]] = {}
    for page, heading, profile in (
        ("argocd", "object | annotations", "argocd"),
        ("flux", "object | annotations", "flux"),
        ("kustomize", "object | kapp", "kapp"),
        ("kustomize", "object | kpt", "kpt"),
    ):
        text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        [table] = re.findall(
            rf"^\| {re.escape(heading)} \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE
        )
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
        cells[profile] = {name: cell for names, cell in rows for name in names.split(", ")}
    return cells


def test_the_page_says_what_the_code_does() -> None:
    job = training_job("J")
    job["metadata"] = {"name": "j", "namespace": "ns"}
    claim = {**CLAIM, "metadata": {"name": "checkpoints", "namespace": "ns"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    kinds = {
        "`ServiceAccount`": ("ServiceAccount", "j-launcher"),
        "`SSHKey`": ("SSHKey", "j-ssh"),
        "`ExternalSecret`": ("ExternalSecret", "j-ssh"),
        "`ConfigMap` `J-etcompile`": ("ConfigMap", "j-config"),
        "`Service`": ("Service", "j-worker-0"),
        "`PersistentVolumeClaim`": ("PersistentVolumeClaim", "checkpoints"),
        "`Namespace`": ("Namespace", "ns"),
        "worker `Pod`": ("Pod", "j-worker-0"),
        "launcher `Pod`": ("Pod", "j-launcher"),
    }
    tables = documented()
    assert set().union(*tables.values()) == kinds.keys()
    for profile in PROFILES[1:]:
        settings = Settings(profiles=(profile,), secret=SecretMode("external"))
        objects = by_name(compiled(job, claim, namespace, settings=settings))
        for title, key in kinds.items():
            said = annotations(objects[key])
            said.pop("etcompile.dev/spec-hash", None)
            cell = "<br>".join(f"`{k.rpartition('/')[2]}: {v}`" for k, v in said.items())
            cell = cell.replace("etcompile.dev/j-", "etcompile.dev/J-").replace("/j-", "/J-")
            assert tables[profile].get(title, "") == cell, (title, profile)
