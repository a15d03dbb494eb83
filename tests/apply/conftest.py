"""What the tests of `apply` and `delete` share: a namespace with a node, and the command in it.

Each test that runs `apply` also compares it with `diff`: see `diff_agrees`.
"""

import contextlib
import functools
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from apply.kubelet import Kubelet
from etcompile.cli.diff import command as diff_command
from faultproxy import WRITE, FaultProxy
from specs import training_job

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubelet(control_plane, namespace) -> Iterator[Kubelet]:
    """Marks Pods of the namespace as running and ready."""
    kubelet = Kubelet(control_plane, namespace)
    yield kubelet
    kubelet.stop()


@pytest.fixture
def kubeconfig(control_plane, namespace) -> Path:
    return control_plane.kubeconfig(token="admin-token", namespace=namespace)


@pytest.fixture
def start(tmp_path: Path, kubeconfig: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `etcompile` in a folder of its own; what still runs at the end is killed."""
    running = []

    def begin(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "etcompile", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(started)
        return started

    yield begin
    for one in running:
        if one.poll() is None:
            one.send_signal(signal.SIGKILL)
        one.communicate()


_ONLY_OF_APPLY = {"--wait", "--timeout", "--concurrency", "-o", "--output"}
"""Options with a value that `diff` does not have, or that it reads differently."""


def diff_agrees(diff: int, apply: subprocess.CompletedProcess[str]) -> bool:
    """Whether the exit code of `diff` is right, judged by what `apply` did right after it."""
    if apply.returncode == 0 and "done: nothing had to be changed" in apply.stdout:
        return diff == 0
    if apply.returncode == 0 and "done: " in apply.stdout:
        return diff == 1
    if apply.returncode in (4, 5, 6, 7):
        return diff in (1, 2, 6)
    return True  # not ready in time, an interruption, wrong options


@pytest.fixture
def diff_before(tmp_path: Path, kubeconfig: Path) -> Callable[..., int | None]:
    """Runs `diff` with the arguments of an `apply`; returns its exit code, or None for a plan."""

    def exit_code(*words: str) -> int | None:
        if any(word.startswith("--dry-run") or word.endswith(".json") for word in words):
            return None
        rest = iter(words)
        arguments = []
        for word in rest:
            if word in _ONLY_OF_APPLY:
                next(rest)
            elif word not in ("-y", "--yes") and word.partition("=")[0] not in _ONLY_OF_APPLY:
                arguments.append(word)
        with contextlib.chdir(tmp_path):
            done = CliRunner().invoke(diff_command, arguments, env={"KUBECONFIG": str(kubeconfig)})
        return done.exit_code

    return exit_code


@pytest.fixture
def run(start, diff_before) -> Run:
    """Runs `etcompile` to its end, with the exit code `code`; `apply` must do what `diff` shows.

    Tests that count requests name the KUBECONFIG, and so make no others.
    """

    def to_its_end(
        *arguments: object, code: int | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        shown = None
        if arguments[0] == "apply" and not environment:
            shown = diff_before(*map(str, arguments[1:]))
        done = ended(*arguments, **environment)
        said = f"{done.stdout}\n{done.stderr}"
        if code is not None and done.returncode != code:
            pytest.fail(f"{arguments} ended with {done.returncode}, not with {code}:\n{said}")
        if shown is not None and not diff_agrees(shown, done):
            pytest.fail(f"diff ended with {shown}, and apply with {done.returncode}:\n{said}")
        return done

    def ended(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        started = start(*arguments, **environment)
        try:
            out, err = started.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            started.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
            out, err = started.communicate()
            pytest.fail(f"it hangs:\n{out}\n{err}")
        return subprocess.CompletedProcess(started.args, started.returncode, out, err)

    return to_its_end


@pytest.fixture
def on_terminal(kubeconfig: Path, tmp_path: Path) -> Callable[..., tuple[int, bytes]]:
    """`on_terminal("delete", "jobs", answer="n", COLUMNS="200")`: its exit code, what it showed.

    The answer is typed when it is asked for.
    """

    def to_its_end(*words: str, answer: str = "", **environment: str) -> tuple[int, bytes]:
        variables = {**os.environ, "KUBECONFIG": str(kubeconfig), "TERM": "xterm", **environment}
        variables.pop("NO_COLOR", None)
        inside, outside = pty.openpty()
        command, shown = [sys.executable, "-m", "etcompile", *words], b""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), outside)
        with subprocess.Popen(command, cwd=tmp_path, env=variables, **streams) as process:
            os.close(outside)
            with contextlib.suppress(OSError):  # the other end is closed
                while True:
                    shown += os.read(inside, 65536)
                    if answer and b"[y/N]" in shown:
                        os.write(inside, f"{answer}\n".encode())
                        answer = ""
        os.close(inside)
        return process.returncode, shown

    return to_its_end


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    """`write(document..., name="job")` writes a file of the folder `jobs`."""

    def file(*documents: dict[str, Any], name: str = "job") -> None:
        folder = tmp_path / "jobs"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(documents))

    return file


@pytest.fixture
def job(write) -> Callable[..., None]:
    """`job(replicas=2)` writes the job `mnist`, whose key pair is not made unless `ssh`."""

    def spec(*arguments: Any, **fields: Any) -> None:
        write(training_job(*arguments, **fields))

    return spec


@pytest.fixture
def applied(job, run) -> Callable[..., None]:
    """`applied(replicas=2)` writes the job `mnist`, as `job` does, and applies it."""

    def to_its_end(*arguments: Any, **fields: Any) -> None:
        job(*arguments, **fields)
        run("apply", "jobs", code=0)

    return to_its_end


@pytest.fixture
def ask(control_plane, namespace) -> Callable[..., Any]:
    """`ask("PATCH", "pods/mnist-worker-0", {...})`: a request of somebody else in the namespace."""

    def request(
        method: str,
        path: str,
        body: Any = None,
        content: str | None = None,
        manager: str = "kubectl-create",
    ) -> Any:
        if method in ("POST", "PATCH"):
            forced = "&force=true" if content and "apply" in content else ""
            path += f"?fieldManager={manager}{forced}"
        return control_plane.ask(method, f"/api/v1/namespaces/{namespace}/{path}", body, content)

    return request


@pytest.fixture
def small_quota(control_plane, namespace, ask) -> Callable[..., None]:
    """`small_quota(pods=3, used=2)`, counted as by the controller, which is not there."""

    def create(pods: int, used: int) -> None:
        hard = {"hard": {"pods": str(pods)}}
        ask("POST", "resourcequotas", {"metadata": {"name": "small"}, "spec": hard})
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/small"
        control_plane.set_status(path, {**hard, "used": {"pods": str(used)}})

    return create


@pytest.fixture
def kinds(namespace) -> dict[str, str]:
    """The paths of the kinds that jobs are made of, in the namespace."""
    core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
    return {
        "Pod": f"{core}/namespaces/{namespace}/pods",
        "Service": f"{core}/namespaces/{namespace}/services",
        "ConfigMap": f"{core}/namespaces/{namespace}/configmaps",
        "Secret": f"{core}/namespaces/{namespace}/secrets",
        "ServiceAccount": f"{core}/namespaces/{namespace}/serviceaccounts",
        "PersistentVolumeClaim": f"{core}/namespaces/{namespace}/persistentvolumeclaims",
        "Role": f"{rbac}/namespaces/{namespace}/roles",
        "RoleBinding": f"{rbac}/namespaces/{namespace}/rolebindings",
        "Job": f"/apis/batch/v1/namespaces/{namespace}/jobs",
    }


@pytest.fixture
def objects(control_plane, kinds) -> Callable[[], dict[str, dict[str, Any]]]:
    """What is in the namespace: objects by `Kind/name`, of the kinds that jobs are made of.

    Without the ServiceAccount that each namespace has.
    """

    def listed() -> dict[str, dict[str, Any]]:
        return {
            f"{kind}/{one['metadata']['name']}": one
            for kind, path in kinds.items()
            for one in control_plane.ask("GET", path)["items"]
            if (kind, one["metadata"]["name"]) != ("ServiceAccount", "default")
        }

    return listed


@pytest.fixture
def erase(control_plane, kinds, objects) -> Callable[[str], None]:
    """`erase("mnist")` deletes all objects of a job but its inventory, as somebody else."""

    def delete(job: str) -> None:
        for kind, name in (one.split("/") for one in objects()):
            if name.partition("-")[0] == job:
                path = f"{kinds[kind]}/{name}?gracePeriodSeconds=0"
                control_plane.ask("DELETE", path)

    return delete


@pytest.fixture
def writes(control_plane, namespace) -> Callable[[], list[str]]:
    """What etcompile has written in the namespace: `create pods/mnist-worker-0`, in order."""

    def read() -> list[str]:
        requests = []
        for event in control_plane.writes(namespace):
            ref = event["objectRef"]
            if ref.get("subresource") or "etcompile" not in event.get("userAgent", ""):
                continue
            verb = event["verb"]
            if verb == "patch" and event["responseStatus"]["code"] == 201:
                verb = "create"
            requests.append(f"{verb} {ref['resource']}/{ref['name']}")
        return requests

    return read


class Slow:
    """A proxy that lets each write take a while, so that a test can act in between."""

    def __init__(self, proxy: FaultProxy, kubeconfig: Path) -> None:
        self.proxy = proxy
        self.kubeconfig = kubeconfig

    def count(self) -> int:
        """How many writes have come, dry runs apart."""
        methods = ("PATCH", "POST", "DELETE")
        return sum(self.proxy.count(one, WRITE) for one in methods)


@pytest.fixture
def through(control_plane, proxy, namespace) -> Path:
    return control_plane.kubeconfig(token="admin-token", server=proxy.url, namespace=namespace)


@pytest.fixture
def slow(proxy, through) -> Slow:
    """The proxy, with a quarter of a second for each write."""
    for method in ("PATCH", "POST", "DELETE"):
        proxy.add("delay", method=method, path=WRITE, times=1000, seconds=0.15)
    return Slow(proxy, through)


@pytest.fixture
def as_user(control_plane, namespace, run):
    """`as_user(rules)(arguments...)` runs etcompile with these rights in the namespace."""

    def user(granted):
        name = f"ann-{namespace}"
        control_plane.grant(namespace, name, granted)
        config = control_plane.kubeconfig(user=name, groups=(), namespace=namespace)
        return functools.partial(run, KUBECONFIG=str(config))

    return user
