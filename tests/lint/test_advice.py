"""Advice about training: each rule by an input that shows it, and by one that nearly does."""

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import etcompile
from etcompile import Diagnostic, Options
from etcompile.cli import check, explain, render
from etcompile.diagnostics import RULES
from lint.advice_cases import CASES, QUIET, Case, job, text
from specs import patch

ADVICE = [rule for rule in RULES.values() if rule.code.startswith("ET9")]
EACH = [
    pytest.param(code, case, id=f"{code}-{number}")
    for code, cases in sorted(CASES.items())
    for number, case in enumerate(cases)
]


def advice(text: str, **options: Any) -> list[Diagnostic]:
    """What is said of a file beyond what `render` says."""
    compilation = etcompile.compile(
        "-", Options(lint=True, **options), stdin=BytesIO(text.encode())
    )
    assert compilation.ok, compilation.diagnostics
    return [one for one in compilation.diagnostics if one.code.startswith("ET9")]


def test_each_rule_has_an_entry_and_a_case() -> None:
    assert [rule.code for rule in ADVICE] == sorted(CASES)


@pytest.mark.parametrize("rule", ADVICE, ids=lambda rule: rule.code)
def test_each_rule_says_where_its_fact_is_written(rule: Any) -> None:
    pages = Path(__file__).parents[2] / "docs"
    assert rule.source.startswith("https://") or (pages / rule.source.split()[0]).is_file()
    assert f"Source: {rule.source}" in CliRunner().invoke(explain.command, [rule.code]).output


@pytest.mark.parametrize(("code", "case"), EACH)
def test_an_input_shows_the_rule_and_no_other(code: str, case: Case) -> None:
    file = text(case.shown)
    [diagnostic] = advice(file, settings=case.settings)
    assert diagnostic.code == code
    assert case.says in diagnostic.message
    assert diagnostic.hint
    assert diagnostic.location is not None
    assert diagnostic.location.line is not None
    assert case.at in file.splitlines()[diagnostic.location.line - 1]


@pytest.mark.parametrize(("code", "case"), EACH)
def test_nothing_is_said_of_what_nearly_shows_it(code: str, case: Case) -> None:
    assert advice(text(case.near), settings=case.settings) == []


@pytest.mark.parametrize("why", QUIET)
def test_what_is_meant_as_it_is_gets_no_advice(why: str) -> None:
    assert advice(text(QUIET[why])) == []


def shown(code: str) -> str:
    return text(CASES[code][0].shown)


def checked(file: Path, words: str, *arguments: str) -> Any:
    file.write_text(words)
    return CliRunner().invoke(check.command, [str(file), *arguments])


def test_render_gives_no_advice_and_check_changes_no_output(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    assert "ET9012" in checked(file, shown("ET9012")).output
    rendered = CliRunner().invoke(render.command, [str(file)])
    assert "ET9" not in rendered.output
    with_advice = etcompile.compile(file, Options(lint=True))
    assert with_advice.objects == etcompile.compile(file).objects


def test_advice_is_refused_under_strict_only(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    assert checked(file, shown("ET9012")).exit_code == 0
    assert checked(file, shown("ET9012"), "--strict").exit_code == 2
    assert checked(file, shown("ET9012"), "--strict", "--ignore", "ET9012").exit_code == 0


def test_ignore_comment_suppresses_advice_and_counts_as_used_without_lint(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    words = shown("ET9012").replace("- --backend", "- --backend  # etcompile: ignore[ET9012]")
    done = checked(file, words, "--strict")
    assert (done.exit_code, "ignored" in done.output) == (0, True)
    assert "ET1040" not in CliRunner().invoke(render.command, [str(file), "--strict"]).output
    unused = words.replace("nccl", "gloo")
    assert "ET1040" in checked(file, unused).output


@pytest.mark.parametrize("form", ["json", "sarif", "github", "rdjson"])
def test_advice_is_a_warning_in_every_machine_readable_format(form: str, tmp_path: Path) -> None:
    done = checked(tmp_path / "job.yaml", shown("ET9012"), "--output-format", form)
    assert "ET9012" in done.stdout
    if form == "sarif":
        run = json.loads(done.stdout)["runs"][0]
        [result], [rule] = run["results"], run["tool"]["driver"]["rules"]
        assert rule["helpUri"] == RULES["ET9012"].source
        assert (result["ruleId"], result["level"]) == ("ET9012", "warning")


def test_an_overlay_that_mends_a_pod_silences_the_advice() -> None:
    change = {"spec": {"dnsPolicy": "ClusterFirstWithHostNet"}}
    assert advice(shown("ET9020"))
    assert advice(shown("ET9020"), overlays=[patch(change, kind="Pod")]) == []


def test_advice_on_a_template_shared_by_two_roles_is_reported_once() -> None:
    file = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Master: &role
      replicas: 1
      template:
        spec:
          containers:
            - {name: pytorch, image: "example.com/trainer:1", args: [--backend, nccl]}
    Worker: *role
"""
    assert [one.code for one in advice(file)] == ["ET9012"]


def test_nothing_is_advised_of_a_file_that_is_refused() -> None:
    broken = [*job({"args": ["--backend", "nccl"]}), {"apiVersion": "v1", "kind": "Pod"}]
    compilation = etcompile.compile("-", Options(lint=True), stdin=BytesIO(text(broken).encode()))
    assert not compilation.ok
    assert not [one for one in compilation.diagnostics if one.code.startswith("ET9")]


def test_the_page_of_checks_links_each_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "checks.md").read_text("utf-8")
    codes = re.findall(r"\[(ET9\d{3})\]\(diagnostics/et9xxx\.md#et9\d{3}\)", page)
    assert codes == [rule.code for rule in ADVICE]


def test_advice_on_a_shipped_runtime_points_to_its_name_in_the_job() -> None:
    file = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert, namespace: ml}
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    image: example.com/trainer:1
    command: [torchrun, train.py]
    resourcesPerNode: {limits: {nvidia.com/gpu: 1, memory: 8Gi}}
"""
    [diagnostic] = advice(file)
    assert diagnostic.code == "ET9001"
    assert diagnostic.location is not None
    assert diagnostic.location.text is not None
    assert "torch-distributed" in diagnostic.location.text
    ignoring = file.replace("torch-distributed", "torch-distributed # etcompile: ignore[ET9001]")
    assert advice(ignoring) == []
