"""An upgrade of etcompile while jobs run: the version before this one, and this one.

The inputs are the examples of the version before, as it shipped them. What it accepted must still
be accepted, and render to the same bytes, or to others that `explained_differences.yaml` explains
and the changelog tells of. A watcher of this version that finds the objects of the other must have
nothing to do to Pods that run.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from differences_of_versions import Difference, of_folders, of_objects, of_texts
from versions_before import version_at

from etcompile import __version__
from etcompile.model.protocol import JOB_LABEL, SPEC_HASH, STORED_JOB
from etcompile.model.run_record import record_data
from etcompile.watch.actions import (
    CreatePod,
    DeletePod,
    EndPod,
    RemoveJob,
    ReplacePod,
    WriteStatus,
)
from etcompile.watch.deciding import decide
from etcompile.watch.executor import Case
from etcompile.watch.room import Room
from etcompile.watch.run_pods import StoredRun
from etcompile.watch.state import Timeouts
from etcompile.watch.store import Store
from etcompile.watch.view import strangers_of, view

pytestmark = pytest.mark.programs  # it takes a minute

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPLAINED = HERE / "explained_differences.yaml"
ANOTHER_VERSION = "99.8.7"
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "plain": (),
    "prod": ("--overlay", "prod"),
    "argocd": ("--profile", "argocd", "--services", "shared", "--run", "auto"),
    "volcano": ("--gang", "volcano", "--kubernetes-version", "1.31"),
    "folder": ("-d", "{OUT}"),
}
"""How each example is rendered."""
START = 1_700_000_000.0
TOUCHING = (CreatePod, DeletePod, EndPod, ReplacePod, RemoveJob)
"""What no Pod that runs well may meet because somebody has upgraded the watcher."""


class Rendered(NamedTuple):
    """What became of a case: an exit code, standard output, the folder's files, the messages."""

    code: int
    text: str
    files: Mapping[str, str]
    errors: str


class Versions(NamedTuple):
    """The same cases, rendered by both versions, and by this one under another version's name."""

    revision: str
    before: Mapping[str, Rendered]
    now: Mapping[str, Rendered]
    renamed: Mapping[str, Rendered]


def cases(tree: Path) -> list[dict[str, Any]]:
    """Each example in each way, as arguments of `etcompile`."""
    found: list[dict[str, Any]] = []
    for job in sorted((tree / "examples").glob("*/*/job.yaml")):
        folder = job.parent.relative_to(tree)
        name = f"{folder.parent.name}-{folder.name}"
        for how, options in SETTINGS.items():
            arguments = ["render", str(folder), *options]
            found.append({"name": f"{name}.{how}", "arguments": arguments})
    return found


def _spelled(tree: Path, options: list[str]) -> list[str]:
    """The options as the etcompile of a tree spells them: a folder was -o once."""
    render = (tree / "etcompile" / "cli" / "render.py").read_text("utf-8")
    return ["-o" if word == "-d" and '"-d"' not in render else word for word in options]


