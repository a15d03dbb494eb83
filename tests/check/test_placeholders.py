"""Files that are templates still: the error says how to fill them in, whatever rule is broken."""

import pytest

import etcompile
from etcompile.load import parse

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: NAME
  namespace: ml
spec:
  runPolicy:
    cleanPodPolicy: POLICY
    backoffLimit: LIMIT
  pytorchReplicaSpecs:
    Master:
      replicas: REPLICAS
      template:
        spec:
          containers:
          - name: pytorch
            image: example.com/train:1
            command: [sh, -c, 'echo ${HOME}']
            resources: {limits: {memory: MEMORY}}
"""
GOOD = {"NAME": "a", "POLICY": "All", "LIMIT": "3", "REPLICAS": "1", "MEMORY": "1Gi"}


def hints(text: str, file: str = "job.yaml") -> list[str]:
    loaded = parse(text, file=file)
    found = [*loaded.diagnostics, *etcompile.compile(loaded.documents).diagnostics]
    return [one.hint or "" for one in found if one.severity is etcompile.Severity.ERROR]


def filled(**values: str) -> str:
    text = JOB
    for name, value in {**GOOD, **values}.items():
        text = text.replace(name, value)
    return text


def test_the_job_is_right_without_placeholders() -> None:
    assert hints(filled()) == []


@pytest.mark.parametrize("field", GOOD)
@pytest.mark.parametrize("value", ["${X}", "${X:-1}", "'${X}'", "a-${X}", "$TRAIN_X", "'{{ .X }}'"])
def test_a_placeholder_in_any_field_is_named(field: str, value: str, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(filled(**{field: value}))
    result = etcompile.compile([file])
    found = [one for one in result.diagnostics if one.severity is etcompile.Severity.ERROR]
    assert found
    for one in found:
        assert "placeholder" in (one.hint or "") or "{{" in one.message
        tool = "helm" if "{{" in value else "envsubst"
        assert tool in (one.hint or "")


def test_a_variable_that_the_shell_fills_in_is_no_error_and_changes_no_hint() -> None:
    (hint,) = hints(filled(LIMIT="many"))
    assert "placeholder" not in hint


def test_a_shell_variable_without_quotes_in_a_list_is_told_both_ways(tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(filled().replace("'echo ${HOME}'", "echo ${HOME}"))
    (problem,) = etcompile.compile([file]).diagnostics
    assert "if it is a variable of the shell, put it in quotes" in (problem.hint or "")
