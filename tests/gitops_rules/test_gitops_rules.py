"""What Argo CD, Flux, kapp, kpt and kubectl may count on in any output.

| rule | test |
|---|---|
| the wave of every emitted kind | `test_every_kind_is_in_its_wave` |
| no wave above the Pods | `test_nothing_is_in_a_wave_above_the_pods` |
| no Force, Replace, hook, TTL, tracking or ApplySet label | `test_nothing_is_written_that_...` |
| no ownerReferences | `test_nothing_has_an_owner` |
| `${` implies `substitute: disabled` | `test_flux_substitutes_nothing_in_a_text_with_a_variable` |
| no selector by `app.kubernetes.io/instance` | `test_nothing_is_selected_by_a_label_of_argo_cd` |
| a scale-out touches added objects and host lists only | `test_a_scale_out_adds_and_...` |
| ids of ApplySets as kubectl computes them | `test_the_id_of_an_applyset_is_kubectls` |
| no field manager begins with `kubectl` | `test_no_field_manager_...` |
| rendering again gives the same bytes | `test_rendering_again_changes_no_byte` |
| an immutable change is caught against the output | `test_a_change_that_pods_refuse_is_...` |
| no private key | `test_no_private_key_leaves`, `test_a_private_key_anywhere_in_a_job_is_refused` |

Over every example of every kind, for each tool, and with what each gang scheduler and each source
of keys brings.
"""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from gitops_renders import (
    CLAIM,
    EXAMPLES,
    NAMESPACE,
    ROOT,
    TOOLS,
    WITH_KEYS,
    annotations,
    objects,
    rendered,
    renders,
)

import etcompile
from commandline import at_a_shell
from etcompile import Options, Settings
from etcompile.cli.main import program
from etcompile.k8s.objects import wave
from etcompile.plan.applysets import applyset_id
from etcompile.plan.step import ObjectRef
from keysources import MODES
from specs import training_job

SYNC_WAVE = "argocd.argoproj.io/sync-wave"
SUBSTITUTE = "kustomize.toolkit.fluxcd.io/substitute"
CHANGE_GROUP = "kapp.k14s.io/change-group"
WAVES = {
    "Namespace": -10,
    "CustomResourceDefinition": -10,
    "ServiceAccount": -10,
    "Role": -10,
    "RoleBinding": -10,
    "SSHKey": -10,
    "ExternalSecret": -10,
    "SealedSecret": -10,
    "SecretProviderClass": -10,
    "Secret": -10,
    "ConfigMap": 0,
    "Service": 0,
    "PodGroup": 0,
    "Workload": 0,
    "PersistentVolumeClaim": 100,
    "Pod": 100,
    "Job": 100,
    "ElasticJob": 0,
}
"""Of each kind that is ever written; a new one has to be thought about here."""

RENDERING_PODS = [
    # Of an ElasticJob that stays one, DLRover's own master makes the Pods.
    example
    for example in EXAMPLES
    if not any(o["kind"] == "ElasticJob" for o in rendered(example, ()).in_order())
]
SCALING = [example for example in EXAMPLES if any(example.glob("scale-*.yaml"))]

each_tool = pytest.mark.parametrize("profiles", TOOLS, ids="+".join)
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)


# Waves ------------------------------------------------------------------------------------------


@each_tool
def test_every_kind_is_in_its_wave(profiles, means) -> None:
    seen = set()
    for value in objects(profiles, means):
        number = WAVES[value["kind"]]
        assert wave(value) == number, value["kind"]
        seen.add(value["kind"])
        notes = annotations(value)
        assert notes.get(SYNC_WAVE) == (str(number) if "argocd" in profiles else None), value[
            "kind"
        ]
        group = notes.get(CHANGE_GROUP, "")
        if group:
            assert "kapp" in profiles
            assert group.endswith(f"-{number}"), value["kind"]
    # Of an input that has them, and of one version of Kubernetes only.
    rare = {"Namespace", "CustomResourceDefinition", "Workload", "ElasticJob"}
    assert seen >= WAVES.keys() - rare


def test_a_namespace_comes_first_and_a_claim_with_the_pods() -> None:
    options = Options("ml", settings=Settings(profiles=("argocd",)))
    compilation = etcompile.compile([training_job(), CLAIM, NAMESPACE], options)
    waves = {value["kind"]: annotations(value)[SYNC_WAVE] for value in compilation.objects}
    assert waves["Namespace"] == "-10"
    assert waves["PersistentVolumeClaim"] == waves["Pod"] == "100"


@each_tool
def test_nothing_is_in_a_wave_above_the_pods(profiles, means) -> None:
    for example, compilation in renders(profiles, means):
        waves = [(wave(value), value["kind"]) for value in compilation.in_order()]
        pods = {number for number, kind in waves if kind in ("Pod", "Job")}
        assert len(pods) == 1, example
        assert max(waves)[0] == max(pods), example


