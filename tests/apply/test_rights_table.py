"""The table of rights in docs/security.md, with one right less at a time."""

import contextlib
import importlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from apply.kubelet import ready
from etcompile.kubeapi import connect
from specs import kubeflow_job

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
ARGUMENTS = {
    "status": ("mnist",),
    "why": ("mnist",),
    "logs": ("mnist",),
    "diff": ("jobs", "--config", "set=team"),
    "apply": ("jobs", "--config", "set=team", "--timeout", "60s"),
    "apply --prune": ("jobs", "--config", "set=team", "--timeout", "60s"),
    "restart": ("mnist", "--timeout", "60s"),
    "checkpoint": ("mnist",),
    "delete": ("--job", "mnist"),
}

SUPERVISED = {"etcompile.dev/restart": "in-place", "etcompile.dev/checkpoint-signal": "USR1"}

Right = tuple[str, str]
"""A resource and a verb."""


def table() -> Iterator[tuple[str, set[Right]]]:
    """Each command of the table, with the rights that it needs."""
    section = PAGE.split("## What each command needs")[1].split("\n## ")[0]
    head, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    resources = re.findall("`(.*?)`", head)
    for row in rows:
        names, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        needed = set()
        for resource, cell in zip(resources, cells, strict=False):
            for word in filter(None, cell.split(", ")):
                verb, _, part = word.partition(": ")
                needed.add((f"{resource}/{part}" if part else resource, verb))
        for name in re.findall("`(.*?)`", names):
            yield name, needed


TABLE = dict(table())


def test_table_has_every_command_that_acts_on_a_job() -> None:
    assert TABLE.keys() == ARGUMENTS.keys()


@pytest.fixture
def user(control_plane, namespace, tmp_path) -> Callable[..., Callable[..., Result]]:
    """`user(name, rights)` is somebody with these rights, as whom a command is run."""

    def with_rights(name: str, rights: set[Right]) -> Callable[..., Result]:
        rules = [
            {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
            for resource, verb in sorted(rights)
        ]
        control_plane.grant(namespace, name, rules)
        config = control_plane.kubeconfig(user=name, groups=(), namespace=namespace)

        def run(words: str, *arguments: str) -> Result:
            name, *options = words.split()
            command = importlib.import_module(f"etcompile.cli.{name}").command
            before = signal.getsignal(signal.SIGTERM)
            try:
                with contextlib.chdir(tmp_path):
                    environment = {"KUBECONFIG": str(config)}
                    return CliRunner().invoke(command, [*arguments, *options], env=environment)
            finally:
                signal.signal(signal.SIGTERM, before)

        run.config = config  # type: ignore[attr-defined]
        return run

    return with_rights


def await_right(config: Path, namespace: str, right: Right) -> None:
    """Waits until the API server knows the rights of a user, and so of those before."""
    resource, verb = right
    attributes = {"namespace": namespace, "verb": verb, "resource": resource.partition("/")[0]}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    with connect(kubeconfig=config) as cluster:
        while not cluster.create(review)["status"]["allowed"]:
            pass


def document(name: str) -> dict[str, Any]:
    job = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1})
    job["metadata"] = {"name": name, "annotations": SUPERVISED}
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["command"] = ["python", "train.py"]
    return job


@pytest.mark.parametrize("command", TABLE)
def test_command_does_with_these_rights_and_not_with_one_less(
    run, write, kubelet, user, writes, namespace, tmp_path, command
) -> None:
    needed = TABLE[command]
    main = {"name": "pytorch", "image": "i", "imageID": "", "restartCount": 0, "ready": True}
    kubelet.let("*", ready(containerStatuses=[{**main, "state": {"running": {}}}]))
    write(document("mnist"), name="a")
    write(document("old"), name="old")
    run("apply", "jobs", "--config", "set=team", code=0)
    (tmp_path / "jobs" / "old.yaml").unlink()
    write(document("new"), name="new")
    users = {right: user(f"no-{number}-{namespace}", needed - {right})
             for number, right in enumerate(sorted(needed))}  # fmt: skip
    enough = user(f"enough-{namespace}", needed)
    await_right(enough.config, namespace, min(needed))
    before = writes()
    for (resource, verb), less in users.items():
        done = less(command, *ARGUMENTS[command])
        words = f"without {verb} {resource}: {done.exit_code}\n{done.output}"
        assert done.exit_code in ((2, 6) if command == "diff" else (6,)), words
        assert re.search(rf"\b{verb}\b.* \"?{resource.partition('/')[0]}", done.output), words
        assert writes() == before, words
    done = enough(command, *ARGUMENTS[command])
    assert done.exit_code == (1 if command == "diff" else 0), done.output
