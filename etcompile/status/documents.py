"""Convert the status of jobs, and its explanation, to JSON values for scripts."""

from typing import TYPE_CHECKING, Any

import msgspec

from etcompile.k8s.objects import timestamp
from etcompile.status.values import NEWEST_EVENTS, JobStatus, grouped

if TYPE_CHECKING:
    from etcompile.causes.goodput import Goodput
    from etcompile.causes.log import Failure
    from etcompile.status.explanations import Explanation


def job_value(job: JobStatus) -> dict[str, Any]:
    # Every other field is one word, which is spelt the same in Python and in JSON.
    value: dict[str, Any] = msgspec.to_builtins(job)
    for renamed in ("reported", "orphan_of", "timeline", "unwatched_since", "missing_services"):
        del value[renamed]
    return value | {
        "kind": job.kind or None,
        "phaseFrom": "watcher" if job.reported else "pods",
        "unwatchedSince": job.unwatched_since,
        "orphanOf": job.orphan_of or None,
        "missingServices": list(job.missing_services),
        "restarts": job.restarts,
        "events": value["events"][:NEWEST_EVENTS],
        "goodput": _goodput(job.goodput),
    }


def _goodput(goodput: "Goodput | None") -> dict[str, Any] | None:
    if goodput is None:
        return None
    return {
        "trainingSeconds": round(goodput.training, 1),
        "elapsedSeconds": round(goodput.elapsed, 1),
        "ratio": round(goodput.ratio, 4),
    }


def explanation_value(why: "Explanation") -> dict[str, Any]:
    status = why.status
    return {
        "namespace": status.namespace,
        "name": status.name,
        "kind": status.kind or None,
        "phase": status.phase,
        "because": status.because,
        "verdict": why.verdict or None,
        "first": _failure(why.last.first) if why.last else None,
        "attempts": [
            {
                "attempt": attempt.number + 1,
                "first": _failure(attempt.first),
                "failedInTheSameSecond": [*map(_failure, attempt.tied)],
                "stillRunning": list(attempt.running),
                "followed": dict(attempt.followed),
                "failedAgain": attempt.again,
                "others": [*map(_failure, attempt.others)],
            }
            for attempt in why.attempts
        ],
        "waiting": [
            {
                "pods": [replica.name for replica in replicas],
                "state": replicas[0].state,
                "reason": replicas[0].reason or None,
                "message": replicas[0].message,
            }
            for replicas in grouped(why.held)
        ],
        "notCreated": [
            {"reason": event.reason, "message": event.message, "objects": list(event.objects)}
            for event in why.refused
        ],
        "nodes": {node: dict(causes) for node, causes in why.nodes},
        "avoidedNodes": list(why.avoided),
        "preflightWarnings": list(why.warned),
        "goodput": _goodput(status.goodput),
        "timeline": None
        if (timeline := status.timeline) is None
        else {
            "began": timestamp(timeline.began),
            "attempts": [
                {
                    "attempt": attempt.number + 1,
                    "began": timestamp(attempt.began),
                    "ended": timestamp(attempt.ended) if attempt.ended else None,
                    "why": attempt.why or None,
                }
                for attempt in timeline.attempts
            ],
            "inTraining": [[timestamp(begin), timestamp(end)] for begin, end in timeline.times],
            "earlierSeconds": round(timeline.before, 1),
        },
        "restarts": why.restarts,
        "restartLimit": why.limit,
        "logKept": why.has_log,
        "advice": list(why.advice),
    }


def _failure(failure: "Failure") -> dict[str, Any]:
    cause = failure.cause
    return {
        "pod": failure.pod,
        "role": failure.role,
        "index": failure.index,
        "node": failure.node or None,
        "at": timestamp(failure.at) if failure.at is not None else None,
        "cause": cause.name,
        "blame": cause.blame,
        "says": cause.line or None,
        "container": failure.container or None,
        "exitCode": failure.code,
        "signal": failure.signal or None,
        "reason": failure.reason or None,
        "message": failure.message or None,
        "tail": failure.tail or None,
    }