# What is never written --------------------------------------------------------------------------


@each_tool
def test_nothing_is_written_that_restarts_hides_or_claims_an_object(profiles, means) -> None:
    words = (
        "Force=",
        "Replace=",
        "kustomize.toolkit.fluxcd.io/force",
        "argocd.argoproj.io/hook",
        "helm.sh/hook",
        "argocd.argoproj.io/tracking-id",
        "applyset.kubernetes.io",
        "applyset.k8s.io",
        "app.kubernetes.io/instance",
        "kustomize.toolkit.fluxcd.io/name",
        "kubectl.kubernetes.io/last-applied-configuration",
    )
    for value in objects(profiles, means):
        said = json.dumps(value["metadata"])
        assert [word for word in words if word in said] == [], value["kind"]
        assert "ttlSecondsAfterFinished" not in json.dumps(value.get("spec")), value["kind"]
        assert "generateName" not in value["metadata"], value["kind"]


@each_tool
def test_nothing_has_an_owner(profiles, means) -> None:
    for value in objects(profiles, means):
        # Not even where a stored object or a template could have one.
        spec = {key: part for key, part in value.items() if key != "data"}
        assert "ownerReferences" not in json.dumps(spec), value["kind"]


@each_tool
def test_nothing_is_selected_by_a_label_of_argo_cd(profiles, means) -> None:
    selected = 0
    for value in objects(profiles, means):
        assert "app.kubernetes.io/instance" not in json.dumps(value), value["kind"]
        if value["kind"] == "Service":
            selected += 1
            assert value["spec"]["selector"]
    assert selected


@each_tool
def test_flux_substitutes_nothing_in_a_text_with_a_variable(profiles, means) -> None:
    kinds = set()
    for value in objects(profiles, means):
        has = "${" in json.dumps(value)
        marked = annotations(value).get(SUBSTITUTE) == "disabled"
        assert marked == (has and "flux" in profiles), value["kind"]
        kinds |= {value["kind"]} if marked else set()
    assert ("ConfigMap" in kinds) == ("flux" in profiles)


# Changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", SCALING, ids=lambda path: path.name)
@each_tool
def test_a_scale_out_adds_and_changes_only_host_lists(example: Path, profiles) -> None:
    scalers = sorted(example.glob("scale-*.yaml"))
    inputs = [path for path in sorted(example.glob("*.yaml")) if path not in scalers]
    settings = Settings(profiles=profiles)
    before: dict[Any, Any] = {}
    for count in range(len(scalers) + 1):
        compilation = etcompile.compile([*inputs, *scalers[:count]], Options(settings=settings))
        assert compilation.ok, compilation.diagnostics
        after = {(o["kind"], o["metadata"]["name"]): o for o in compilation.in_order()}
        if count and scalers[count - 1].stem.endswith(("out", "more")):
            assert before.keys() < after.keys()
            changed = {key for key in before if before[key] != after[key]}
            assert {kind for kind, _ in changed} <= {"ConfigMap", "Role"}
            for kind, name in changed:
                if kind == "Role":  # a launcher that execs may do so by name: those of the list
                    assert before[kind, name]["rules"][-1]["resourceNames"]
        before = after


