"""Why a job is as it is, as a JSON value for scripts."""

from typing import Any

from etcompile.failures import Failure
from etcompile.goodput import Timeline
from etcompile.k8s.objects import timestamp
from etcompile.status.documents import goodput_value
from etcompile.status.why.explanation import Attempt, Explanation


def explanation_value(why: Explanation) -> dict[str, Any]:
    """Why a job is as it is."""
    status = why.status
    return {
        "namespace": status.namespace,
        "name": status.name,
        "kind": status.kind or None,
        "phase": status.phase,
        "because": status.because,
        "verdict": why.verdict or None,
        "first": _failure(why.last.first) if why.last else None,
        "attempts": [_attempt(attempt) for attempt in why.attempts],
        "waiting": [
            {
                "pods": list(held.names),
                "state": held.state,
                "reason": held.reason or None,
                "message": held.message,
            }
            for held in why.held
        ],
        "notCreated": [
            {"reason": event.reason, "message": event.message, "objects": list(event.objects)}
            for event in why.refused
        ],
        "nodes": {node: dict(causes) for node, causes in why.nodes},
        "avoidedNodes": list(why.avoided),
        "preflightWarnings": list(why.warned),
        "goodput": goodput_value(status.goodput),
        "timeline": _timeline(status.timeline),
        "restarts": why.restarts,
        "restartLimit": why.limit,
        "logKept": why.kept,
        "advice": list(why.advice),
    }


def _timeline(timeline: Timeline | None) -> dict[str, Any] | None:
    if timeline is None:
        return None
    return {
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
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.number + 1,
        "first": _failure(attempt.first),
        "failedInTheSameSecond": [_failure(failure) for failure in attempt.alike],
        "stillRunning": list(attempt.running),
        "followed": dict(attempt.followed),
        "failedAgain": attempt.again,
        "others": [_failure(failure) for failure in attempt.others],
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "pod": failure.pod,
        "role": failure.role,
        "index": failure.index,
        "node": failure.node or None,
        "at": timestamp(failure.at) if failure.at is not None else None,
        "cause": failure.cause.name,
        "blame": failure.cause.blame,
        "says": failure.cause.line or None,
        "container": failure.container or None,
        "exitCode": failure.code,
        "signal": failure.signal or None,
        "reason": failure.reason or None,
        "message": failure.message or None,
        "tail": failure.tail or None,
    }
