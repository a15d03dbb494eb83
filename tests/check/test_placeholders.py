"""Files that are templates still: the hint fills in all placeholders of the file, and no more.

Each hint is followed with the real programs; Helm's is in the layer of programs.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

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
            image: IMAGE
            command: [sh, -c, 'echo ${HOME} $X "$TRAIN" | sed s/^/%Y%m%d/']
            env:
            - {name: ADDRESS, value: $(POD_IP)}
            resources: {limits: {memory: MEMORY}}
"""
GOOD = {
    "NAME": "a",
    "POLICY": "All",
    "LIMIT": "3",
    "REPLICAS": "1",
    "IMAGE": "example.com/train:1",
    "MEMORY": "1Gi",
}
FORMS = [
    "${WORKERS}",
    "$WORKERS",
    "$workers",
    "${WORKERS:-1}",
    "'{{ .Workers }}'",
    "{{ .Values.workers }}",
    "{{workers}}",
    "<number-of-workers>",
    "<your workers>",
    "$(WORKERS)",
    "__WORKERS__",
    "@WORKERS@",
    "%WORKERS%",
    "${params.workers}",
    "((workers))",
]
RENDER = " | etcompile render -"


def filled(**values: str) -> str:
    text = JOB
    for name, value in {**GOOD, **values}.items():
        text = text.replace(name, value)
    return text


def hints(file: Path) -> list[str]:
    """The hints of a file's errors and of images that cannot be pulled."""
    problems = etcompile.compile([file]).diagnostics
    counted = [p for p in problems if p.severity is etcompile.Severity.ERROR or p.code == "ET4020"]
    return [problem.hint or "" for problem in counted]


def followed(hint: str, folder: Path, values: dict[str, str], **programs: str) -> str:
    """What the command of a hint writes before etcompile reads it."""
    command = re.split("for example |; if it is", hint)[1]
    assert command.endswith(RENDER)
    command = command.removesuffix(RENDER)
    for value in values.values():
        command = command.replace("|VALUE|", f"|{value}|", 1)
    path = os.pathsep.join([*programs.values(), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), **values},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_job_is_right_without_placeholders(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(filled())
    assert hints(file) == []


@pytest.mark.parametrize("field", GOOD)
@pytest.mark.parametrize("form", FORMS)
def test_hint_fills_in_any_placeholder_and_changes_nothing_else(
    field: str,
    form: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[..., str],
) -> None:
    require("envsubst", which="envsubst")
    monkeypatch.chdir(tmp_path)
    file = Path("a job.yaml")
    file.write_text(filled(**{field: form}))
    first, *others = hints(file)
    for hint in (first, *others):
        assert f"{form.strip(chr(39))} is a placeholder" in hint
    assert all(hint.endswith("fill it in with the others") for hint in others)
    name = form.strip("${}") if "envsubst" in first else "value"
    value = followed(first, tmp_path, {name: GOOD[field]})
    assert value == filled(**{field: f"'{GOOD[field]}'" if form[0] == "'" else GOOD[field]})


SCRIPT = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: multiply, namespace: ml}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - name: launcher
              image: ${IMAGE}
              command: [bash, -c]
              args:
                - |
                  HOSTS=/tmp/hosts; sort /etc/mpi/hostfile > "$HOSTS"
                  TOTAL=$(wc -l < "$HOSTS")
                  mpirun -np $TOTAL --hostfile "$HOSTS" ./multiply {{ size }}
    Worker:
      replicas: $WORKERS
      template:
        spec:
          containers:
            - name: worker
              image: '${IMAGE}'
              args: ["--learning-rate=${RATE}", "--size={{ size }}"]
