"""Random lives of a folder of jobs, in namespaces full of other people's objects.

In each life files are added, removed, renamed, moved to another namespace, scaled and changed;
people change and delete objects behind etcompile's back; rollouts are killed and interrupted, and
their requests lost. After each round one apply must leave exactly what the files say, nothing of
ours beyond it, and nothing of anybody else's changed: not even a resourceVersion.

ETCOMPILE_LIVES_MINUTES says for how long (2; 60 before a release), ETCOMPILE_LIVES_SEED which life
comes first: a life that ends badly tells its own.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml

from apply.kubelet import Kubelet
from etcompile.model.protocol import config_names
from faultproxy import WRITE, FaultProxy
from specs import elastic_job, kubeflow_job, training_job
from world import mpi_job

MINUTES = float(os.environ.get("ETCOMPILE_LIVES_MINUTES", "2"))
SEED = int(os.environ.get("ETCOMPILE_LIVES_SEED", "4000"))
ROUNDS = 8
MERGE = "application/merge-patch+json"
PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}
KINDS = ("TrainingJob", "PyTorchJob", "TFJob", "MPIJob", "ElasticJob")
OURS = frozenset({"etcompile", "etcompile-applyset"})
_UNTOLD = ("apiVersion", "kind")
"""What items of lists do not say of themselves."""
CROWD = 6
"""Objects of other people that each namespace has from the beginning, of each sort."""

Key = tuple[str, str, str]
"""Namespace, kind and name."""


class Job:
    """A job as its file has it."""

    def __init__(self, kind: str, name: str, namespace: str) -> None:
        self.kind, self.name, self.namespace = kind, name, namespace
        self.replicas = 2
        self.image = "example.com/trainer:1"
        self.command = ["python", "train.py"]
        self.file = f"{name}.yaml"

    def document(self) -> dict[str, Any]:
        """The job as its file has it."""
        match self.kind:
            case "TrainingJob":
                job = training_job(self.name, replicas=self.replicas)
                replica = job["spec"]["etReplicaSpecs"]["worker"]
            case "PyTorchJob":
                job = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": self.replicas})
                replica = job["spec"]["pytorchReplicaSpecs"]["Worker"]
            case "TFJob":
                job = kubeflow_job("TFJob", {"Chief": 1, "Worker": self.replicas})
                replica = job["spec"]["tfReplicaSpecs"]["Worker"]
            case "MPIJob":
                job = mpi_job()
                replica = job["spec"]["mpiReplicaSpecs"]["Worker"]
                replica["replicas"] = self.replicas
            case _:
                job = elastic_job({"worker": self.replicas})
                replica = job["spec"]["replicaSpecs"]["worker"]
        main = replica["template"]["spec"]["containers"][0]
        main["image"] = self.image
        main["env"] = [{"name": "TRAIN", "value": " ".join(self.command)}]
        job["metadata"] = {"name": self.name, "namespace": self.namespace}
        return job


class Life:
    """A folder of jobs, two namespaces, and who else lives there.

    Args:
        proxy: What stands before it and can lose requests.
        seed: What is thrown.
    """

    def __init__(self, plane: Any, proxy: FaultProxy, folder: Path, seed: int) -> None:
        self.plane, self.proxy, self.folder, self.seed = plane, proxy, folder, seed
        self.dice = random.Random(seed)
        self.namespaces = [plane.namespace(), plane.namespace()]
        self.jobs: dict[str, Job] = {}
        self.numbers = itertools.count(1)
        self.log: list[str] = []
        self.foreign: dict[Key, str] = {}
        """The resourceVersions of what is not ours."""
        self.notes: dict[Key, str] = {}
        self.edited: dict[Key, dict[str, str]] = {}  # what somebody wrote on our ConfigMaps
        """What people wrote onto objects of ours, by UID."""
        (folder / "jobs").mkdir(parents=True)
        (folder / "etcompile.toml").write_text('repository-name = "lives"\n')
        self.direct = plane.kubeconfig(token="admin-token", namespace=self.namespaces[0])
        self.lossy = plane.kubeconfig(
            token="admin-token", server=proxy.url, namespace=self.namespaces[0]
        )
        self.kubelets = [Kubelet(plane, one) for one in self.namespaces]
        for kubelet in self.kubelets:
            kubelet.let("their-*", None)
        for namespace in self.namespaces:
            self._settle(namespace)
        self._neighbour()

    def close(self) -> None:
        for kubelet in self.kubelets:
            kubelet.stop()

    # ---- other people --------------------------------------------------------------------------

    def _create(self, namespace: str, kind: str, value: dict[str, Any], manager: str) -> Any:
        path = PATHS[kind].format(namespace)
        created = self.plane.ask("POST", f"{path}?fieldManager={manager}", value)
        key = (namespace, kind, created["metadata"]["name"])
        self.foreign[key] = created["metadata"]["resourceVersion"]
        return created

    def _settle(self, namespace: str) -> None:
        """Fills a namespace with objects of kubectl, Helm, another ApplySet, and controllers."""
        pod = {"containers": [{"name": "web", "image": "web:1"}]}
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": pod}
        helm = {
            "labels": {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/name": "mnist"},
            "annotations": {"meta.helm.sh/release-name": "web"},
        }
        other = "applyset-0123456789012345678901234567890123456789012-v1"
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        group = "rbac.authorization.k8s.io"
        for number in range(CROWD):
            name = f"their-{number}"
            for kind, meta, rest in (
                ("ConfigMap", {}, {"data": {"a": "b"}}),
                ("Secret", {}, {"stringData": {"password": "x"}}),
                ("Service", helm, {"spec": {"ports": [{"port": 80}], "selector": labels}}),
                ("Pod", {"labels": labels}, {"spec": pod}),
                ("PersistentVolumeClaim", {}, {"spec": claim}),
                ("ServiceAccount", {}, {}),
                ("Role", {}, {"rules": rules}),
                (
                    "RoleBinding",
                    {"labels": {"applyset.kubernetes.io/part-of": other}},
                    {"roleRef": {"apiGroup": group, "kind": "Role", "name": name}},
                ),
                ("Deployment", {}, {"spec": {"selector": {"matchLabels": labels},
                                             "template": template}}),
                ("Job", {}, {"spec": {"suspend": True, "template": {
                    "spec": {**pod, "restartPolicy": "Never"}}}}),
            ):  # fmt: skip
                value = {"metadata": {**meta, "name": name}, **rest}
                self._create(namespace, kind, value, "kubectl-create" if not meta else "helm")
        # What has names and labels like ours.
        for name in ("etcompile-notes", "tj-config", "tj-etcompile", "etcompile-tj-1x"):
            self._create(namespace, "ConfigMap", {"metadata": {"name": name}}, "kubectl-create")

    def _neighbour(self) -> None:
        """A job of another folder, applied by etcompile itself."""
        theirs = self.folder / "theirs"
        theirs.mkdir()
        before = self.everything()
        for namespace in self.namespaces:
            job = Job("TrainingJob", "their-job", namespace)
            (theirs / f"{namespace}.yaml").write_text(yaml.safe_dump(job.document()))
        done = self.etcompile("apply", str(theirs), "--wait", "none")
        assert done.returncode == 0, done.stdout + done.stderr
        for key, value in self.everything().items():
            if key not in before:
                self.foreign[key] = value["metadata"]["resourceVersion"]

    def imitate(self) -> None:
        """Somebody copies an object of ours, labels and all, as `kubectl expose` does."""
        ours = [
            (key, value)
            for key, value in self.ours().items()
            if key[1] in ("ConfigMap", "Pod") and not key[2].startswith("etcompile-")
        ]
        if not ours:
            return
        (namespace, kind, name), value = self.dice.choice(ours)
        copied = f"their-copy-{next(self.numbers)}"
        labels = value["metadata"].get("labels") or {}
        if kind == "Pod":
            spec = {"ports": [{"port": 80}], "selector": {"app": "x"}}
            service = {"metadata": {"name": copied, "labels": labels}, "spec": spec}
            self._create(namespace, "Service", service, "kubectl-expose")
        else:
            annotations = value["metadata"].get("annotations") or {}
            metadata = {"name": copied, "labels": labels, "annotations": annotations}
            copy = {"metadata": metadata, "data": value.get("data") or {}}
            self._create(namespace, "ConfigMap", copy, "kubectl-create")
        self.note(f"copy of {kind} {name} as {copied}")

    # ---- files ---------------------------------------------------------------------------------

    def write(self) -> None:
        """Writes the files anew."""
        for file in (self.folder / "jobs").rglob("*.yaml"):
            file.unlink()
        for job in self.jobs.values():
            path = self.folder / "jobs" / job.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(job.document()))

    def add(self) -> None:
        if len(self.jobs) >= 4:
            return
        kind = self.dice.choice(KINDS)
        name = f"{kind[:2].lower()}-{next(self.numbers)}"
        self.jobs[name] = Job(kind, name, self.dice.choice(self.namespaces))
        self.note(f"add {kind} {name}")

    def remove(self) -> None:
        if len(self.jobs) > 1:
            name = self.dice.choice([*self.jobs])
            del self.jobs[name]
            self.note(f"remove {name}")

    def rename(self) -> None:
        job = self.some()
        del self.jobs[job.name]
        before, job.name = job.name, f"{job.kind[:2].lower()}-{next(self.numbers)}"
        self.jobs[job.name] = job
        self.note(f"rename {before} to {job.name}")

    def move(self) -> None:
        job = self.some()
        other = next(one for one in self.namespaces if one != job.namespace)
        if any((other, "ConfigMap", name) in self.foreign for name in config_names(job.name)):
            return  # what an edit there has left of it is somebody else's now
        job.namespace = other
        self.note(f"move {job.name} to {job.namespace}")

    def move_file(self) -> None:
        job = self.some()
        job.file = self.dice.choice([f"sub/{job.name}.yaml", f"{job.name}-x.yaml"])
        self.note(f"file of {job.name} is {job.file}")

    def scale(self) -> None:
        job = self.some()
        job.replicas = self.dice.choice([one for one in (1, 2, 3, 4) if one != job.replicas])
        self.note(f"scale {job.name} to {job.replicas}")

    def change_image(self) -> None:
        job = self.some()
        job.image = f"example.com/trainer:{next(self.numbers)}"
        self.note(f"image of {job.name}")

    def change_command(self) -> None:
        job = self.some()
        job.command = ["python", f"train-{next(self.numbers)}.py"]
        self.note(f"command of {job.name}")

    def some(self) -> Job:
        return self.dice.choice([*self.jobs.values()])

    # ---- behind its back -----------------------------------------------------------------------

    def edit(self) -> None:
        """Somebody changes an object of ours with kubectl."""
        ours = [(key, value) for key, value in self.ours().items() if key[1] != "Secret"]
        if not ours:
            return
        key, value = self.dice.choice(ours)
        patch: dict[str, Any]
        what = self.dice.choice(["note", "label", "data", "image"])
        if what == "label" and "etcompile.dev/job" in (value["metadata"].get("labels") or {}):
            patch = {"metadata": {"labels": {"etcompile.dev/job": None}}}
        elif what == "data" and key[1] == "ConfigMap" and value.get("data"):
            patch = {"data": {self.dice.choice(sorted(value["data"])): "changed"}}
            self.edited.setdefault(key, {}).update(patch["data"])
        elif what == "image" and key[1] == "Pod":
            containers = [dict(one) for one in value["spec"]["containers"]]
            containers[0]["image"] = "changed:1"
            patch = {"spec": {"containers": containers}}
        else:
            patch = {"metadata": {"annotations": {"their.example.com/note": "keep"}}}
            self.notes[key] = value["metadata"]["uid"]
        path = f"{PATHS[key[1]].format(key[0])}/{key[2]}?fieldManager=kubectl-edit"
        self.plane.ask("PATCH", path, patch, MERGE)
        self.note(f"edit {what} of {' '.join(key)}")

    def lose(self) -> None:
        """Somebody deletes an object of ours."""
        ours = [key for key in self.ours() if not key[2].startswith("etcompile-")]
        if ours:
            key = self.dice.choice(ours)
            self.plane.ask("DELETE", f"{PATHS[key[1]].format(key[0])}/{key[2]}")
            self.note(f"delete {' '.join(key)}")

    def squat(self) -> None:
        """Somebody has the name that an object of a new job would have: nothing is done."""
        name, namespace = f"tj-{next(self.numbers)}", self.dice.choice(self.namespaces)
        kind, suffix, rest = self.dice.choice(
            [
                ("ConfigMap", "-config", {"data": {"theirs": "x"}}),
                ("Service", "-worker-0", {"spec": {"ports": [{"port": 80}]}}),
            ]
        )
        self._create(
            namespace, kind, {"metadata": {"name": name + suffix}, **rest}, "kubectl-create"
        )
        self.jobs[name] = Job("TrainingJob", name, namespace)
        self.write()
        before = {key: self._written(one) for key, one in self.ours().items()}
        done = self.apply()
        assert done.returncode == 4, self.describe(done)
        after = {key: self._written(one) for key, one in self.ours().items()}
        assert before == after, "something was written although it was refused"
        del self.jobs[name]
        self.write()
        self.note(f"squat {kind} {name}{suffix}")

    def _written(self, value: dict[str, Any]) -> Any:
        """When somebody has written an object last, its kubelet apart."""
        entries = value["metadata"].get("managedFields") or ()
        spec_entries = [one for one in entries if one.get("subresource") != "status"]
        return value["metadata"]["uid"], [(one["manager"], one.get("time")) for one in spec_entries]

    def set_free(self) -> None:
        """A job with everything, deleted by name and declared again."""
        job = self.some()
        done = self.etcompile("delete", "--job", job.name, "-n", job.namespace)
        assert done.returncode in (0, 7), self.describe(done)
        left = [key for key in self.ours() if self._of(key, job)]
        assert not left, f"left over by delete: {left}\n{self.describe(done)}"
        for key in [key for key in self.edited if key in self.foreign and self._of(key, job)]:
            # What an edit has left of it has the name that the job needs again.
            self.plane.ask("DELETE", f"{PATHS[key[1]].format(key[0])}/{key[2]}")
            del self.foreign[key], self.edited[key]
        self.note(f"delete --job {job.name}")

    def _of(self, key: Key, job: Job) -> bool:
        name = key[2].removeprefix("etcompile-")
        return key[0] == job.namespace and (name == job.name or name.startswith(f"{job.name}-"))

    def restart(self) -> None:
        """A run that is begun anew."""
        job = self.some()
        done = self.etcompile("restart", job.name, "-n", job.namespace, "--wait", "none")
        # 7: it has not been applied yet, or not here.
        assert done.returncode in (0, 7), self.describe(done)
        self.note(f"restart {job.name}: {done.returncode}")

    # ---- etcompile -----------------------------------------------------------------------------

    def start(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "etcompile", *arguments],
            cwd=self.folder,
            env={**os.environ, "KUBECONFIG": str(kubeconfig or self.direct)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def etcompile(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        started = self.start(*arguments)
        try:
            out, err = started.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            started.kill()
            out, err = started.communicate()
            raise AssertionError(f"it hangs: {arguments}\n{out}\n{err}") from None
        return subprocess.CompletedProcess(started.args, started.returncode, out, err)

    def apply(self) -> subprocess.CompletedProcess[str]:
        return self.etcompile(*self.applying(), "--config", "take-ownership=kubectl-edit")

    def applying(self) -> list[str]:
        return ["apply", "jobs", "--prune", "--replace", "--config", "drain=0"]

    def kill(self) -> None:
        """A rollout ends early: killed or interrupted after some of its writes, or cut off."""
        how = self.dice.choice(["SIGKILL", "SIGINT", "SIGTERM", "lost", "reset-after", "status"])
        writes = self.dice.randrange(1, 25)
        more = ("--config=take-ownership=kubectl-edit", "--config=concurrency=2")
        command = [*self.applying(), *more]
        if how in ("lost", "reset-after", "status"):
            for method in ("PATCH", "POST", "DELETE"):
                self.proxy.add(how, method=method, path=WRITE, times=3, every=3, status=503)
        else:
            for method in ("PATCH", "POST", "DELETE"):
                self.proxy.add("delay", method=method, path=WRITE, times=60, seconds=0.05)
        before = self.writes()
        started = self.start(*command, kubeconfig=self.lossy)
        if how.startswith("SIG"):
            while started.poll() is None and self.writes() - before < writes:
                time.sleep(0.01)
            with contextlib.suppress(ProcessLookupError):
                started.send_signal(getattr(signal, how))
        try:
            out, err = started.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            started.kill()
            raise AssertionError(f"it hangs after {how}") from None
        self.proxy.heal()
        self.note(f"{how} after {writes} writes: {started.returncode}")
        assert "Traceback" not in err, f"{out}\n{err}"

    def writes(self) -> int:
        return sum(self.proxy.count(method, WRITE) for method in ("PATCH", "POST", "DELETE"))

    # ---- what must hold ------------------------------------------------------------------------

    def everything(self) -> dict[Key, dict[str, Any]]:
        return {
            (namespace, kind, one["metadata"]["name"]): one
            for namespace in self.namespaces
            for kind, path in PATHS.items()
            for one in self.plane.ask("GET", path.format(namespace))["items"]
            if (kind, one["metadata"]["name"]) != ("ServiceAccount", "default")
        }

    def ours(self) -> dict[Key, dict[str, Any]]:
        live = self.everything()
        self.disown(live)
        return {key: one for key, one in live.items() if key not in self.foreign}

    def disown(self, live: dict[Key, dict[str, Any]]) -> None:
        """What is left of a ConfigMap that somebody edited is theirs, once its job is gone."""
        for key in {*self.edited} - {*self.foreign}:
            if key in live and not live[key]["metadata"].get("labels"):
                assert live[key]["data"].items() <= self.edited[key].items(), live[key]
                self.foreign[key] = live[key]["metadata"]["resourceVersion"]

    def check(self) -> None:
        """Nothing foreign touched, nothing of ours left over, and the rest equals the files."""
        done = self.apply()
        assert done.returncode == 0, self.describe(done)
        live = self.everything()
        touched = {
            key: "gone" if key not in live else "changed"
            for key, version in self.foreign.items()
            if key not in live or live[key]["metadata"]["resourceVersion"] != version
        }
        assert not touched, f"not ours, and touched: {touched}\n{self.describe(done)}"
        wanted = self.wanted()
        self.disown(live)
        ours = {key for key in live if key not in self.foreign}
        parents = {
            (job.namespace, "ConfigMap", f"etcompile-{job.name}") for job in self.jobs.values()
        }
        pairs = {
            key
            for key in ours
            if key[1] == "Secret"
            and any(key[0] == job.namespace and key[2].startswith(job.name)
                    for job in self.jobs.values())
        }  # fmt: skip
        left = ours - {*wanted} - parents - pairs
        assert not left, f"left over: {sorted(left)}\n{self.describe(done)}"
        for key, value in wanted.items():
            assert key in live, f"missing: {key}\n{self.describe(done)}"
            parts = {part: one for part, one in value.items() if part not in _UNTOLD}
            wrong = [*differing(parts, live[key], "")]
            assert not wrong, f"{key} is not as in the files: {wrong}\n{self.describe(done)}"
        for key, uid in self.notes.items():
            if key in live and live[key]["metadata"]["uid"] == uid:
                notes = live[key]["metadata"].get("annotations") or {}
                assert notes.get("their.example.com/note") == "keep", f"a note is lost: {key}"
        diff = self.etcompile("diff", "jobs", "--prune")
        assert diff.returncode == 0, f"diff finds more: {diff.stdout}{diff.stderr}"

    def wanted(self) -> dict[Key, dict[str, Any]]:
        rendered = self.etcompile("render", "jobs")
        assert rendered.returncode == 0, rendered.stderr
        return {
            (one["metadata"]["namespace"], one["kind"], one["metadata"]["name"]): one
            for one in yaml.safe_load_all(rendered.stdout)
        }

    def end(self) -> None:
        """All jobs are deleted: only other people's objects are left."""
        done = self.etcompile("delete", "jobs")
        assert done.returncode == 0, self.describe(done)
        assert not self.ours(), f"left over at the end: {[*self.ours()]}\n{self.describe(done)}"
        live = self.everything()
        assert {key: live[key]["metadata"]["resourceVersion"] for key in self.foreign} == (
            self.foreign
        )

    def note(self, what: str) -> None:
        self.log.append(what)

    def describe(self, done: subprocess.CompletedProcess[str]) -> str:
        return f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def differing(wanted: Any, live: Any, path: str) -> Any:
    """Where an object lacks what its manifest says; what others or defaults added is no matter."""
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            yield path
            return
        for key, value in wanted.items():
            if value not in (None, {}, [], ""):
                yield from differing(value, live.get(key), f"{path}.{key}")
    elif isinstance(wanted, list):
        if not isinstance(live, list) or len(live) < len(wanted):
            yield path
            return
        for place, value in enumerate(wanted):
            yield from differing(value, live[place], f"{path}[{place}]")
    elif wanted != live and str(wanted) != str(live):
        yield f"{path}: {json.dumps(wanted)} is {json.dumps(live)}"[:200]