def rendered(
    tree: Path, where: Path, out: Path, wanted: list[dict[str, Any]], version: str = ""
) -> subprocess.Popen[bytes]:
    """Begins to render cases with the etcompile of a tree, in the folder of their inputs."""
    out.mkdir()
    spelled = [case | {"arguments": _spelled(tree, case["arguments"])} for case in wanted]
    (out / "cases.json").write_text(json.dumps(spelled))
    named = {"ETCOMPILE_AS_VERSION": version} if version else {}
    clean = {key: text for key, text in os.environ.items() if not key.startswith("ETCOMPILE_")}
    return subprocess.Popen(
        [sys.executable, HERE / "renderings.py", tree, out / "cases.json", out],
        cwd=where,
        env={**clean, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", **named},
    )


def read(out: Path) -> dict[str, Rendered]:
    """What was rendered."""
    found = {}
    for file in sorted(out.glob("*.code")):
        folder = out / f"{file.stem}.d"
        files = {
            path.relative_to(folder).as_posix(): path.read_text("utf-8")
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        texts = [(out / f"{file.stem}.{kind}").read_text("utf-8") for kind in ("out", "err")]
        found[file.stem] = Rendered(int(file.read_text()), texts[0], files, texts[1])
    return found


@pytest.fixture(scope="module")
def versions(
    revision_before: str, tree_before: Path, tmp_path_factory: pytest.TempPathFactory
) -> Versions:
    """The cases, rendered by the version before and by this one."""
    tree, folder = tree_before, tmp_path_factory.mktemp("versions")
    outs = [folder / name for name in ("out-before", "out-now", "out-renamed")]
    every = cases(tree)
    some = [case for case in every if case["name"].endswith((".plain", ".folder"))]
    running = [
        rendered(tree, tree, outs[0], every),
        rendered(ROOT, tree, outs[1], every),
        rendered(ROOT, tree, outs[2], some, ANOTHER_VERSION),
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    return Versions(revision_before, *map(read, outs))


def accepted(versions: Versions) -> list[str]:
    """The cases that the version before rendered."""
    return [name for name, one in versions.before.items() if one.code == 0]


def differences(versions: Versions) -> set[Difference]:
    """All that this version renders otherwise."""
    found: set[Difference] = set()
    for name in accepted(versions):
        old, new = versions.before[name], versions.now[name]
        if new.code == 0:
            found |= of_texts(name, old.text, new.text) | of_folders(name, old.files, new.files)
    return found


def explains(entry: Mapping[str, str], difference: Difference) -> bool:
    """Whether an entry explains a difference."""

    def matches(pattern: str, name: str) -> bool:
        return fnmatch.fnmatchcase(name, re.sub(r"\[\*\]", "[[][*]]", pattern))

    return (
        matches(entry["where"], difference.where)
        and matches(entry["field"], difference.field)
        and fnmatch.fnmatchcase(difference.example, entry.get("examples", "*"))
    )


def told() -> str:
    """What the changelog tells of this version, in one line."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    section = text.partition(f"\n## {__version__} ")[2].partition("\n## ")[0]
    return " ".join(section.split())


def test_what_was_accepted_is_accepted(versions: Versions) -> None:
    names = accepted(versions)
    assert len(names) > len(versions.before) / 2
    refused = {name: versions.now[name].errors for name in names if versions.now[name].code != 0}
    assert refused == {}


def test_the_same_settings_give_the_same_bytes_or_a_difference_that_is_explained(
    versions: Versions,
) -> None:
    entries = yaml.safe_load(EXPLAINED.read_text("utf-8"))
    found = differences(versions)
    unexplained: dict[tuple[str, str], list[str]] = {}
    for one in sorted(found):
        if not any(explains(entry, one) for entry in entries):
            unexplained.setdefault((one.where, one.field), []).append(one.example)
    assert not unexplained, (
        f"rendered otherwise than {versions.revision[:12]} did: "
        + "; ".join(
            f"{where} {field} ({len(names)} times, {names[0]})"
            for (where, field), names in unexplained.items()
        )
        + f". Who upgrades will see it: explain it in {EXPLAINED.name} and in CHANGELOG.md."
    )
    unused = [entry for entry in entries if not any(explains(entry, one) for one in found)]
    assert unused == [], "explained, and no difference any more"
    silent = [entry for entry in entries if " ".join(entry["changelog"].split()) not in told()]
    assert silent == [], "explained, and not told in the changelog"


def test_the_version_alone_changes_nothing_but_the_lock_file(versions: Versions) -> None:
    for name, renamed in versions.renamed.items():
        now = versions.now[name]
        assert (renamed.code, renamed.text) == (now.code, now.text), name
        for path, text in now.files.items():
            if path.endswith("etcompile.lock.json"):
                wanted = text.replace(f"etcompile {__version__}", f"etcompile {ANOTHER_VERSION}")
                assert renamed.files[path] == wanted != text, name
            else:
                assert renamed.files[path] == text, (name, path)


# A run of the version before, and the watcher of this one ---------------------------------------


class Cluster:
    """The objects of a job that runs well, as a watcher sees them."""

    def __init__(self, config: dict[str, Any], pods: list[dict[str, Any]]) -> None:
        self.now = START + 600
        self.key = ("ml", config["metadata"]["labels"][JOB_LABEL])
        self._version = 0
        self.store = Store(lambda _: None, Room(2**30, 2**30), lambda: self.now)
        self.store.saw_map(self._live(config, uid="config-1"))
        for pod in pods:
            self.store.saw_pod({**self._live(pod), "status": self._running(pod)})

    def _live(self, value: Mapping[str, Any], uid: str = "") -> dict[str, Any]:
        self._version += 1
        name = value["metadata"]["name"]
        facts = {
            "namespace": "ml",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(self._version),
            "creationTimestamp": "2023-11-14T22:13:20Z",
        }
        return {**value, "metadata": {**value["metadata"], **facts}}

    def _running(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        since = "2023-11-14T22:14:20Z"
        state = {"running": {"startedAt": since}}
        return {
            "phase": "Running",
            "startTime": "2023-11-14T22:13:25Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
            "containerStatuses": [
                {"name": container["name"], "ready": True, "restartCount": 0, "state": state}
                for container in pod["spec"]["containers"]
            ],
        }

    def run(self) -> StoredRun:
        """The job, as this version reads what the other one stored."""
        seen = self.store.job(self.key)
        assert seen is not None
        assert seen.config is not None
        return StoredRun(seen.config.value)

    def actions(self) -> list[Any]:
        """What a watcher does that begins to look after it, in its first minutes."""
        done: list[Any] = []
        for _ in range(10):
            seen = self.store.job(self.key)
            assert seen is not None
            case = Case(self.key, self.run(), seen)
            strangers = strangers_of(case)
            shown = view(case, strangers, Timeouts(), since=START, superseded=False, unreadable="")
            for action in decide(shown, self.now):
                done.append(action)
                if isinstance(action, WriteStatus):
                    self._write(record_data(action.record))
            self.now += 60
        return done

    def _write(self, data: Mapping[str, str]) -> None:
        name = self.key[1]
        labels = {JOB_LABEL: name}
        metadata = {"name": f"{name}-etcompile-status", "labels": labels}
        self.store.saw_map(self._live({"kind": "ConfigMap", "metadata": metadata, "data": data}))


class Job(NamedTuple):
    """A job of a case: its ConfigMap and its Pods, as the version before rendered them."""

    case: str
    config: dict[str, Any]
    pods: list[dict[str, Any]]


def running_jobs(versions: Versions) -> Iterator[Job]:
    """The jobs of all cases."""
    for name in accepted(versions):
        objects = [one for one in yaml.safe_load_all(versions.before[name].text) if one]
        for config in objects:
            if STORED_JOB in (config.get("data") or {}):
                job = config["metadata"]["labels"][JOB_LABEL]
                pods = [one for one in objects if one["kind"] == "Pod"]
                own = [pod for pod in pods if pod["metadata"]["labels"][JOB_LABEL] == job]
                yield Job(name, config, own)


def test_the_watcher_leaves_a_job_of_the_version_before_running(versions: Versions) -> None:
    jobs = [*running_jobs(versions)]
    assert len(jobs) > len(versions.before) / 2
    for case, config, pods in jobs:
        done = Cluster(config, pods).actions()
        assert any(isinstance(action, WriteStatus) for action in done), case
        touched = [action for action in done if isinstance(action, TOUCHING)]
        assert touched == [], case


def test_a_job_of_the_version_before_is_the_same_run(versions: Versions) -> None:
    """Else an apply would exchange all Pods of a job that nobody has changed."""
    entries = yaml.safe_load(EXPLAINED.read_text("utf-8"))
    others = []
    for case, config, pods in running_jobs(versions):
        carried = {pod["metadata"]["annotations"][SPEC_HASH] for pod in pods}
        difference = Difference(case, "Pod", f"metadata.annotations.{SPEC_HASH}")
        if not any(explains(entry, difference) for entry in entries):
            others += [(case, found) for found in carried - {Cluster(config, pods).run().spec_hash}]
    assert others == []


def test_a_replacement_is_the_pod_that_the_version_before_made(versions: Versions) -> None:
    """Else Git would declare another Pod than the one that runs, and a sync would be refused."""
    entries = yaml.safe_load(EXPLAINED.read_text("utf-8"))
    compared = 0
    for name, config, running in running_jobs(versions):
        run = Cluster(config, running).run()
        pods = {pod["metadata"]["name"]: pod for pod in running}
        for role in run.job.roles:
            if role.batch:
                continue
            for _, made in run.pods(role.name, [member.index for member in role.members]):
                declared = pods.get(made["metadata"]["name"])
                if declared is None:
                    continue  # a suspended job declares none
                # Git may leave the namespace to whoever applies it; a request names it.
                metadata = {**declared["metadata"], "namespace": "ml"}
                found = of_objects(name, {**declared, "metadata": metadata}, made)
                assert [
                    one for one in found if not any(explains(entry, one) for entry in entries)
                ] == []
                compared += 1
    assert compared > len(versions.before)


def test_the_version_before_is_another_one(versions: Versions) -> None:
    assert version_at(versions.revision) != __version__ or "ETCOMPILE_PREVIOUS" in os.environ
