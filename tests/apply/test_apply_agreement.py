"""`diff`, `apply --dry-run` and `apply` say the same, whatever the cluster is like.

Random jobs, drifts, options and admission, with a seed, in namespaces full of other people's
objects. What is shown must be what is written, a refusal must be one everywhere and write nothing,
and once it is applied there is no difference. Nothing of anybody else's changes: not even a
resourceVersion. To try more of them, and others:

    ETCOMPILE_AGREEMENTS=500 ETCOMPILE_AGREEMENTS_SEED=7 pytest -m cluster tests/apply -k agree
"""

import copy
import importlib
import json
import os
import random
import signal
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec import Struct

from apply.kubelet import Kubelet
from apply.policies import deny, mutate
from controlplane.server import ControlPlane
from etcompile.kubeapi import ClusterError, connect
from specs import kubeflow_job, training_job
from world import mpi_job

ROUNDS = int(os.environ.get("ETCOMPILE_AGREEMENTS", "24"))
SEED = int(os.environ.get("ETCOMPILE_AGREEMENTS_SEED", "3"))
MERGE = "application/merge-patch+json"
MIRROR = (
    '[JSONPatch{op: "replace", path: "/spec/containers/0/image",'
    ' value: "mirror.example.com/" + object.spec.containers[0].image}]'
)
ONCE = {"once": "!object.spec.containers[0].image.startsWith('mirror')"}
REQUESTS = (
    '[JSONPatch{op: "add", path: "/spec/containers/0/resources/requests",'
    ' value: {"cpu": "250m", "memory": "64Mi"}}]'
)
LABEL = '[JSONPatch{op: "add", path: "/metadata/labels/team", value: "research"}]'
HAS_LABELS = {"labels": "has(object.metadata.labels)"}

Round = tuple[str, str]
"""Which API server, and the flavour of the namespace there."""
PLAIN, ADMITTING = "plain", "admitting"
FLAVOURS: list[Round] = [
    (PLAIN, "none"),
    (PLAIN, "limits"),
    (PLAIN, "denies-names"),
    (PLAIN, "denies-images"),
    (PLAIN, "denies-updates"),
    (ADMITTING, "none"),
    (ADMITTING, "requests"),
    (ADMITTING, "mirror"),
    (ADMITTING, "mirror-always"),
    (ADMITTING, "labels"),
]
RESOURCES = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
ACTS = {
    "create": ("create",),
    "update": ("patch",),
    "adopt": ("patch",),
    "replace": ("delete", "create"),
    "delete": ("delete",),
    "release": ("patch",),
}


@pytest.fixture(scope="module")
def planes(control_plane, admitting_plane) -> Iterator[dict[str, ControlPlane]]:
    """The API servers with all their policies, each for the namespaces of a flavour."""
    plain, admitting = control_plane, admitting_plane
    here, there = plain.namespace(), admitting.namespace()
    remove = [
        deny(
            plain, here, "!object.metadata.name.endsWith('-1')", "no ones", flavour="denies-names"
        ),
        deny(
            plain,
            here,
            "object.spec.containers.all(c, !c.image.endsWith(':3'))",
            "no threes",
            operations=("CREATE", "UPDATE"),
            flavour="denies-images",
        ),
        deny(
            plain,
            here,
            "!has(object.metadata.labels) || !('x' in object.metadata.labels)",
            "no x",
            operations=("UPDATE",),
            kinds=("pods", "services"),
            flavour="denies-updates",
        ),
    ]
    mutate(admitting, there, REQUESTS, flavour="requests")
    mutate(admitting, there, MIRROR, when=ONCE, flavour="mirror")
    both = ("CREATE", "UPDATE")
    mutate(admitting, there, MIRROR, when=ONCE, operations=both, flavour="mirror-always")
    kinds = ("pods", "services", "configmaps")
    mutate(admitting, there, LABEL, when=HAS_LABELS, operations=both, kinds=kinds, flavour="labels")
    yield {PLAIN: plain, ADMITTING: admitting}
    for one in remove:
        one()


