"""The layout `staged`: what Pods need, and the Pods, for Flux to sync one after the other."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import commandline
import etcompile
from etcompile import emit
from specs import kubeflow_job, training_job

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*/*/"))
SYSTEM = ("PersistentVolumeClaim", "Job", "Pod", "Deployment", "StatefulSet", "DaemonSet")


def render(*words: Any) -> subprocess.CompletedProcess[str]:
    return commandline.etcompile("render", *words)


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def built(folder: Path) -> list[dict[str, Any]]:
    """What kustomize makes of a folder of ours: everything its kustomizations list, in order."""
    listing = yaml.safe_load((folder / "kustomization.yaml").read_text())
    documents = []
    for name in listing["resources"]:
        path = folder / name
        documents += built(path) if path.is_dir() else [*yaml.safe_load_all(path.read_text())]
    return documents


def identity(value: dict[str, Any]) -> tuple[str, str, str]:
    metadata = value["metadata"]
    return value["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_both_stages_are_all_of_it_and_pods_are_in_the_second(example, tmp_path):
    groups = [
        emit.Group(one.name, one.namespace, tuple(one.objects), one.sources)
        for one in etcompile.compile([example]).groups
    ]
    for name, staged in (("jobs", False), ("staged", True)):
        for path, text in emit.layout(groups, staged=staged).items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    prereqs, pods = built(tmp_path / "staged/prereqs"), built(tmp_path / "staged/pods")
    assert {one["kind"] for one in pods} <= {*SYSTEM}
    assert not {one["kind"] for one in prereqs} & {*SYSTEM}
    whole = built(tmp_path / "jobs")
    assert sorted([*prereqs, *pods], key=identity) == sorted(whole, key=identity)
    assert built(tmp_path / "staged") == [*prereqs, *pods]


def test_the_folders_are_as_documented(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(training_job("bert")))
    out = tmp_path / "out"
    assert render(tmp_path / "job.yaml", "-d", out, "--config", "layout=staged").returncode == 0
    assert files(out) == {
        "etcompile.lock.json",
        "kustomization.yaml",
        "prereqs/kustomization.yaml",
        "prereqs/bert/kustomization.yaml",
        "prereqs/bert/10-prereqs.yaml",
        "prereqs/bert/20-config.yaml",
        "pods/kustomization.yaml",
        "pods/bert/kustomization.yaml",
        "pods/bert/90-launcher.yaml",
        "pods/bert/91-workers.yaml",
    }


def test_a_job_without_pods_leaves_a_folder_from_which_flux_prunes(tmp_path, kubectl_program):
    document = kubeflow_job("PyTorchJob", {"Worker": 2}, runPolicy={"suspend": True})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(document))
    out = tmp_path / "out"
    assert render(tmp_path / "job.yaml", "-d", out, "--config", "layout=staged").returncode == 0
    assert built(out / "pods") == []
    command = [kubectl_program, "kustomize", str(out / "pods")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_check_knows_which_layout_it_is(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(training_job("bert")))
    words = (tmp_path / "job.yaml", "-d", tmp_path / "out")
    assert render(*words, "--config", "layout=staged").returncode == 0
    assert render(*words, "--config", "layout=staged", "--check").returncode == 0
    assert render(*words, "--check").returncode == 1


def test_changing_the_layout_changes_no_object(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(training_job("bert")))
    words = (tmp_path / "job.yaml", "-d", tmp_path / "out")
    assert render(*words).returncode == 0
    before = built(tmp_path / "out")
    done = render(*words, "--config", "layout=staged")
    assert done.returncode == 0, done.stderr
    assert sorted(built(tmp_path / "out"), key=identity) == sorted(before, key=identity)
    changed = training_job("bert")
    changed["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["hostNetwork"] = True
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(changed))
    # What a running Pod refuses is found, wherever its file was.
    assert "ET5008" in render(*words).stderr


# ---- what Flux is told ---------------------------------------------------------------------------


def kustomizations(*words: str) -> list[dict[str, Any]]:
    done = commandline.etcompile("flux", "kustomization", "bert", *words)
    assert done.returncode == 0
    return [*yaml.safe_load_all(done.stdout)]


def test_one_kustomization_neither_waits_nor_forces():
    [kustomization] = kustomizations("--path", "out/prod")
    spec = kustomization["spec"]
    assert (spec["prune"], spec["wait"], spec["force"]) == (True, False, False)
    assert (spec["timeout"], spec["path"]) == ("5m", "./out/prod")
    assert spec["sourceRef"] == {"kind": "GitRepository", "name": "bert"}
    assert not {"namePrefix", "nameSuffix", "targetNamespace", "dependsOn"} & set(spec)


def test_of_two_the_pods_wait_for_what_they_need():
    words = ("--path", "./out/prod/", "--layout", "staged", "--source", "OCIRepository/ml")
    prereqs, pods = kustomizations(*words)
    assert (prereqs["spec"]["path"], pods["spec"]["path"]) == (
        "./out/prod/prereqs",
        "./out/prod/pods",
    )
    assert (prereqs["spec"]["wait"], pods["spec"]["wait"]) == (True, False)
    assert pods["spec"]["dependsOn"] == [{"name": prereqs["metadata"]["name"]}]
    assert {one["spec"]["sourceRef"]["kind"] for one in (prereqs, pods)} == {"OCIRepository"}


def test_what_sops_has_encrypted_is_decrypted_where_it_is():
    [one] = kustomizations("--path", "out", "--decryption-secret", "age")
    prereqs, pods = kustomizations(
        "--path", "out", "--decryption-secret", "age", "--layout", "staged"
    )
    wanted = {"provider": "sops", "secretRef": {"name": "age"}}
    assert (one["spec"]["decryption"], prereqs["spec"]["decryption"]) == (wanted, wanted)
    assert "decryption" not in pods["spec"]
