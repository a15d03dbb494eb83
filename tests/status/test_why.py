"""Why a job is as it is, from its objects: what failed first, and what keeps it from starting."""

from typing import Any

import pytest
from msgspec import structs

from defects.test_trainer import job as any_trainjob
from defects.test_trainer import with_data
from etcompile.causes.goodput import Attempt, Timeline, timeline_text
from etcompile.causes.log import FailureLog
from etcompile.status.documents import explanation_value, job_value
from etcompile.status.explanation_text import explanation_markdown, explanation_text
from etcompile.status.explanations import Explanation, explanations
from etcompile.status.text import job_text
from specs import kubeflow_job, training_job
from status.explained import (
    AT,
    NOW,
    failure,
    give,
    objects,
    of_all_pods_gone,
    record,
    run_of,
    unschedulable,
    warning,
)


def test_first_cause_is_explained_when_all_pods_are_gone() -> None:
    text = explanation_text(of_all_pods_gone(), NOW)
    because = "reported by the watcher: BackoffLimitExceeded: mnist-worker-7: its container"
    assert text.startswith(f"ml/mnist (PyTorchJob) has failed ({because} was killed")
    first = "First to fail: mnist-worker-7 on node gpu-7, 10m ago (10:00:00 UTC): it ran out of"
    assert f"{first} memory (OOMKilled, exit code 137, SIGKILL)\n" in text
    assert "  Its last lines:\n    | step 8\n    | allocating\n" in text
    assert "What followed: 7 more ended within 1 s: 7 lost the connection to another rank\n" in text
    assert "  attempt 1: mnist-worker-7 on node gpu-7, 15m ago" in text
    assert "  gpu-7: OOMKilled (2)\n" in text
    assert "The watcher has restarted the run once" in text
    assert "  - raise resources.limits.memory" in text
    assert "  - then run it again: etcompile restart mnist -n ml\n" in text


def test_replica_that_fails_repeatedly_is_not_counted_among_later_failures() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}))
    times = [failure(1, AT + 60 * n, 0, code=3) for n in range(4)]
    times = [structs.replace(one, uid=f"uid-1-{n}.main.0") for n, one in enumerate(times)]
    log = FailureLog(run_of(values)).with_failures([*times, failure(0, AT + 1)], (), AT)
    [explanation] = explanations([*values, record(values, log, phase="Running")])
    text = explanation_text(explanation, NOW)
    assert "What followed: it failed again 3 times; 1 more ended within" in text


def test_explanation_shows_at_most_the_requested_log_lines() -> None:
    assert "allocating" in explanation_text(of_all_pods_gone(), NOW, lines=1)
    assert "step 8" not in explanation_text(of_all_pods_gone(), NOW, lines=1)
    assert "Its last lines" not in explanation_text(of_all_pods_gone(), NOW, lines=0)


def test_scripts_get_the_same_as_a_value() -> None:
    value = explanation_value(of_all_pods_gone())
    first = value["first"]
    assert (first["pod"], first["node"], first["cause"]) == ("mnist-worker-7", "gpu-7", "OOMKilled")
    assert (first["exitCode"], first["at"]) == (137, "2026-11-23T10:00:00Z")
    assert value["attempts"][0]["followed"] == {"lost the connection to another rank": 7}
    assert value["nodes"] == {"gpu-7": {"OOMKilled": 2}}


def test_a_report_to_paste_has_nothing_that_markdown_would_act_on() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    odd = failure(0, AT, tail="```\n# not a heading\n<b>", message="a|b", reason="*Odd*", code=None)
    log = FailureLog(run_of(values)).with_failures([odd], (), AT)
    [explanation] = explanations([*values, record(values, log, phase="Running")])
    text = explanation_markdown(explanation, NOW)
    assert "\n````\n```\n# not a heading\n<b>\n````\n" in text
    assert "\\*Odd\\*" in text
    assert "a\\|b" in text


