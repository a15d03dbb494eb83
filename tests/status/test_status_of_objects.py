"""Objects to a status, for what no test has the patience to bring about in a cluster."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from etcompile.model.protocol import is_config
from etcompile.model.run_record import VERSION, RunRecord, record_data
from etcompile.status import JobStatus, statuses
from etcompile.status.documents import job_value
from etcompile.status.explanation_text import explanation_text
from etcompile.status.explanations import explanations
from etcompile.status.job_status import watchers
from etcompile.status.text import age, changes, job_text, jobs_text, reason_lines, together
from specs import elastic_job, kubeflow_job, mpi_job, training_job
from status.explained import objects, warning

EXAMPLES = Path(__file__).parents[2] / "examples"


def status(values: list[dict[str, Any]], phases: dict[str, str]) -> JobStatus:
    """The status when Pods have these phases; those that are not named do not exist."""
    current = []
    for value in values:
        if value["kind"] != "Pod":
            current.append(value)
        elif phase := phases.get(value["metadata"]["name"]):
            current.append({**value, "status": {"phase": phase}})
    (result,) = statuses(current)
    return result


def of_watcher(**data: str) -> dict[str, Any]:
    metadata = {"name": "mnist-etcompile-status", "namespace": "ml"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def phase(example: str, job: str, phases: str) -> str:
    """The phase when a role's Pods have these: `worker: Running Failed, master: Running`."""
    named = {}
    for role in phases.split(", "):
        name, _, each = role.partition(": ")
        for index, one in enumerate(each.split()):
            named[f"{job}-{name}-{index}"] = one
    return status(objects(EXAMPLES / example), named).phase


@pytest.mark.parametrize(
    ("example", "job", "phases", "expected"),
    [
        # All of a role must succeed.
        ("jaxjob/all-reduce", "jax-all-reduce", "worker: Running Running", "Running"),
        ("jaxjob/all-reduce", "jax-all-reduce", "worker: Succeeded Running", "Running"),
        ("jaxjob/all-reduce", "jax-all-reduce", "worker: Running Failed", "Failed"),
        # One of an elastic role is enough, and it goes on while its minimum is left.
        ("pytorchjob/elastic/job.yaml", "elastic", "worker: Succeeded Running", "Succeeded"),
        ("pytorchjob/elastic/job.yaml", "elastic", "worker: Failed Running", "Failed"),
        # The first worker decides where there is no chief.
        ("tfjob/multi-worker", "multi-worker", "worker: Succeeded Running Running", "Succeeded"),
        ("tfjob/multi-worker", "multi-worker", "worker: Running Succeeded Running", "Running"),
        # The master decides, and a worker less stops it.
        ("xgboostjob/iris", "iris", "master: Running, worker: Running Failed", "Failed"),
        ("xgboostjob/iris", "iris", "master: Succeeded, worker: Running Failed", "Succeeded"),
        ("xgboostjob/iris", "iris", "worker: Running Running", "Starting"),
        ("xgboostjob/iris", "iris", "worker: Pending Pending", "Pending"),
    ],
)
def test_success_of_a_job_follows_the_rule_of_its_kind(example, job, phases, expected):
    assert phase(example, job, phases) == expected


def test_an_elastic_job_goes_on_while_its_minimum_is_left():
    job = training_job(replicas=3)
    job["spec"]["etReplicaSpecs"]["worker"]["minReplicas"] = 2
    values = objects(job)
    running = {f"mnist-worker-{index}": "Running" for index in range(3)}
    running["mnist-launcher"] = "Running"
    assert status(values, running | {"mnist-worker-0": "Failed"}).phase == "Running"
    assert (
        status(values, running | {"mnist-worker-0": "Failed", "mnist-worker-1": "Failed"}).phase
        == "Failed"
    )


def test_a_job_without_pods_is_pending_and_names_what_is_missing():
    result = status(objects(training_job(replicas=5)), {})
    assert (result.phase, result.because) == ("Pending", "none of its Pods exists")
    first, second = reason_lines(result.not_ready)
    assert first.startswith("mnist-worker-0, mnist-worker-1, mnist-worker-2 and 2 more: Missing")
    assert second.startswith("mnist-launcher: Missing")