@each_example
def test_rendering_again_changes_no_byte(example: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    flags = [flag for profile in TOOLS[-1] for flag in ("--config", f"profile={profile}")]
    first, second = (_rendered_to(out, example, *flags) for _ in range(2))
    assert first == second
    elsewhere = _rendered_to(tmp_path / "other" / "place", example, *flags)
    assert elsewhere == first


def test_rendering_with_another_hash_seed_changes_no_byte() -> None:
    flags = [f"--config=profile={profile}" for profile in TOOLS[-1]]
    flags += ["--config=gang=volcano", "--config=secret=external"]
    texts = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = at_a_shell("render", WITH_KEYS, *flags, env=environment)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1


@pytest.mark.parametrize("example", RENDERING_PODS, ids=lambda path: path.name)
def test_a_change_that_pods_refuse_is_caught_against_the_committed_output(
    example: Path, tmp_path: Path
) -> None:
    files = {path.name: path.read_text() for path in example.glob("*.yaml")}
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    for name, text in files.items():
        (jobs / name).write_text(text)
    before = _rendered_to(out, jobs)
    documents = list(yaml.safe_load_all(files["job.yaml"]))
    for container in _containers(documents[0]):
        container["command"] = ["/elsewhere"]
    (jobs / "job.yaml").write_text(yaml.safe_dump_all(documents))
    done = CliRunner().invoke(program, ["render", str(jobs), "-d", str(out)])
    assert done.exit_code == 2, done.output
    assert "error[ET5008]" in done.stderr
    assert "command" in done.stderr
    assert {p.relative_to(out).as_posix(): p.read_bytes() for p in _files(out)} == before
    # A run of its own may change anything.
    _rendered_to(out, jobs, "--run", "two")


def _containers(document: Any) -> list[Any]:
    """What a job says of its containers: in Pod templates, or for those of its runtime."""
    if isinstance(document, list):
        return [one for part in document for one in _containers(part)]
    if not isinstance(document, dict):
        return []
    if document.get("kind") == "TrainJob":
        return [document["spec"]["trainer"]]
    containers = document.get("containers")
    return containers or [one for part in document.values() for one in _containers(part)]


def _rendered_to(out: Path, *arguments: object) -> dict[str, bytes]:
    done = CliRunner().invoke(program, ["render", *map(str, arguments), "-d", str(out)])
    assert done.exit_code == 0, done.output
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in _files(out)}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# ApplySets and field managers -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "id_"),
    [
        (
            ObjectRef("v1", "Secret", "test", "my-set"),
            "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1",
        ),
        (
            ObjectRef("company.com/v1", "ApplySet", "", "my-set"),
            "applyset-rhp1a-HVAVT_dFgyEygyA1BEB82HPp2o10UiFTpqtAs-v1",
        ),
    ],
    ids=["a Secret", "an object of a cluster"],
)
def test_the_id_of_an_applyset_is_kubectls(parent: ObjectRef, id_: str) -> None:
    """The two of kubectl's own tests."""
    assert applyset_id(parent) == id_
    assert len(id_) == 55


def test_no_field_manager_constant_starts_like_kubectl() -> None:
    """Flux takes over what any manager owns whose name begins so, and so would undo our writes."""
    names, said = set(), set()
    for path in sorted((ROOT / "etcompile").rglob("*.py")):
        text = path.read_text("utf-8")
        if not re.search(r"field_manager=|^(MANAGER|WATCHER)\b", text, re.MULTILINE):
            continue
        for node in ast.walk(ast.parse(text)):
            name = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
            if name in ("MANAGER", "WATCHER"):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                names.add(getattr(importlib.import_module(module), name))
            elif isinstance(node, ast.keyword) and node.arg == "field_manager":
                said.add(ast.unparse(node.value))
    assert names == {"etcompile", "etcompile-applyset", "etcompile-watcher"}
    # The controller kit gets the name from the watcher.
    passed_on = {"field_manager", "self.manager", "self.component"}
    assert said <= {"MANAGER", "WATCHER"} | passed_on, "each write names a manager of these"


def test_no_field_manager_on_the_server_starts_like_kubectl(
    control_plane, namespace, tmp_path
) -> None:
    """As a real API server has recorded who wrote what."""
    job = training_job()
    job["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    config = control_plane.kubeconfig(token="admin-token", namespace=namespace)
    done = subprocess.run(
        [sys.executable, "-m", "etcompile", "apply", "job.yaml", "--timeout", "60s"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "KUBECONFIG": str(config)},
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    managers = set()
    for resource in ("configmaps", "services", "serviceaccounts", "secrets"):
        listed = control_plane.ask("GET", f"/api/v1/namespaces/{namespace}/{resource}")
        for value in listed["items"]:
            if (value["metadata"].get("labels") or {}).get("etcompile.dev/job") or value[
                "metadata"
            ]["name"].startswith("etcompile"):
                managers |= {one["manager"] for one in value["metadata"]["managedFields"]}
    assert managers
    assert managers <= {"etcompile", "etcompile-applyset"}


# Keys -------------------------------------------------------------------------------------------


@each_tool
def test_no_private_key_leaves(profiles, means) -> None:
    for value in objects(profiles, means):
        assert "PRIVATE KEY" not in json.dumps(value), value["kind"]
    for mode in MODES:
        compilation = rendered(WITH_KEYS, profiles, secret=mode, means=means)
        for value in compilation.in_order():
            if value["kind"] == "Secret":
                texts = {**value.get("data", {}), **value.get("stringData", {})}
                assert all(text.startswith("ENC[") for text in texts.values())


@each_example
def test_a_private_key_anywhere_in_a_job_is_refused(example: Path) -> None:
    documents = list(yaml.safe_load_all((example / "job.yaml").read_text()))
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----\n"
    _containers(documents[0])[0]["env"] = [{"name": "KEY", "value": key}]
    inputs = [path for path in sorted(example.glob("*.yaml")) if path.name != "job.yaml"]
    scalers = [path for path in inputs if path.name.startswith("scale")]
    compilation = etcompile.compile([*documents, *(p for p in inputs if p not in scalers)])
    assert "ET4006" in {one.code for one in compilation.diagnostics}
    assert not compilation.groups
