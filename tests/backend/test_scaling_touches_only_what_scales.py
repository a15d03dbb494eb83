"""What a scale intent changes in the output, and what it must not."""

from typing import Any

import pytest

import etcompile
from specs import by_name, compiled, scale_in, scale_out, training_job

MODES = [
    {},
    {"settings": etcompile.Settings(services="shared")},
    {"settings": etcompile.Settings(secret=etcompile.SecretMode("external"))},
]


def changes(before: Any, after: Any) -> dict[str, set[Any]]:
    old, new = by_name(before), by_name(after)
    return {
        "added": set(new) - set(old),
        "removed": set(old) - set(new),
        "changed": {key for key in set(old) & set(new) if old[key] != new[key]},
    }


@pytest.mark.parametrize("options", MODES)
def test_no_surviving_pod_changes_whatever_the_settings(options: dict[str, Any]) -> None:
    job = training_job(replicas=3)
    before = compiled(job, namespace="ml", **options)
    for intent in (scale_out("a", 5), scale_in("b", 2), scale_in("c", ["mnist-worker-0"])):
        after = compiled(job, intent, namespace="ml", **options)
        assert changes(before, after)["changed"] == {("ConfigMap", "mnist-config")}


def test_raising_replicas_in_the_job_changes_no_surviving_pod_either() -> None:
    changed = changes(compiled(training_job(replicas=2)), compiled(training_job(replicas=4)))
    assert changed["changed"] == {("ConfigMap", "mnist-config")}


def test_two_more_workers_of_a_thousand_change_one_line_of_the_stored_job() -> None:
    stored = [
        by_name(compiled(training_job(replicas=1000), *more))["ConfigMap", "mnist-config"]["data"]
        for more in ([], [scale_out("more", 2)])
    ]
    before, after = (one["job.yaml"].splitlines() for one in stored)
    assert len(after) - len(before) == 4
    assert [line for line in before if line not in after] == []
