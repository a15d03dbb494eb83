"""Silence about one warning: by `--ignore`, or by a comment in the file."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result

import etcompile
from etcompile import Options
from etcompile.cli import check as check_command
from etcompile.cli import graph, render
from etcompile.diagnostics import RULES, Severity
from etcompile.diagnostics.spelling import probable_code
from etcompile.integrations.krm import answer

SCHEMA = Path(__file__).parents[2] / "schemas" / "diagnostics.json"
JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: ml}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              image: trainer:latest
              command: [python, train.py]
"""
IMAGE = "image: trainer:latest"
ERRORS = sorted(rule.code for rule in RULES.values() if rule.severity is Severity.ERROR)


def codes(text: str, **options: Any) -> list[tuple[str, int | None]]:
    """The code and line of all that is told of a file."""
    return [(one.code, one.location and one.location.line) for one in diagnostics(text, **options)]


def diagnostics(text: str, **options: Any) -> tuple[etcompile.Diagnostic, ...]:
    return compiled(text, **options).diagnostics


def compiled(text: str, **options: Any) -> etcompile.Compilation:
    return etcompile.compile("-", Options(**options), stdin=BytesIO(text.encode()))


def checked(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(check_command.command, [*arguments, str(file)])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return file


def test_the_job_has_one_warning():
    assert codes(JOB) == [("ET2040", 12)]


@pytest.mark.parametrize(
    "text",
    [
        JOB.replace(IMAGE, f"{IMAGE}  # etcompile: ignore[ET2040]"),
        JOB.replace(IMAGE, f"{IMAGE} # we own the tag # etcompile:ignore [ et2040 ] since 2024"),
        JOB.replace(IMAGE, f"# etcompile: ignore[ET2040]\n              {IMAGE}"),
        JOB.replace(IMAGE, f"# etcompile: ignore[ET2040]\n\n   # more\n              {IMAGE}"),
        f"# etcompile: ignore-file[ET2040]\n{JOB}",
        f"{JOB}# etcompile: ignore-file[ET2040]\n",
        f"{JOB}---\n# etcompile: ignore-file[ET2040]\n{JOB.replace('bert', 'gpt')}",
        JOB.replace(IMAGE, f"{IMAGE}  # etcompile: ignore[ET2040]").replace("\n", "\r\n"),
    ],
)
def test_a_comment_silences_a_warning(text: str):
    assert codes(text) == []
    assert {one.code for one in compiled(text).suppressed} == {"ET2040"}


def test_a_comment_holds_for_its_line_only():
    silent = JOB.replace(IMAGE, f"{IMAGE}  # etcompile: ignore[ET2040]")
    assert codes(f"{silent}---\n{JOB.replace('bert', 'gpt')}") == [("ET2040", 26)]


def test_a_comment_silences_the_codes_in_its_brackets_only():
    text = JOB.replace("replicas: 2", "replicas: 2\n      foo: null")
    text = text.replace(IMAGE, f"{IMAGE}  # etcompile: ignore[ET2041]")
    assert ("ET2040", 13) in codes(text)


@pytest.mark.parametrize(
    "scalar",
    [
        "|\n                  # etcompile: ignore-file[ET2040]\n                  train",
        ">-\n                  a\n                  # etcompile: ignore-file[ET2040]",
        '"# etcompile: ignore-file[ET2040]"',
        "'a # etcompile: ignore-file[ET2040]'",
        '"a\n                  # etcompile: ignore-file[ET2040]"',
        "a# etcompile:ignore-file[ET2040]",
    ],
)
def test_text_inside_a_scalar_is_no_comment(scalar: str):
    text = JOB.replace("[python, train.py]", f"\n                - {scalar}")
    assert codes(text) == [("ET2040", 12)]


def test_the_header_of_a_block_scalar_may_end_in_a_comment():
    text = JOB.replace("[python, train.py]", "\n                - |  # etcompile: ignore[ET2040]\n")
    assert ("ET1040", 14) in codes(text + "                  train\n")


def test_text_in_json_is_no_comment():
    value = yaml.safe_load(JOB)
    value["metadata"]["annotations"] = {"a": "x # etcompile: ignore-file[ET2040]"}
    text = json.dumps(value)
    assert codes(text) == [("ET2040", 1)]


def test_a_comment_after_a_script_is_a_comment():
    script = "\n                - |\n                  train\n"
    text = JOB.replace("[python, train.py]\n", script)
    assert codes(f"{text}# etcompile: ignore-file[ET2040]\n") == []


def test_unused_ignore_comment_is_reported_at_its_line():
    text = JOB.replace("replicas: 2", "replicas: 2  # etcompile: ignore[ET2040, ET2041]")
    assert codes(text) == [("ET1040", 7), ("ET1040", 7), ("ET2040", 12)]
    assert "ET2041 on this line" in diagnostics(text)[1].message


def test_a_comment_is_called_unused_only_when_all_has_been_looked_at():
    text = JOB.replace("replicas: 2", "replica: 2  # etcompile: ignore[ET2041]")
    assert [code for code, _ in codes(text)] == ["ET2001", "ET2040"]


def test_a_file_may_keep_its_unused_comments():
    assert codes(f"# etcompile: ignore-file[ET1040, ET2040, ET2041]\n{JOB}") == []


@pytest.mark.parametrize("comment", ["ignore", "ignore-file", "ignore[]", "ignor[ET2040]"])
def test_invalid_ignore_comment_is_reported(comment: str):
    assert codes(f"# etcompile: {comment}\n{JOB}") == [("ET1043", 1), ("ET2040", 13)]


@pytest.mark.parametrize("comment", ["renders to 3 Pods", "see ignored-files.md"])
def test_prose_is_no_wish(comment: str):
    assert codes(f"# etcompile: {comment}\n{JOB}") == [("ET2040", 13)]


def test_unknown_code_in_a_comment_is_reported_with_the_nearest():
    (_, first) = diagnostics(JOB.replace(IMAGE, f"{IMAGE} # etcompile: ignore[ET204]"))
    assert (first.code, first.location.line if first.location else 0) == ("ET1041", 12)
    assert first.hint == "did you mean ET2040?"
    (_, first) = diagnostics(JOB.replace(IMAGE, f"{IMAGE} # etcompile: ignore[mutable-image]"))
    assert first.hint == "did you mean ET2040?"


def test_an_error_cannot_be_ignored():
    text = JOB.replace("replicas: 2", "replicas: -2  # etcompile: ignore[ET2008]")
    assert codes(text) == [("ET2008", 7), ("ET1042", 7), ("ET2040", 12)]
    assert not compiled(text).ok


@pytest.mark.parametrize("code", ERRORS)
def test_no_error_can_be_ignored_by_an_option(code: str, job: Path):
    done = checked(job, "--ignore", code)
    assert done.exit_code == 2
    assert "only warnings can be ignored" in done.output
    assert "ET1044" in [one.code for one in diagnostics(JOB, ignore=[code])]


def test_an_overlay_may_have_comments_too(tmp_path: Path, job: Path):
    overlay = tmp_path / "overlay.yaml"
    kind = "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"
    overlay.write_text(f"{kind}images:\n  - {{name: trainer, newTag: latest}}\n")
    options = Options(overlays=(overlay,))
    before = [one.code for one in etcompile.compile(job, options).diagnostics]
    overlay.write_text(f"# etcompile: ignore-file[ET2041]\n{overlay.read_text()}")
    after = [one.code for one in etcompile.compile(job, options).diagnostics]
    assert sorted(after) == sorted([*before, "ET1040"])


@pytest.mark.parametrize("ignore", ["ET2040", ["ET2040"], ("et2040, ET2041",), {"ET2040"}])
def test_python_takes_codes_too(ignore: Any):
    assert codes(JOB, ignore=ignore) == []


def test_what_is_ignored_makes_no_difference_to_the_objects():
    silent = compiled(JOB, ignore=["ET2040"])
    assert silent.objects == compiled(JOB).objects
    assert [one.suppressed for one in silent.suppressed] == ["external"]


@pytest.mark.parametrize("arguments", [["--ignore", "ET2040"], ["--ignore=ET2041,ET2040"]])
def test_strict_does_not_count_what_is_ignored(arguments: list[str], job: Path):
    assert checked(job, "--strict").exit_code == 2
    assert checked(job, "--strict", *arguments).exit_code == 0


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (render, ["--strict", "--ignore", "ET2040"]),
        (check_command, ["--strict", "--ignore", "ET2040"]),
        (graph, ["--config", "ignore=ET2040"]),
    ],
)
def test_commands_that_compile_take_the_option(module: Any, words: list[str], job: Path):
    loud = CliRunner().invoke(module.command, [str(job)])
    silent = CliRunner().invoke(module.command, [*words, str(job)])
    assert "ET2040" in loud.stderr
    assert (silent.exit_code, "ET2040" in silent.stderr) == (0, False)