@pytest.mark.parametrize(
    ("run", "config", "phase", "because"),
    [
        ("", "", "Restarting", "reported by the watcher: Evicted: mnist-worker-0"),
        ("", "uid-now", "Restarting", "reported by the watcher: Evicted: mnist-worker-0"),
        ("", "uid-before", "Pending", "none of its Pods exists"),
        ("of-another-run", "", "Pending", "none of its Pods exists"),
    ],
)
def test_the_watchers_record_counts_if_it_is_of_this_run(run, config, phase, because):
    values = objects(training_job())
    for value in values:
        value["metadata"]["uid"] = "uid-now"
    launcher = next(value for value in values if value["kind"] == "Pod")
    spec_hash = launcher["metadata"]["annotations"]["etcompile.dev/spec-hash"]
    record = {"run": run or spec_hash, "version": VERSION, "config": config, "restarts": 1}
    record |= {"reason": "Evicted", "message": "mnist-worker-0"}
    values.append(of_watcher(phase="Restarting", record=json.dumps(record)))
    result = status(values, {})
    assert (result.phase, result.because) == (phase, because)


def test_a_suspended_job_is_suspended():
    document = mpi_job("v2beta1")
    document["spec"]["runPolicy"] = {"suspend": True}
    assert status(objects(document), {}).phase == "Suspended"


def _with_launcher(job_status: dict[str, Any], *pods: dict[str, Any]) -> JobStatus:
    """An MPIJob whose launcher is a Job with this status, and with Pods of these."""
    values = objects(mpi_job("v2beta1"))
    (launcher,) = (value for value in values if value["kind"] == "Job")
    launcher["status"] = job_status
    labels = launcher["spec"]["template"]["metadata"]["labels"]
    for number, pod_status in enumerate(pods):
        owner = {"kind": "Job", "name": launcher["metadata"]["name"]}
        metadata = {
            "name": f"{launcher['metadata']['name']}-{number}",
            "namespace": launcher["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
        }
        values.append(
            {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "status": pod_status}
        )
    (result,) = statuses(values)
    return result


def test_a_launcher_that_is_a_job_is_what_its_newest_pod_is():
    ended = {"exitCode": 1, "reason": "Error"}
    failed = {"phase": "Failed", **main(terminated=ended)}
    result = _with_launcher({"active": 1}, failed, {"phase": "Running"})
    assert (result.phase, result.surplus) == ("Running", ())
    (launcher,) = (one for one in result.replicas if one.role == "launcher")
    assert (launcher.state, launcher.restarts) == ("Running", 1)
    waiting = _with_launcher({}, failed)
    assert waiting.phase == "Pending"


def test_a_launcher_that_is_a_job_ends_when_the_job_does():
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert _with_launcher(complete).phase == "Succeeded"
    over = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    result = _with_launcher({"conditions": [over]}, {"phase": "Failed", "reason": "Evicted"})
    (launcher,) = (one for one in result.not_ready if one.role == "launcher")
    assert result.phase == "Failed"
    assert launcher.reason == "BackoffLimitExceeded"
    assert "Evicted" in launcher.message


def main(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "m", "state": state}]}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (200000, "2d")]
)
def test_ages_are_shown_in_their_largest_unit(seconds, expected):
    now = datetime(2026, 1, 5, tzinfo=UTC)
    assert age((now - timedelta(seconds=seconds)).isoformat(), now) == expected


def test_who_follows_a_failed_worker_of_dlrovers_stands_for_it() -> None:
    values = objects(elastic_job({"worker": 2}))
    master = "elasticjob-mnist-dlrover-master-0"
    names = [f"mnist-edljob-worker-{index}" for index in (0, 1, 4)]
    [failed] = [
        one for one in values if one["kind"] == "Pod" and one["metadata"]["name"] == names[1]
    ]
    # As the watcher makes it: another number, the same rank.
    labels = {**failed["metadata"]["labels"], "etcompile.dev/index": "4"}
    follower = {**failed, "metadata": {**failed["metadata"], "name": names[2], "labels": labels}}
    running = {master: "Running", names[0]: "Running", names[1]: "Failed", names[2]: "Running"}
    result = status([*values, follower], running)
    assert [one.name for one in result.replicas] == [master, names[0], names[2]]
    assert (result.phase, result.surplus) == ("Running", ())
    [worker] = [role for role in result.roles if role.name == "worker"]
    assert (worker.running, worker.failed) == (2, 0)


def in_place(record: RunRecord | None, epochs: dict[str, str]) -> JobStatus:
    """The status of `pytorchjob/in-place`, whose Pods were told this and whose commands ended."""
    values = objects(EXAMPLES / "pytorchjob" / "in-place")
    for value in values:
        if value["kind"] == "Pod":
            name = value["metadata"]["name"]
            if name in epochs:
                value["metadata"]["annotations"] |= {"etcompile.dev/epoch": epochs[name]}
            [container] = value["spec"]["containers"]
            state = {"name": container["name"], "ready": False, "state": {"running": {}}}
            value["spec"]["nodeName"] = "node-0"
            value["status"] = {"phase": "Running", "containerStatuses": [state]}
    if record is not None:
        [config] = [value for value in values if is_config(value["metadata"])]
        name = config["metadata"]["labels"]["etcompile.dev/job"] + "-etcompile-status"
        metadata = {"name": name, "namespace": "ml"}
        values.append({"kind": "ConfigMap", "metadata": metadata, "data": record_data(record)})
    (result,) = statuses(values)
    return result


