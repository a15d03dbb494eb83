"""Pods as no test of a rule has them: every command shows them, and names one culprit at most."""

import json
from typing import Any

import pytest

from etcompile.status.documents import explanation_value, job_value
from etcompile.status.explanation_text import (
    explanation_markdown,
    explanation_page,
    explanation_text,
)
from etcompile.status.explanations import explanations
from etcompile.status.job_status import statuses
from etcompile.status.text import changes, job_text, jobs_text, together
from specs import kubeflow_job
from status.explained import NOW, objects

AT = "2026-11-23T10:00:00Z"
COLORED = (
    "\x1b[31mTraceback (most recent call last):\x1b[0m\n"
    '  File \x1b[35m"/app/t.py"\x1b[0m, line \x1b[35m1\x1b[0m, in \x1b[35m<module>\x1b[0m\n'
    "\x1b[1;35mZeroDivisionError\x1b[0m: \x1b[35mdivision by zero\x1b[0m\n"
)
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/app/train.py", line 11, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/train.py", line 4, in a
    |     raise ValueError("bad shard 7")
    | ValueError: bad shard 7
    +------------------------------------
"""
CHAIN = """Traceback (most recent call last):
  File "train.py", line 3, in load
    raise KeyError("shard")
KeyError: 'shard'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    raise RuntimeError("cannot load")
RuntimeError: cannot load
"""


def has(name: str = "pytorch", last: Any = None, count: int = 0, **state: Any) -> dict[str, Any]:
    before = {"lastState": {"terminated": last}} if last else {}
    return {"name": name, "restartCount": count, "state": state, **before}


def ended(code: int, reason: str = "Error", message: str = "", at: Any = AT) -> dict[str, Any]:
    return {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}


def waiting(reason: str) -> dict[str, Any]:
    return {"reason": reason, "message": "words"}


def failed(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"phase": "Failed", "containerStatuses": [*containers], **more}


def running(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [*containers], **more}


def pending(*containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"phase": "Pending", "containerStatuses": [*containers], **more}


def ends(code: int, reason: str = "Error", message: str = "", at: Any = AT) -> dict[str, Any]:
    return failed(has(terminated=ended(code, reason, message, at)))


def disrupted(reason: str) -> dict[str, Any]:
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "words"}
    return failed(has(terminated=ended(143)), conditions=[{**target, "lastTransitionTime": AT}])


INIT = has(waiting=waiting("PodInitializing"))
CRASHING = has("prep", ended(1), 3, waiting=waiting("CrashLoopBackOff"))
GOING = {"deletionTimestamp": AT}
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
CASES: list[tuple[dict[str, Any] | None, str]] = [
    # status, what the explanation says
    (None, "Pending: not scheduled yet"),
    ({"phase": "Running"}, "NotReady"),
    ({"phase": "Failed"}, "it ended, and nothing says why"),
    (failed(conditions=None, initContainerStatuses=None), "it ended, and nothing says why"),
    (failed(has(running={})), "it ended, and nothing says why"),
    (failed(ephemeralContainerStatuses=[has("debug", terminated=ended(1))]), "nothing says why"),
    ({"phase": "Hibernating"}, "Hibernating"),
    ({"phase": "Unknown", "reason": "NodeLost"}, "its node does not answer"),
    (pending(has(waiting=waiting("FluxCapacitorError"))), "FluxCapacitorError: words"),
    (pending(has(waiting={})), "not started yet"),
    (pending(conditions=GATED), "SchedulingGated"),
    (ends(137, "OOMKilled"), "OOMKilled"),
    (running(has()), "not started yet"),
    (running({"name": "pytorch", "state": None, "lastState": None}), "not started yet"),
    (running({"name": "pytorch", "state": {"running": {}}}), "running, but not ready"),
    (running(has(count=7, running={})), "running, but not ready"),
    (running(has(running={}), conditions=[{}]), "running, but not ready"),
    (running(has(terminated=ended(0)), has("side", running={})), "completed"),
    (running(has(terminated=ended(3)), has("side", running={})), "pytorch ended with exit code 3"),
    (pending(INIT, initContainerStatuses=[CRASHING]), "container prep: keeps crashing"),
    (failed(INIT, initContainerStatuses=[has("prep", terminated=ended(2))]), "prep ended with"),
    (
        failed(INIT, initContainerStatuses=[has("prep", terminated=ended(137, "OOMKilled"))]),
        "container prep ran out of memory",
    ),
    (running(has(running={}), ephemeralContainerStatuses=[has("debug")]), "not ready"),
    (failed(reason="NodeLost", message="words"), "on a node that stopped answering"),
    (disrupted("DeletionByPodGC"), "on a node that stopped answering"),
    (disrupted("PreemptionByScheduler"), "preempted by a Pod of higher priority"),
    (disrupted("SomethingNew"), "SomethingNew"),
    (failed(reason="Preempting"), "preempted by a Pod of higher priority"),
    (failed(reason="Evicted", message="low on resource: memory"), "was evicted"),
    (failed(reason="OutOfpods"), "was not admitted by its node"),
    (failed(has(terminated=ended(137)), reason="DeadlineExceeded"), "longer than activeDeadline"),
    (
        running(has(running={}), has("shipper", ended(137, "OOMKilled"), 3)),
        "container shipper ran out of memory",
    ),
    (ends(137, "ContainerStatusUnknown"), "does not know how"),
    (ends(3221225477), "exit code 3221225477"),
    (ends(-1), "exit code -1"),
    (ends(1, at="yesterday"), "exit code 1"),
    (ends(1, at=None), "exit code 1"),
    (failed({"state": {"terminated": ended(5)}}), "exit code 5"),
    (ends(1, message="\0\ufffd\ud83d bad"), "exit code 1"),
    (ends(1, message="x" * 10**6 + "\nValueError: y"), "ValueError: y"),
    (ends(1, message=COLORED), "ZeroDivisionError: division by zero ("),
    (ends(1, message=GROUP), "exception, ValueError: bad shard 7"),
    (ends(1, message=CHAIN), "exception, RuntimeError: cannot load"),
    (ends(1, message=CHAIN.replace("\n", "\r\n")), "cannot load"),
]
WITH_FINALIZER = {"deletionTimestamp": "2026-11-23T10:05:00Z", "finalizers": ["x.io/keep"]}
DELETED = [
    ({"phase": "Running"}, "it is being deleted", GOING),
    (ends(143), "Terminating: it is being deleted", GOING),
    (ends(1), "pytorch ended with exit code 1", WITH_FINALIZER),
]


@pytest.mark.parametrize(
    ("status", "says", "metadata"), [*((*case, {}) for case in CASES), *DELETED]
)
def test_odd_pod_is_shown_with_one_culprit_at_most(
    status: dict[str, Any] | None, says: str, metadata: dict[str, Any]
) -> None:
    values = objects(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}))
    for value in values:
        if value["kind"] == "Pod":
            name = value["metadata"]["name"]
            value["metadata"] = {**value["metadata"], "uid": name}
            ready = [{"type": "Ready", "status": "True"}]
            value["status"] = {"phase": "Running", "conditions": ready}
            if name == "mnist-worker-0":
                value["metadata"] |= metadata
                value["status"] = status
    [job], [why] = statuses(values), explanations(values)
    text = explanation_text(why, NOW)
    assert says in text
    culprits = [line for line in text.splitlines() if line.startswith(("First to", "Last "))]
    assert len(culprits) == (why.last is not None)
    assert all("mnist-worker-0" in line for line in culprits)
    assert culprits or job.phase != "Failed"
    assert "\x1b" not in text + explanation_page(why, NOW) + explanation_markdown(why, NOW)
    assert json.dumps([job_value(job), explanation_value(why)])
    assert job_text(job, NOW)
    assert jobs_text([job], NOW)
    assert [str(change) for change in together(changes([], [job]))]
