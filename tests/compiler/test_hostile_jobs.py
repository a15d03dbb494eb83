"""Whatever is in the ConfigMap of a job: it compiles, or `StoredJobError` says why not."""

import contextlib
import json
import random
import sys

import pytest
import yaml

from etcompile.compiler.stored import StoredJobError, read_text
from etcompile.compiler.stored_run import StoredRun
from randomness import mutated
from specs import compiled, training_job

TRIES = 400


def config() -> dict:
    """The ConfigMap of a job as a cluster has it."""
    objects = compiled(training_job("bert"), namespace="ml").objects
    [stored] = [value for value in objects if "job.yaml" in value.get("data", {})]
    return {**stored, "metadata": {**stored["metadata"], "uid": "u", "resourceVersion": "1"}}


@pytest.mark.parametrize(
    "name", ["../../../kube-system/configmaps/x", "..", "a b", "A", "x" * 300, "a?b=c"]
)
def test_stored_name_that_leads_to_another_object_is_refused(name):
    text = config()["data"]["job.yaml"]
    for before, after in (("name: bert\n", f"name: {name!r}\n"), ("settings:\n", None)):
        changed = text.replace(before, after or f"settings:\n  run: {name!r}\n")
        assert changed != text
        with pytest.raises(StoredJobError):
            StoredRun({**config(), "data": {"job.yaml": changed}})


def test_mutated_job_compiles_or_raises_stored_job_error():
    stored = config()
    value = yaml.safe_load(stored["data"]["job.yaml"])
    accepted = 0
    for seed in range(TRIES):
        dice = random.Random(seed)
        text = json.dumps(mutated(value, dice, odds=dice.choice([0.01, 0.03, 0.1])), default=str)
        if seed % 5 == 0:
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice(["", "\x00", "{", "&a", "*a", "- ", "\n"]) + text[at:]
        with contextlib.suppress(StoredJobError):
            StoredRun({**stored, "data": {"job.yaml": text}})
            accepted += 1
    assert 5 < accepted < TRIES - 50


def unbounded() -> dict[str, int]:
    """How much each cache of ours holds that has no limit."""
    return {
        f"{module.__name__}.{name}": value.cache_info().currsize
        for module in [*sys.modules.values()]
        if module.__name__.startswith("etcompile")
        for name, value in [*vars(module).items()]
        if hasattr(value, "cache_info") and value.cache_info().maxsize is None
    }


def test_unbounded_caches_do_not_grow_with_what_users_write():
    text = config()["data"]["job.yaml"]
    before: dict[str, int] = {}
    for number in range(20):
        for written in ("TrainingJob", "kai.alibabacloud.com/v1alpha1", "train", "horovod", "bert"):
            with contextlib.suppress(StoredJobError):
                read_text(text.replace(written, f"{written}{number}"))
        before = before or unbounded()
    assert "etcompile.frontends.kinds" in before, "the walk sees nothing"
    assert unbounded() == before