@pytest.mark.parametrize(
    "killing",
    ["Container pytorch failed liveness probe, will be restarted", "Stopping container pytorch"],
    ids=["started-again", "not-started-again"],
)
def test_container_killed_by_a_failed_probe_is_identified_by_its_events(killing: str) -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}))
    ended = {"code": 143, "reason": "Error", "container": "pytorch"}
    busy, peer = failure(0, AT + 2, **ended), failure(1, AT, **ended)
    log = FailureLog(run_of(values)).with_failures([busy, peer], (), AT)
    said = {
        "Unhealthy": "Liveness probe failed: HTTP probe failed with statuscode: 500",
        "Killing": killing,
    }
    about = {"uid": busy.uid.partition(".")[0], "fieldPath": "spec.containers{pytorch}"}
    events = [
        warning(busy.pod, reason, message, "2026-11-23T10:00:00Z", **about)
        for reason, message in said.items()
    ]
    old = [{**event, "lastTimestamp": "2026-11-23T09:00:00Z"} for event in events]
    # One Event stands for all that are alike, and here the last of them is newer.
    begun = {"firstTimestamp": "2026-11-23T10:00:00Z", "lastTimestamp": "2026-11-23T10:08:00Z"}
    repeated = [{**event, **begun} for event in events]
    for reported, first in ((events, busy), (events[:1], peer), (old, peer)):
        [explanation] = explanations([*values, record(values, log, phase="Running"), *reported])
        assert explanation.last is not None
        assert explanation.last.first.pod == first.pod
    [explanation] = explanations([*values, record(values, log, phase="Running"), *repeated])
    assert {f.cause.name for f in (explanation.last.first, *explanation.last.others)} >= {
        "ProbeFailed"
    }
    [explanation] = explanations([*values, record(values, log, phase="Running"), *events])
    text = explanation_text(explanation, NOW)
    assert (
        "container pytorch was killed because a probe failed (ProbeFailed, exit code 143, SIGTERM"
        in text
    )
    assert "statuscode: 500" in text


def test_a_pod_whose_image_has_no_python_is_said_to_be_unsupervised() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    for value in values:
        if value["kind"] == "Pod":
            value["metadata"]["uid"] = value["metadata"]["name"]
            value["spec"]["nodeName"] = "gpu-0"
            value["status"] = {"phase": "Running"}
    name, words = "mnist-master-0", "this image has no Python 3.8 or newer"
    event = warning(name, "Unsupervised", words, "2026-11-23T10:00:00Z", uid=name)
    [explanation] = explanations([*values, event])
    text = explanation_text(explanation, NOW)
    assert "mnist-master-0: Running, NotReady: unsupervised: this image has no Python" in text
    assert "mnist-worker-0: Running, NotReady: unsupervised" not in text


def test_without_a_watcher_the_pods_that_are_there_tell_what_they_can() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    pod = values[-1]
    assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", "mnist-worker-0")
    pod["metadata"]["uid"], pod["spec"]["nodeName"] = "uid-0", "gpu-0"
    ended = {"exitCode": 139, "reason": "Error", "finishedAt": "2026-11-23T10:00:00Z"}
    state = {"name": "pytorch", "ready": False, "state": {"terminated": ended}}
    pod["status"] = {"phase": "Failed", "containerStatuses": [state]}
    [explanation] = explanations(values)
    text = explanation_text(explanation, NOW)
    assert "mnist-worker-0 on node gpu-0, 10m ago" in text
    assert "crashed with a segmentation fault (exit code 139, SIGSEGV)" in text


def test_pending_job_is_explained_in_the_words_of_the_scheduler() -> None:
    values = objects(training_job(replicas=2))
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waits = {"name": "wait-for-workers", "state": {"running": {}}}
    for value in values:
        if value["metadata"]["name"] == "mnist-launcher" and value["kind"] == "Pod":
            value["spec"]["nodeName"] = "node-0"
    waiting = {"phase": "Pending", "initContainerStatuses": [waits]}
    give(values, lambda name: unschedulable(words) if "worker" in name else waiting)
    [explanation] = explanations(values)
    text = explanation_text(explanation, NOW)
    assert text.startswith("ml/mnist (TrainingJob) is pending: 0 of 3 Pods are ready\n")
    assert "mnist-worker-0, mnist-worker-1: Pending, Unschedulable: cannot be scheduled: " in text
    assert words in text
    gate = "waits for mnist-worker-0 (Unschedulable), mnist-worker-1 (Unschedulable) to be ready"
    assert gate in text
    assert "make room, ask for less" in text


def test_who_waits_for_others_to_succeed_says_for_whom() -> None:
    values = objects(with_data(), any_trainjob())
    for value in values:
        if value["kind"] == "Pod":
            value["spec"]["nodeName"] = "node-0"
            value["status"] = {"phase": "Running"}
            if "-node-" in value["metadata"]["name"]:
                waits = {"name": "wait-for-jobs", "state": {"running": {}}}
                value["status"] = {"phase": "Pending", "initContainerStatuses": [waits]}
    [explanation] = explanations(values)
    [held] = [held for held in explanation.held if held.name == "t-node-0-0"]
    assert held.message.startswith("waits for t-dataset-initializer-")


def test_a_healthy_job_says_that_nothing_has_failed() -> None:
    values = objects(training_job(replicas=1))
    ready = {"type": "Ready", "status": "True"}
    give(values, lambda _: {"phase": "Running", "conditions": [ready]})
    [explanation] = explanations(values)
    assert explanation_text(explanation, NOW) == (
        "ml/mnist (TrainingJob) is running: 2 of 2 Pods are ready, and nothing has failed\n"
    )


def test_the_log_of_another_run_does_not_count() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    log = FailureLog("another").with_failures([failure(0, AT)], (), AT)
    [explanation] = explanations([*values, record(values, log, phase="Running")])
    assert explanation.attempts == ()