def spec_hash() -> str:
    values = objects(EXAMPLES / "pytorchjob" / "in-place")
    pod = next(value for value in values if value["kind"] == "Pod")
    return str(pod["metadata"]["annotations"]["etcompile.dev/spec-hash"])


def test_epoch_of_a_run_restarted_in_place_is_shown_with_its_reason():
    reason = "worker-1 failed first: exit code 137 (SIGKILL)"
    record = RunRecord(
        spec_hash(), "Running", epoch=4, epoch_reason=reason, restarted_at=1_795_000_000.0
    )
    result = in_place(record, {})
    text = job_text(result, datetime.fromtimestamp(1_795_000_180, UTC))
    assert f"Epoch:     4 ({reason}, 3m ago)\n" in text
    assert job_value(result)["epoch"] == {
        "number": 4,
        "reason": reason,
        "at": "2026-11-18T11:06:40Z",
    }
    first = in_place(RunRecord(spec_hash(), "Running", epoch=0), {})
    assert "Epoch:     0\n" in job_text(first, datetime.now(UTC))
    moved = [change for change in changes([first], [result]) if change.object == "epoch"]
    assert [str(change) for change in moved] == [f"ml/{result.name} epoch 0 -> 4: {reason}"]
    # No watcher looks after it, or it looked after another run.
    assert in_place(None, {}).epoch is None
    assert in_place(RunRecord("another", "Running", epoch=4), {}).epoch is None


def test_a_pod_whose_command_does_not_run_says_what_it_waits_for():
    names = [replica.name for replica in in_place(None, {}).replicas]
    why = {r.name: r.message for r in in_place(None, {names[0]: "5 2"}).replicas}
    waits = "its command has ended, waits for the other replicas to begin, or runs unsupervised"
    assert why[names[0]].startswith(f"container pytorch: {waits}")


def watcher(renewed: str, watches: str, duration: int = 15) -> dict[str, Any]:
    metadata = {"name": "etcompile-watch", "annotations": {"etcompile.dev/watches": watches}}
    return {"metadata": metadata, "spec": {"renewTime": renewed, "leaseDurationSeconds": duration}}


OLD, NOW = "2026-11-26T08:59:00.123456Z", "2026-11-26T09:59:50.000000Z"


@pytest.mark.parametrize(
    ("leases", "line"),
    [
        ([(OLD, "ml")], "Watcher:   none for 1h: Pods that fail are not replaced"),
        ([(OLD, "*"), (OLD, "vision")], "Watcher:   none for 1h: Pods that fail are not replaced"),
        ([], "Watcher:   none: Pods that fail are not replaced"),
        ([(NOW, "vision,speech")], "Watcher:   none: Pods that fail are not replaced"),
        # Of an installation that was removed, and of the one that followed.
        ([(OLD, "ml"), (NOW, "*")], None),
        ([(NOW, "vision,ml"), (OLD, "*")], None),
        (None, None),
    ],
)
def test_phase_of_a_watcher_that_is_gone_says_since_when(leases, line):
    values, at = objects(training_job()), datetime(2026, 11, 26, 10, tzinfo=UTC)
    values.append(of_watcher(phase="Running"))
    known = None if leases is None else watchers([watcher(*one) for one in leases], at.timestamp())
    (result,) = statuses(values, at.timestamp(), known)
    text = job_text(result, at)
    assert "Phase:     Pending (no Pod is running; reported by the watcher)" in text
    assert [one for one in text.splitlines() if one.startswith("Watcher:")] == [line] * bool(line)
    assert ("no watcher replaces Pods that fail: ml/mnist" in jobs_text([result], at)) == bool(line)
    (why,) = explanations(values, at.timestamp(), known)
    assert ("none" in explanation_text(why, at)) == bool(line)


def test_an_ended_run_needs_no_watcher():
    values = objects(training_job())
    values.append(of_watcher(phase="Succeeded"))
    (result,) = statuses(values, 0, {})
    assert (result.phase, result.unwatched_since) == ("Succeeded", None)