"""


def test_hint_names_all_placeholders_of_a_file_and_spares_its_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[..., str]
) -> None:
    require("envsubst", which="envsubst")
    monkeypatch.chdir(tmp_path)
    file = Path("job.yaml")
    file.write_text(SCRIPT)
    shown = hints(file)
    assert len(shown) == 3
    command = "sed -e 's|{{ size }}|VALUE|g' job.yaml | envsubst '$IMAGE $WORKERS $RATE'" + RENDER
    assert [command in hint for hint in shown] == [True, False, False]
    values = {"size": "8", "IMAGE": "example.com/mpi:1", "WORKERS": "2", "RATE": "0.1"}
    text = followed(shown[0], tmp_path, values)
    expected = SCRIPT
    for form, name in {
        "${IMAGE}": "IMAGE",
        "$WORKERS": "WORKERS",
        "${RATE}": "RATE",
        "{{ size }}": "size",
    }.items():
        expected = expected.replace(form, values[name])
    assert text == expected
    assert "mpirun -np $TOTAL --hostfile" in text
    assert etcompile.compile(parse(text).documents).ok


def test_placeholder_hint_does_not_name_script_variables(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(re.sub(r"\$\{\w+\}|\{\{ size \}\}", "a", SCRIPT))
    (hint,) = hints(file)
    assert f"envsubst '$WORKERS' < {file}{RENDER}" in hint


def test_variable_that_the_shell_fills_in_changes_no_hint(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(filled(LIMIT="many"))
    (hint,) = hints(file)
    assert "placeholder" not in hint


def test_shell_variable_without_quotes_in_a_list_gets_both_remedies(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(filled().replace("'echo ${HOME} $X", "echo ${HOME} '"))
    (hint,) = hints(file)
    assert "if ${HOME} is a placeholder of a template, export its value" in hint
    assert "if it is a variable of the shell, put it in quotes" in hint


@pytest.mark.parametrize("folder", [".", "templates", "templates/jobs"])
def test_chart_of_a_file_is_rendered_by_helm(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my chart" / folder / "job.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(filled(REPLICAS="{{ .Values.workers }}", NAME="{{ .Release.Name }}"))
    monkeypatch.chdir(tmp_path)
    first, second = hints(file)
    assert "helm template" not in first + second
    assert "sed -e 's|{{ \\.Release\\.Name }}|VALUE|g' -e 's|{{ \\.Values\\.workers }}|" in first
    (tmp_path / "my chart" / "Chart.yaml").touch()
    assert hints(file)[0].endswith("for example helm template 'my chart'" + RENDER)
    (tmp_path / "my chart" / "values.yaml").write_text("workers: 3\n")
    for hint in hints(tmp_path / "my chart" / "values.yaml"):
        assert hint.endswith("render that, for example helm template 'my chart'" + RENDER)


def test_hint_of_a_chart_renders_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consumer: Callable[[str], Path]
) -> None:
    chart = tmp_path / "chart"
    file = chart / "templates" / "job.yaml"
    file.parent.mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: training\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text("workers: 1\n")
    file.write_text(filled(REPLICAS="{{ .Values.workers }}", NAME="{{ .Release.Name }}"))
    monkeypatch.chdir(tmp_path)
    text = followed(hints(file)[0], tmp_path, {}, helm=str(consumer("helm").parent))
    assert etcompile.compile(parse(text).documents).ok


@pytest.mark.parametrize("logic", ["{{- if .Values.x }}", "{% if x %}", '{{ include "a" . }}'])
def test_template_with_conditions_needs_the_program_that_it_is_written_for(
    logic: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(filled(LIMIT=logic))
    hint = hints(file)[0]
    assert "sed" not in hint
    assert "render it first with the program that it is written for" in hint


def test_hint_is_short_even_with_a_thousand_placeholders(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    labels = "".join(f"\n    label-{n}: $LABEL_{n}" for n in range(1000))
    file.write_text(filled(LIMIT="${LIMIT}").replace("ml\n", f"ml\n  labels:{labels}\n", 1))
    assert all(len(hint) < 1000 for hint in hints(file))


def test_hint_for_an_unfilled_image_is_a_command_for_that_file() -> None:
    loaded = parse(filled(IMAGE="<your-image>"), file="jobs/it's.yaml")
    (problem,) = etcompile.compile(loaded.documents).diagnostics
    assert shlex.quote("jobs/it's.yaml") + RENDER in (problem.hint or "")
