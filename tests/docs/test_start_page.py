"""docs/start.md and the first minutes of the README, line by line, against a real API server.

Not as on the page: etcompile is the one that is tested, no cluster is made, and where a cluster has
a kubelet and a controller manager, the test says that Pods are ready and makes the namespace's
ServiceAccount, and nobody has logs of Pods.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from apply.kubelet import Kubelet
from walking import Block, Shell, blocks

_ROOT = Path(__file__).parents[2]
PAGE = (_ROOT / "docs" / "start.md").read_text("utf-8")
README = (_ROOT / "README.md").read_text("utf-8")
BLOCKS = blocks(PAGE)
NAMESPACE = "training"
"""On the pages. Other tests have jobs there, so that each page gets a namespace of its own."""
_LEFT_OUT = re.compile(r"kubectl .*\blogs |git clone|uv tool install|kind create")


@pytest.fixture
def kubelet(control_plane, request) -> Iterator[Kubelet]:
    """Says of each Pod of the page's namespace that it is ready; the page makes the namespace."""
    kubelet = Kubelet(control_plane, request.param)
    yield kubelet
    kubelet.stop()


@pytest.fixture
def shell(control_plane, kubectl_program, tmp_path) -> Iterator[Shell]:
    """A shell as a user has it, in which kubectl and etcompile find the cluster."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kubectl").symlink_to(kubectl_program)
    shell = Shell(
        tmp_path,
        {
            "KUBECONFIG": str(control_plane.kubeconfig(token="admin-token")),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        },
    )
    yield shell
    shell.close()


def on_the_machine_of_the_test(block: Block, namespace: str) -> Block:
    """The block in a namespace of its own.

    It is without what installs programs, and without what only a kubelet can answer.
    """
    lines = block.text.splitlines(keepends=True)
    text = "".join(line for line in lines if not _LEFT_OUT.match(line))
    return structs.replace(block, text=in_namespace(text, namespace))


def in_namespace(text: str, namespace: str) -> str:
    return re.sub(rf"\b{NAMESPACE}\b", namespace, text)


@pytest.mark.parametrize("kubelet", ["start"], indirect=True)
def test_the_first_five_minutes_go_as_the_page_says(
    shell, kubelet, control_plane, tmp_path
) -> None:
    outputs: dict[str, str] = {}
    for block in BLOCKS:
        output = shell.run(on_the_machine_of_the_test(block, "start")).check()
        if "create namespace" in block.text:
            control_plane.service_account("start", "default")
        outputs[block.heading] = outputs.get(block.heading, "") + output
    page = in_namespace(PAGE, "start")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shown = [text.splitlines() for language, text in fences if not language]
    assert [line for line in shown[0] if line not in outputs["A job"]] == []
    assert [line for line in shown[1] if line not in outputs["In the cluster"]] == []
    of_this_moment = ("Age:", "Goodput:")
    assert [
        line
        for line in shown[2]
        if line not in outputs["Lose a worker"] and not line.startswith(of_this_moment)
    ] == []
    assert "pod/hello-worker-1 condition met" in outputs["Lose a worker"]
    assert "PodReplaced" in outputs["Lose a worker"]
    assert "No resources found" in outputs["Clean up"]
    log = (tmp_path / "home" / "first" / "watcher.log").read_text()
    assert re.search(r"hello-worker-1: deleted: recreated in \d+\.\d s", log)
    assert "ERROR" not in log
    assert "Traceback" not in log


@pytest.mark.parametrize("kubelet", ["readme"], indirect=True)
def test_the_first_minutes_of_the_readme_go_as_it_says(
    shell, kubelet, control_plane, tmp_path
) -> None:
    [job] = re.findall(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "home" / "hello.yaml").write_text(job)
    output = ""
    for block in blocks(README):
        if block.heading == "Five minutes":
            output += shell.run(on_the_machine_of_the_test(block, "readme")).check()
        if "create namespace" in block.text:
            control_plane.service_account("readme", "default")
    assert "out: 5 written, 0 unchanged" in output
    assert 'pod "hello-worker-1" deleted' in output
    assert "pod/hello-worker-1 condition met" in output
    assert "PodReplaced" in output
    assert "done: 6 deleted" in output
    assert "Job:       readme/hello (PyTorchJob)" in output
    assert "Traceback" not in (tmp_path / "home" / "watcher.log").read_text()