def test_watch_groups_pods_with_the_same_change_and_events_in_one_line() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 64}))
    workers = [v for v in values if v["kind"] == "Pod" and "worker" in v["metadata"]["name"]]

    def seen(phase: str, reporting: int) -> list[JobStatus]:
        for worker in workers:
            worker["status"] = {"phase": phase, "reason": "Evicted" if phase == "Failed" else ""}
        names = [worker["metadata"]["name"] for worker in workers[:reporting]]
        at = "2026-11-23T10:00:00Z"
        events = [warning(n, "PodReplaced", f"{n} was lost: recreating it", at) for n in names]
        return statuses([*values, *events])

    before, after, later = seen("Running", 0), seen("Failed", 2), seen("Failed", 5)
    lines = [str(change) for change in together(changes(before, after))]
    assert len([line for line in lines if " Pod/" in line and "event" not in line]) == 1, lines
    assert "Pod/mnist-worker-0, Pod/mnist-worker-1, Pod/mnist-worker-2 and 61 more" in lines[1]
    assert len(lines) <= 4, lines
    [event] = changes(after, later)
    assert event.object == "event of Pod/mnist-worker-4, Pod/mnist-worker-3, Pod/mnist-worker-2"
    assert [*changes(later, later)] == []


def test_watch_shares_a_line_among_64_pods_that_fail_and_recover_together() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 63}))
    pods = {v["metadata"]["name"]: dict(v) for v in values if v["kind"] == "Pod"}
    others, events, printed = [v for v in values if v["kind"] != "Pod"], [], []
    before: list[JobStatus] = []
    minute = "2026-11-23T10:00"

    def ended(code: int, at: str) -> dict[str, Any]:
        how = {"exitCode": code, "reason": "Error", "finishedAt": at}
        state = {"name": "pytorch", "ready": False, "restartCount": 0, "state": {"terminated": how}}
        return {"phase": "Failed", "containerStatuses": [state]}

    def lines_at(number: int, names: list[str], type_: str, reason: str, message: str) -> list[str]:
        nonlocal before
        for name in names:
            words = message.format(name=name, ip=f"10.244.1.{len(events) % 250}")
            event = warning(name, reason, words, f"{minute}:{number:02}Z")
            events.append({**event, "type": type_})
        current = statuses([*others, *pods.values(), *events])
        lines = [str(change) for change in together(changes(before, current))]
        before = current
        printed.extend(lines)
        return lines

    def write(names: list[str], condition: str = "True", **status_fields: Any) -> None:
        ready = [{"type": "Ready", "status": condition, "reason": "x"}]
        for name in names:
            pods[name] = pods[name] | {"status": {"conditions": ready, **status_fields}}

    every, failed = [*pods], "mnist-worker-17"
    half, rest = every[:32], every[32:]
    write(every, phase="Running")
    lines_at(0, every, "Normal", "Started", "Started container pytorch")
    del printed[:]
    write([failed], "False", **ended(1, f"{minute}:10Z"))
    [_, first] = lines_at(10, [], "", "", "")
    assert (
        first == "ml/mnist Pod/mnist-worker-17 Ready -> Failed: Error: container pytorch ended"
        " with exit code 1"
    )
    for name in every:
        going = {"deletionTimestamp": f"{minute}:41Z", "deletionGracePeriodSeconds": 30}
        pods[name] = {**pods[name], "metadata": {**pods[name]["metadata"], "uid": name, **going}}
    lines_at(
        11, [n for n in every if n != failed], "Normal", "Killing", "Stopping container pytorch"
    )
    write([name for name in half if name != failed], "False", **ended(143, f"{minute}:12Z"))
    assert lines_at(12, [], "", "", "") == []  # their end was requested
    gone = {name: pods.pop(name) for name in half}
    lines_at(13, [], "", "", "")
    created = {n: {**pod, "metadata": {**pod["metadata"]}} for n, pod in (gone | pods).items()}
    for pod in created.values():
        del pod["metadata"]["deletionTimestamp"]
    pods |= created
    write(every, "False", phase="Pending")
    lines_at(14, every, "Normal", "Scheduled", "Successfully assigned ml/{name} to a node")
    waits = [{"name": "pytorch", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    write(half, "False", phase="Pending", containerStatuses=waits)
    assert lines_at(15, half, "Normal", "Created", "Created container: pytorch") == []
    write(every, "False", phase="Running")
    refused = "Startup probe failed: dial tcp {ip}:8471: connection refused"
    assert len(lines_at(16, half, "Warning", "Unhealthy", refused)) == 3
    assert len(lines_at(17, rest, "Warning", "Unhealthy", refused)) == 1
    write(every, phase="Running")
    lines_at(18, every, "Normal", "Started", "Started container pytorch")
    assert len(printed) <= 14, "\n".join(printed)
    assert not any("Normal" in line or "Killing" in line for line in printed)