class World(Struct):
    """One namespace of one API server, and a folder of jobs."""

    plane: ControlPlane
    namespace: str
    jobs: Path
    config: Path
    foreign: dict[tuple[str, str], str] = {}
    """The resourceVersions of what is other people's, by kind and name."""
    copies: set[tuple[str, str]] = set()
    """Those that have our labels: `--adopt` takes them over."""

    def etcompile(self, *arguments: str) -> Any:
        environment = {"KUBECONFIG": str(self.config), "NO_COLOR": "1"}
        before = signal.getsignal(signal.SIGTERM)
        try:
            command = importlib.import_module(f"etcompile.cli.{arguments[0]}").command
            return CliRunner().invoke(command, [*arguments[1:]], env=environment)
        finally:
            signal.signal(signal.SIGTERM, before)

    def path(self, kind: str, name: str = "") -> str:
        group = "/apis/rbac.authorization.k8s.io/v1" if kind.startswith("Role") else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{RESOURCES[kind]}/{name}".rstrip("/")

    def objects(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        return [
            (kind, one)
            for kind in kinds
            for one in self.plane.ask("GET", self.path(kind))["items"]
            if not one["metadata"]["name"].startswith(("etcompile-", "kube-root", "default"))
            and (kind, one["metadata"]["name"]) not in self.foreign
        ]

    def create(self, kind: str, value: dict[str, Any], manager: str) -> tuple[str, str]:
        """Creates an object as somebody else."""
        created = self.plane.ask("POST", f"{self.path(kind)}?fieldManager={manager}", value)
        key = (kind, created["metadata"]["name"])
        self.foreign[key] = created["metadata"]["resourceVersion"]
        return key

    def settle(self) -> None:
        """Fills the namespace with objects of kubectl, Helm and another ApplySet."""
        helm = {"labels": {"app.kubernetes.io/managed-by": "Helm"}}
        other = {"labels": {"applyset.kubernetes.io/part-of": f"applyset-{'0' * 43}-v1"}}
        group = "rbac.authorization.k8s.io"
        for kind, manager, marks, rest in (
            ("ConfigMap", "kubectl-create", {}, {"data": {"a": "b"}}),
            ("Secret", "kubectl-create", {}, {"stringData": {"password": "x"}}),
            ("Service", "helm", helm, {"spec": {"ports": [{"port": 80}]}}),
            ("Pod", "helm", helm, {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}),
            ("ServiceAccount", "kubectl", other, {}),
            ("Role", "kubectl", other, {"rules": []}),
            ("RoleBinding", "kubectl", other,
             {"roleRef": {"apiGroup": group, "kind": "Role", "name": "their-0"}}),
        ):  # fmt: skip
            self.create(kind, {"metadata": {**marks, "name": "their-0"}, **rest}, manager)
        for name in ("etcompile-notes", "mnist-notes", "mnist-etcompile-1x"):
            self.create("ConfigMap", {"metadata": {"name": name}}, "kubectl-create")

    def copy(self, kind: str, value: dict[str, Any]) -> None:
        """Somebody copies an object of ours, labels and all, as `kubectl expose` does."""
        labels = value["metadata"].get("labels") or {}
        metadata = {"name": f"their-copy-{len(self.copies)}", "labels": labels}
        if kind == "ConfigMap":
            copied = {"metadata": metadata, "data": value.get("data") or {}}
            self.copies.add(self.create("ConfigMap", copied, "kubectl-create"))
        else:
            exposed = {"metadata": metadata, "spec": {"ports": [{"port": 80}]}}
            self.copies.add(self.create("Service", exposed, "kubectl-expose"))

    def touched(self, *, adopt: bool) -> set[tuple[str, str]]:
        """What is other people's, may not be taken over, and has changed or is gone."""
        live = {
            (kind, one["metadata"]["name"]): one["metadata"]["resourceVersion"]
            for kind in RESOURCES
            for one in self.plane.ask("GET", self.path(kind))["items"]
        }
        touched = {key for key, version in self.foreign.items() if live.get(key) != version}
        adopted = touched & self.copies if adopt else set()
        for key in adopted:
            del self.foreign[key]
        return touched - adopted

    def change(self, kind: str, name: str, change: dict[str, Any]) -> None:
        """Changes an object as a person would; what the API server refuses is not changed."""
        try:
            path = f"{self.path(kind, name)}?fieldManager=kubectl-edit"
            self.plane.ask("PATCH", path, change, MERGE)
        except urllib.error.HTTPError as error:
            if error.code not in (403, 409, 422):
                raise

    def writes(self) -> set[tuple[str, str, str, str]]:
        """What etcompile has written, apart from inventories."""
        writes = set()
        for event in self.plane.writes(self.namespace):
            ref = event["objectRef"]
            if "etcompile" not in event.get("userAgent", "") or ref.get("subresource"):
                continue
            if ref["name"].startswith("etcompile-"):
                continue
            is_new = event["responseStatus"]["code"] == 201
            verb = "create" if event["verb"] == "patch" and is_new else event["verb"]
            writes.add((verb, ref["resource"], ref["name"], event["auditID"]))
        return writes


def roles(job: dict[str, Any]) -> dict[str, Any]:
    """The replica specs of a job, by their role."""
    [specs] = [value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs")]
    return specs


def random_job(dice: random.Random) -> dict[str, Any]:
    """A job with fields of which admission changes some."""
    main: dict[str, Any] = {"image": f"example.com/train:{dice.choice('12')}"}
    if dice.random() < 0.5:
        main["resources"] = {"limits": {"cpu": 2, "memory": "1Gi"}}
    if dice.random() < 0.3:
        main.setdefault("resources", {})["requests"] = {"cpu": "1000m"}
    if dice.random() < 0.3:
        main["imagePullPolicy"] = dice.choice(["Always", "IfNotPresent"])
    job = dice.choice(
        [
            kubeflow_job("PyTorchJob", {"Master": 1, "Worker": dice.choice([1, 2, 3])}),
            training_job(replicas=dice.choice([1, 2, 3])),
            mpi_job(),
        ]
    )
    for role in roles(job).values():
        role["template"]["spec"]["containers"][0] |= copy.deepcopy(main)
        if dice.random() < 0.3:
            role["template"]["metadata"] = {"labels": {"team": dice.choice(["a", "research"])}}
    return job


def edited(dice: random.Random, job: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(job)
    name, role = dice.choice([*roles(document).items()])
    container = role["template"]["spec"]["containers"][0]
    match dice.randrange(7):
        case 0:
            container["image"] = f"example.com/train:{dice.choice('123')}"
        case 1:
            container["env"] = [{"name": "SEED", "value": str(dice.randrange(3))}]
        case 2 if name in ("worker", "Worker"):
            role["replicas"] = dice.choice([1, 2, 3])
        case 3:
            role["template"].setdefault("metadata", {})["annotations"] = {"note": "new"}
        case 4:
            container["resources"] = {"limits": {"cpu": 3}}
        case _:
            pass
    return document


def drift(dice: random.Random, world: World) -> None:
    """Somebody changes or deletes something in the cluster."""
    kind = dice.choice(["Pod", "Service", "ConfigMap"])
    there = world.objects(kind)
    if not there:
        return
    _, one = dice.choice(there)
    name = one["metadata"]["name"]
    changes: list[Callable[[], Any]] = [
        lambda: world.change(kind, name, {"metadata": {"labels": {"foreign": "1"}}}),
        lambda: world.change(kind, name, {"metadata": {"annotations": {"foreign": "1"}}}),
        lambda: world.change(kind, name, {"metadata": {"labels": {"etcompile.dev/job": None}}}),
        lambda: world.change(kind, name, {"metadata": {"labels": {"etcompile.dev/role": "z"}}}),
        lambda: world.plane.ask("DELETE", f"{world.path(kind, name)}?gracePeriodSeconds=0"),
    ]
    if kind in ("ConfigMap", "Pod"):
        changes.append(lambda: world.copy(kind, one))
    if kind == "Service":
        changes += [
            lambda: world.change(kind, name, {"spec": {"selector": {"x": "1"}}}),
            lambda: world.change(kind, name, {"metadata": {"labels": {"x": "1"}}}),
        ]
    if kind == "ConfigMap":
        key = next(iter(one.get("data") or {"k": ""}))
        changes += [
            lambda: world.change(kind, name, {"data": {key: "changed"}}),
            lambda: world.change(kind, name, {"data": {"theirs": "1"}}),
        ]
    if kind == "Pod":
        first = one["spec"]["containers"][0]
        image = [{**first, "image": f"example.com/other:{dice.randrange(9)}"}]
        rest = one["spec"]["containers"][1:]
        changes += [
            lambda: world.change(kind, name, {"spec": {"containers": [*image, *rest]}}),
            lambda: world.change(kind, name, {"metadata": {"labels": {"x": "1"}}}),
        ]
    dice.choice(changes)()


def acting(plan: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What a plan does and why, without what differs from run to run."""
    return [
        (
            step["action"],
            step["object"]["kind"],
            step["object"]["name"],
            step.get("needs"),
            json.dumps(step.get("changes")),
        )
        for step in plan["steps"]
        if step["action"] not in ("unchanged", "unmanaged", "wait")
    ]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_what_is_shown_is_what_is_done(planes, tmp_path, number) -> None:
    dice = random.Random(f"{SEED}-{number}")
    server, flavour = FLAVOURS[number % len(FLAVOURS)]
    plane = planes[server]
    namespace = plane.namespace({"flavour": flavour})
    if flavour == "limits":
        limits = {"default": {"cpu": "4"}, "defaultRequest": {"cpu": "100m"}, "type": "Container"}
        body = {"metadata": {"name": "l"}, "spec": {"limits": [limits]}}
        plane.ask("POST", f"/api/v1/namespaces/{namespace}/limitranges", body)
    config = plane.kubeconfig(token="admin-token", namespace=namespace)
    world = World(plane, namespace, tmp_path / "jobs", config)
    world.jobs.mkdir()
    world.settle()
    job, other = random_job(dice), training_job("other", replicas=1)
    job["metadata"]["namespace"] = namespace  # an MPIJob without one is of `default`
    run = dice.choice([(), ("--run", "auto")])
    files = {"job.yaml": job, "other.yaml": other}
    write(world, files)
    always = (*run, "--config", "set=team")
    world.etcompile("apply", str(world.jobs), "--wait", "none", *always)
    kubelet = Kubelet(plane, namespace)
    kubelet.let("their-*", None)
    try:
        for _ in range(3):
            for _ in range(dice.randrange(3)):
                drift(dice, world)
            job = edited(dice, job)
            # A job is removed, added again or moved to another file.
            files = {dice.choice(["job.yaml", "renamed.yaml"]): job}
            write(world, files | ({"other.yaml": other} if dice.random() < 0.5 else {}))
            flags = (("--prune",), ("--replace",), ("--adopt",), ("--config", "take-ownership=*"))
            options = (*always, *(word for one in flags if dice.random() < 0.6 for word in one))
            agree(world, str(world.jobs), options)
            assert world.touched(adopt="--adopt" in options) == set(), options
    finally:
        kubelet.stop()


def write(world: World, files: dict[str, dict[str, Any]]) -> None:
    """Writes the folder of jobs anew."""
    for file in world.jobs.iterdir():
        file.unlink()
    for name, job in files.items():
        (world.jobs / name).write_text(yaml.safe_dump(job))


def agree(world: World, file: str, options: tuple[str, ...]) -> None:
    """Holds the three against each other."""
    before = world.writes()
    diff = world.etcompile("diff", file, *options, "--output", "json")
    assert diff.exit_code in (0, 1), diff.stderr
    plan = json.loads(diff.stdout)
    steps = acting(plan)
    assert diff.exit_code == (1 if steps else 0)
    tried = world.etcompile("apply", file, *options, "--dry-run=server", "--output", "json")
    shown = json.loads(tried.stdout.splitlines()[0])  # then how it ended
    assert acting(shown) == steps, tried.stderr
    assert world.writes() == before
    unchanged_is_true(world, file, options, plan)
    flags = ("--wait", "none", "--config", "drain=0", "--yes", "--timeout", "60s", *options)
    done = world.etcompile("apply", file, *flags)
    words = f"{options}\n{steps}\n{tried.stderr}\n{done.stdout}\n{done.stderr}"
    assert done.exit_code == tried.exit_code, words
    new = {one[:3] for one in world.writes() - before}
    if done.exit_code:
        assert done.exit_code in (4, 5, 6, 7), words
        assert new == set(), words
        return
    expected = {
        (verb, RESOURCES[kind], name) for action, kind, name, *_ in steps for verb in ACTS[action]
    }
    assert new == expected, words
    again = world.etcompile("diff", file, *options)
    assert again.exit_code == 0, f"{words}\n{again.stdout}\n{again.stderr}"


def unchanged_is_true(
    world: World, file: str, options: tuple[str, ...], plan: dict[str, Any]
) -> None:
    """What the plan calls unchanged, an update would not change, or creating it gives the same."""
    idle = {
        (one["object"]["kind"], one["object"]["name"])
        for one in plan["steps"]
        if one["action"] == "unchanged"
    }
    run = options[:2] if options[:1] == ("--run",) else ()
    rendered = world.etcompile("render", file, *run)
    with connect(kubeconfig=world.config, namespace=world.namespace) as cluster:
        for value in yaml.safe_load_all(rendered.stdout):
            kind, name = value["kind"], value["metadata"]["name"]
            if (kind, name) not in idle or kind == "Secret":
                continue
            live = world.plane.ask("GET", world.path(kind, name))
            part = "applyset.kubernetes.io/part-of"
            if label := (live["metadata"].get("labels") or {}).get(part):
                value["metadata"].setdefault("labels", {})[part] = label
            try:
                answer = cluster.server_side_apply(value, force=True, dry_run=True)
            except ClusterError:
                answer = {}
            if plain(answer) == plain(live):
                continue
            other = {**value["metadata"], "generateName": f"{name}-"}
            other.pop("name")
            created = plain(cluster.create({**value, "metadata": other}, dry_run=True))
            lost = [*missing(created, plain(live), plain(value))]
            assert not lost, f"{kind} {name}: {lost}"


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """What people mean by an object."""
    metadata = value.get("metadata") or {}
    about = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
    rest = {
        key: one
        for key, one in value.items()
        if key not in ("apiVersion", "kind", "metadata", "status")
    }
    return {**about, **rest}


def missing(created: Any, live: Any, declared: Any, path: str = "") -> Iterator[str]:
    """What is neither declared as it is there nor would be made so, but for generated names."""
    if isinstance(created, dict) and isinstance(live, dict):
        said = declared if isinstance(declared, dict) else {}
        for key, value in created.items():
            if key not in ("clusterIP", "clusterIPs", "name", "volumes", "volumeMounts"):
                yield from missing(value, live.get(key), said.get(key), f"{path}.{key}")
    elif isinstance(created, list) and isinstance(live, list) and len(created) == len(live):
        said = declared if isinstance(declared, list) and len(declared) == len(created) else created
        for number, (one, other) in enumerate(zip(created, live, strict=True)):
            yield from missing(one, other, said[number], f"{path}[{number}]")
    elif live not in (created, declared):
        yield f"{path} is {live}, and would be {created}"
