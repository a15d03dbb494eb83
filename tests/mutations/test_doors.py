"""Damaged output folders, pipelines and plans: taken or refused, never an internal error.

The doors besides the job files, whose mutations are in `generator`; dumps for `migrate` are in
tests/migrate.
"""

import copy
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import specs
from etcompile.cli.main import program
from etcompile.compiler.choices import Options
from etcompile.integrations.krm import answer
from etcompile.plan.plan_file import PlanError, is_plan, plan_value, read_plan
from etcompile.plan.planner import plan
from etcompile.plan.scope import Rights
from etcompile.plan.step import Declared
from mutations.odd import ODD, damaged, paths, put

CASES = int(os.environ.get("ETCOMPILE_MUTATIONS_DOORS", "60"))
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "annotations": {"config.kubernetes.io/path": "a.yaml"}},
    "data": {"a": "b"},
}


def mutated(chance: random.Random, value: Any) -> bytes:
    """A JSON value with something odd in it, or its text damaged."""
    if chance.random() < 0.3:
        return damaged(chance, json.dumps(value, indent=1).encode())
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2))):
        put(value, chance.choice(list(paths(value))), chance.choice(ODD))
    return json.dumps(value).encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_resource_list_is_answered(seed: int) -> None:
    chance = random.Random(seed)
    whole = {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "items": [specs.training_job("bert"), specs.scale_out("more", 2, job="bert"), CONFIG_MAP],
        "functionConfig": {
            "apiVersion": "etcompile.dev/v1alpha1",
            "kind": "EtcompileTransformer",
            "metadata": {"name": "t"},
            "spec": {"profiles": ["argocd"]},
        },
    }
    for _ in range(CASES):
        answered = answer(mutated(chance, whole), Options())
        assert "".join(answered.texts()) or answered.diagnostics


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_plan_is_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    old = specs.compiled(specs.training_job(replicas=3))
    new = specs.compiled(specs.training_job(replicas=3), specs.scale_out("o", 2))
    groups = [Declared(one.name, one.objects, one.waits, "job.yaml") for one in new.groups]
    there: Any = old.objects
    value = plan_value(plan(groups, there, Rights(between_files=True), against="main"))
    whole = json.loads(json.dumps(value))
    refused = 0
    for _ in range(CASES):
        data = mutated(chance, whole)
        is_plan(data)
        try:
            read_plan(data)
        except PlanError:
            refused += 1
    assert refused


def spoil(chance: random.Random, file: Path) -> None:
    """Does one bad thing to a file of an output folder."""
    what = chance.choice(("text", "text", "text", "value", "folder", "link", "loop", "empty"))
    if what == "text":
        file.write_bytes(damaged(chance, file.read_bytes()))
    elif what == "value":
        documents = [*yaml.safe_load_all(file.read_text())]
        one = chance.choice(documents)
        put(one, chance.choice(list(paths(one))), chance.choice(ODD))
        file.write_bytes("\n---\n".join(map(json.dumps, documents)).encode())
    else:
        file.unlink()
        if what == "folder":
            file.mkdir()
        elif what != "empty":
            file.symlink_to(os.devnull if what == "link" else file)
        else:
            file.touch()


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_output_folder_is_compared_and_written_or_refused(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    job, good, bad = tmp_path / "job.yaml", tmp_path / "good", tmp_path / "bad"
    job.write_text(yaml.safe_dump(specs.training_job("bert")))

    def run(*arguments: str | Path) -> int:
        done = CliRunner().invoke(program, [str(one) for one in arguments])
        assert isinstance(done.exception, SystemExit | None), done.exc_info
        return done.exit_code

    assert run("render", job, "-d", good) == 0
    names = [one.relative_to(good) for one in good.rglob("*") if one.is_file()]
    for _ in range(CASES // 6):
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        spoil(chance, bad / chance.choice(names))
        run("render", job, "-d", bad, "--check")
        run("diff", job, "--against", bad)
        if run("render", job, "-d", bad) == 0:
            assert run("render", job, "-d", bad, "--check") == 0