CHANGES = {
    "add": 4, "remove": 2, "rename": 2, "move": 2, "move_file": 1, "scale": 3,
    "change_image": 2, "change_command": 2,
}  # fmt: skip
DRIFTS = {"edit": 4, "lose": 3, "imitate": 2, "squat": 1, "set_free": 1, "restart": 1}


def live(life: Life) -> None:
    """One life: rounds of changes, drifts and rollouts that end early, each checked."""
    life.add()
    life.write()
    life.check()
    for number in range(ROUNDS):
        life.note(f"-- round {number + 1}")
        for change in life.dice.choices([*CHANGES], [*CHANGES.values()], k=life.dice.randrange(3)):
            getattr(life, change)()
        life.write()
        for drift in life.dice.choices([*DRIFTS], [*DRIFTS.values()], k=life.dice.randrange(4)):
            with contextlib.suppress(urllib.error.HTTPError):
                getattr(life, drift)()
        if life.dice.random() < 0.5:
            life.kill()
        life.check()
    life.end()


def test_random_lives_touch_nothing_foreign_and_leave_nothing_over(control_plane, proxy, tmp_path):
    end = time.monotonic() + 60 * MINUTES
    for seed in itertools.count(SEED):
        life = Life(control_plane, proxy, tmp_path / str(seed), seed)
        try:
            live(life)
        except AssertionError as error:
            log = "\n  ".join(life.log)
            pytest.fail(f"ETCOMPILE_LIVES_SEED={seed}:\n  {log}\n{error}")
        finally:
            life.close()
        if time.monotonic() >= end:
            break