def test_an_unknown_code_of_the_option_is_refused(job: Path):
    done = checked(job, "--ignore", "ET204")
    assert (done.exit_code, "did you mean ET2040?" in done.output) == (2, True)
    done = checked(job, "--ignore", "mutable-image")
    assert "did you mean ET2040?" in done.output


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_forms_for_machines_say_what_is_suppressed(form: str, tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace(IMAGE, f"{IMAGE}  # etcompile: ignore[ET2040]"))
    done = checked(file, "--strict", "--output-format", form)
    document = json.loads(done.stdout)
    assert done.exit_code == 0
    if form == "json":
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))
        assert (document["diagnostics"], document["counts"]["warning"]) == ([], 0)
        assert [one["code"] for one in document["suppressed"]] == ["ET2040"]
    else:
        (result,) = document["runs"][0]["results"]
        assert (result["ruleId"], result["suppressions"]) == ("ET2040", [{"kind": "inSource"}])


def test_a_krm_function_ignores_by_its_configuration():
    value = yaml.safe_load(JOB)
    kind = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "EtcompileTransformer"}

    def results(**spec: Any) -> list[str]:
        config = {**kind, "metadata": {"name": "t"}, "spec": spec}
        listed = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList"}
        data = yaml.safe_dump({**listed, "items": [value], "functionConfig": config})
        answered = yaml.safe_load("".join(answer(data.encode(), Options()).texts()))
        return [one["tags"]["code"] for one in answered.get("results", [])]

    assert "ET2040" in results()
    assert "ET2040" not in results(ignore=["ET2040"])
    assert "ET1044" in results(ignore=["ET2003"])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ET204", "ET2040"),  # a digit too few
        ("ET20400", "ET2040"),
        ("ET2O40", "ET2040"),  # a letter O
        ("2040", "ET2040"),
        ("et 2040", "ET2040"),
        ("ET2027", "ET2020"),  # the nearest are those of its stage and group
        ("E", None),
        ("image", None),
    ],
)
def test_the_nearest_code_has_the_same_first_digits(written: str, meant: str | None):
    assert probable_code(written, RULES) == meant
