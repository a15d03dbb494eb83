"""What render writes, applied by the real kubectl: `apply -k` of each layout, and `apply -f`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import etcompile
import etcompile.emit
from etcompile import Options
from etcompile.k8s.bookkeeping import copied_annotations
from specs import copy_example

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    path.parent
    for path in (ROOT / "examples").glob("*/*/job.yaml")
    if path.parent.name != "parameter-servers-master"  # which needs DLRover's definitions
)
LAYOUTS = {"jobs": (), "split": ("--config=split=true",), "staged": ("--config", "layout=staged")}

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(control_plane, namespace, kubectl_program) -> Kubectl:
    kubeconfig = control_plane.kubeconfig(token="admin-token", namespace=namespace)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl_program, *map(str, arguments)],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def rendered(example: Path, folder: Path, namespace: str, *more: str) -> list[str]:
    """Renders an example into a namespace; the names of what it compiles to."""
    copy_example(example, folder / "jobs", namespace)
    command = [sys.executable, "-m", "etcompile", "render", folder / "jobs", "-q"]
    subprocess.run([*command, "--namespace", namespace, "-d", folder / "out", *more], check=True)
    compiled = etcompile.compile([folder / "jobs"], Options(namespace=namespace))
    return [f"{one['kind'].lower()}/{one['metadata']['name']}" for one in compiled.objects]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_kubectl_applies_a_folder_and_finds_no_difference_then(
    kubectl: Kubectl, namespace: str, tmp_path: Path, layout: str
) -> None:
    example = ROOT / "examples" / "trainingjob" / "elastic-mnist"
    wanted = rendered(example, tmp_path, namespace, *LAYOUTS[layout])
    out = tmp_path / "out"
    folders = [out / "prereqs", out / "pods"] if layout == "staged" else [out]
    for folder in folders:
        applied = kubectl("apply", "--server-side", "-k", folder)
        assert applied.returncode == 0, applied.stderr
    for name in wanted:
        assert kubectl("get", name).returncode == 0, name
    for folder in folders:
        differs = kubectl("diff", "--server-side", "-k", folder)
        assert differs.returncode == 0, differs.stdout + differs.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kubectl_applies_the_folder_of_every_example(
    kubectl: Kubectl, namespace: str, tmp_path: Path, example: Path
) -> None:
    wanted = rendered(example, tmp_path, namespace)
    applied = kubectl("apply", "-k", tmp_path / "out")
    assert applied.returncode == 0, applied.stderr
    assert len(applied.stdout.splitlines()) == len(wanted)


def test_numbered_files_are_in_the_right_order_for_plain_apply(
    kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    example = ROOT / "examples" / "trainingjob" / "elastic-mnist"
    wanted = rendered(example, tmp_path, namespace)
    (folder,) = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    (folder / "kustomization.yaml").unlink()  # which -f would take for an object
    applied = kubectl("apply", "-f", folder)
    assert applied.returncode == 0, applied.stderr
    assert len(applied.stdout.splitlines()) == len(wanted)


@pytest.mark.parametrize(
    "text", ["a", "<>&" * 9, "\u2028é漢😀", '"\\\n\t\r', "\x01\x1f"], ids=range(5)
)
def test_client_side_kubectl_refuses_exactly_the_reported_sizes(
    kubectl: Kubectl, namespace: str, tmp_path: Path, text: str
) -> None:
    limit = 256 * 1024
    for size, fits in ((limit, True), (limit + 1, False)):
        value: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "data", "namespace": namespace, "annotations": {"team": "nlp"}},
            "data": {"text": text},
        }
        value["data"]["text"] += "a" * (size - copied_annotations(value))
        assert copied_annotations(value) == size
        file = tmp_path / f"{size}.yaml"
        file.write_text(etcompile.emit.to_yaml(value), "utf-8")
        kubectl("delete", "configmap", "data", "--ignore-not-found")
        applied = kubectl("apply", "-f", file)
        assert (applied.returncode == 0) is fits, applied.stderr
        codes = [one.code for one in etcompile.compile([value], Options()).diagnostics]
        assert ("ET2095" in codes) is not fits
        if not fits:
            assert "262144 bytes" in applied.stderr
            assert kubectl("apply", "--server-side", "-f", file).returncode == 0