def on_a_silent_node(**annotations: str) -> tuple[Explanation, str]:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    document["metadata"]["annotations"] = annotations
    values = objects(document)
    for value in values:
        if value["kind"] != "Pod":
            continue
        silent = value["metadata"]["name"] == "mnist-worker-1"
        ready = {"type": "Ready", "status": "False" if silent else "True"}
        value["spec"]["nodeName"] = f"node-of-{value['metadata']['name']}"
        value["status"] = {
            "phase": "Running",
            "conditions": [
                {"type": "ContainersReady", "status": "True"},
                {**ready, "lastTransitionTime": "2026-11-22T11:55:00Z"},
            ],
        }
    [why] = explanations(values)
    return why, explanation_text(why, NOW)


def test_a_node_that_does_not_answer_is_named_with_what_can_be_done() -> None:
    why, text = on_a_silent_node()
    [held] = why.held
    assert (held.name, held.reason) == ("mnist-worker-1", "NodeLost")
    assert "node-of-mnist-worker-1 has not answered since 2026-11-22 11:55:00 UTC" in text
    assert "etcompile.dev/lost-node-after" in text


def test_pod_on_a_silent_node_is_explained_with_the_time_until_its_deletion() -> None:
    _, text = on_a_silent_node(**{"etcompile.dev/lost-node-after": "600"})
    assert "after 600 s without an answer the watcher deletes the Pod by force" in text


def test_nodes_that_are_avoided_are_marked() -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    document["metadata"]["annotations"] = {"etcompile.dev/avoid-nodes": "2"}
    values = objects(document)
    log = FailureLog(
        run_of(values),
        nodes={"bad": {"Refused": 2}, "good": {"Exception": 9}, "so-so": {"Killed": 1}},
    )
    [why] = explanations([*values, record(values, log)])
    assert why.avoided == ("bad",)
    lines = [line for line in explanation_text(why, NOW).splitlines() if "avoid" in line]
    assert lines == ["  bad: Refused (2); Pods that are recreated avoid it"]
    assert explanation_value(why)["avoidedNodes"] == ["bad"]


def test_time_in_training_is_shown_in_every_output_format() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    run = run_of(values)
    first = Attempt(0, AT - 13200, AT - 6000, "mnist-worker-0: exit code 1")
    times = ((AT - 13000, AT - 6000), (AT - 5520, AT - 1000))
    timeline = Timeline(run, AT - 13200, (first, Attempt(1, AT - 6000)), times)
    facts = {"phase": "Failed", "restarts": 1, "restarted_at": AT - 6000, "finished": AT}
    status = record(values, FailureLog(run), **facts)
    status["data"]["timeline"] = timeline_text(timeline)
    [explanation] = explanations([*values, status], now=AT + 500)
    sentence = "It was in training for 3 h 12 min of 3 h 40 min (87 %)."
    assert sentence in explanation_text(explanation, NOW)
    assert sentence in explanation_markdown(explanation, NOW)
    value = explanation_value(explanation)
    assert value["goodput"] == {"trainingSeconds": 11520, "elapsedSeconds": 13200, "ratio": 0.8727}
    assert [one["why"] for one in value["timeline"]["attempts"]] == [first.why, None]
    assert "Goodput:   in training for 3 h 12 min of 3 h 40 min" in job_text(
        explanation.status, NOW
    )
    assert job_value(explanation.status)["goodput"] == value["goodput"]


def test_what_the_pods_tell_since_the_last_write_counts_as_well() -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 1}))
    run = run_of(values)
    since = "2026-11-23T09:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    main = {"name": "pytorch", "ready": True, "state": {"running": {"startedAt": since}}}
    running = {"phase": "Running", "conditions": [ready], "containerStatuses": [main]}
    give(values, lambda _: running)
    status = record(values, FailureLog(run), phase="Running", started=AT - 3700)
    [explanation] = explanations([*values, status], now=AT)
    text = explanation_text(explanation, NOW)
    assert "It has been in training for 1 h of 1 h 1 min (97 %)." in text


def test_preflight_warning_is_explained() -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    document["metadata"]["annotations"] = {"etcompile.dev/preflight": "exit 10"}
    values = objects(document)

    def checked(name: str) -> dict[str, Any]:
        word = {"message": "warns\n"} if name == "mnist-worker-0" else {}
        state = {"terminated": {"exitCode": 0, **word}}
        inits = [{"name": "preflight", "state": state}]
        return {"phase": "Running", "initContainerStatuses": inits}

    give(values, checked)
    [why] = explanations(values)
    assert explanation_value(why)["preflightWarnings"] == ["mnist-worker-0"]
    for text in (explanation_text(why, NOW), explanation_markdown(why, NOW)):
        assert "The preflight check has warned in mnist-worker-0" in text.replace("\\", "")
        assert "kubectl logs mnist-worker-0 -n ml -c preflight" in text.replace("\\", "")
