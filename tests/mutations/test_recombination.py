"""Pieces of real files, put together at random, never end in a traceback or a hang."""

import io
from pathlib import Path

import pytest
import yaml

from etcompile import compile  # noqa: A004
from etcompile.backend import jinja
from etcompile.compiler.choices import Options
from etcompile.diagnostics import has_errors
from etcompile.fixes import fixed_files
from etcompile.integrations.krm import answer
from mutations.__main__ import run
from mutations.generator import Generator
from mutations.invocations import Invocations
from mutations.recombination import Recombination, texts

ROOT = Path(__file__).parents[2]
SEED = 33


def test_no_recombined_input_ends_in_a_traceback():
    recombination = Recombination(SEED, texts([ROOT / "examples", ROOT / "tests" / "oracle"]))
    for number in range(500):
        run(recombination.input(number), number)


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"])
def test_comments_before_a_broken_text_are_read_in_linear_time(newline):
    compilation = compile("-", stdin=io.BytesIO(("#" + newline).encode() * 3000 + b"a: ["))
    assert [one.code for one in compilation.diagnostics] == ["ET1005"]


JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: x}
spec: {runtimeRef: {name: RUNTIME}}
"""
RUNTIME = """\
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: steps}
spec: {template: {spec: {replicatedJobs: [
  {name: x, template: {spec: {template: {spec: {POD}}}}}]}}}
"""
BROKEN = {
    "a reference beside spec": JOB.replace("RUNTIME", "torch-distributed") + "runtimeRef: x\n",
    **{
        name: JOB.replace("RUNTIME", "steps") + RUNTIME.replace("POD", pod)
        for name, pod in {
            "a claim that is text": (
                "volumes: [{name: x, persistentVolumeClaim: x}], containers: [{name: x}]"
            ),
            "a mount without a name": "containers: [{name: x, volumeMounts: [{mountPath: /x}]}]",
            "a volume without a name": "volumes: [{emptyDir: {}}], containers: [{name: x}]",
            "containers that are text": "containers: x",
        }.items()
    },
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_trainjob_with_a_broken_runtime_is_refused(case):
    assert not compile("-", stdin=io.BytesIO(BROKEN[case].encode())).ok


@pytest.mark.parametrize("field", ["overlays", "runtimes", "ignore", "inputs", "settings"])
def test_null_in_the_configuration_of_a_function_is_nothing(field):
    answered = answer(
        b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\nfunctionConfig:\n"
        b"  {apiVersion: etcompile.dev/v1alpha1, kind: EtcompileTransformer, metadata: {name: x},"
        b" spec: {" + field.encode() + b": null}}\n",
        Options(),
    )
    assert "".join(answered.texts())


SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData:
  pw2: s3cr3t-6
  "a b": s3cr3t-7
data:
  x: s3cr3t-8!!
  y: 12345678
"""


@pytest.mark.parametrize("text", [SECRET, "\ufeff" + SECRET.replace("\n", "\r\n")])
def test_no_value_of_a_secret_is_quoted_whatever_its_key(text):
    compilation = compile("-", stdin=io.BytesIO(text.encode()))
    shown = repr(compilation.diagnostics)
    assert len(compilation.diagnostics) >= 4
    assert "s3cr3t" not in shown
    assert "12345678" not in shown


def test_a_number_that_is_a_credential_is_not_quoted():
    text = (
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec:\n"
        "  pytorchReplicaSpecs:\n    Master:\n      replicas: 1\n      template:\n        spec:\n"
        "          containers:\n            - name: pytorch\n              image: x:1\n"
        "              env:\n                - {name: DB_PASSWORD, value: 8675309123}\n"
        "              args: [--password, 87654321]\n"
    )
    shown = repr(compile("-", stdin=io.BytesIO(text.encode())).diagnostics)
    assert "must be text" in shown
    assert "8675309123" not in shown
    assert "87654321" not in shown


def test_a_refused_list_does_not_print_the_private_key_that_came_in():
    key = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQEA\\n-----END RSA PRIVATE KEY-----"
    data = (
        "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n"
        "- {apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a}}\n"
        f'- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: b}}, data: {{k: "{key}"}}}}\n'
    )
    answered = answer(data.encode(), Options())
    assert answered.refused
    assert "MIIEow" not in "".join(answered.texts())


@pytest.mark.parametrize(
    "body",
    [
        "{% set n = namespace(v=3) %}{% for i in range(60) %}{% set n.v = n.v * n.v %}{% endfor %}",
        '{{ "\\ud800" }}',
    ],
    ids=["a number that grows without end", "half a character"],
)
def test_a_template_that_goes_too_far_is_refused(body, tmp_path):
    (tmp_path / "a.j2").write_text(body)
    with pytest.raises(jinja.RenderError):
        jinja.render(jinja.environment(tmp_path), "a.j2", {})


def test_no_command_line_ends_in_a_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    whole = texts([ROOT / "examples"])
    lines = Invocations(SEED, Recombination(SEED, whole), whole, tmp_path)
    for number in range(50):
        lines.run(number)


def test_a_correction_leaves_no_other_error_in_its_place(tmp_path):
    generator, corrected = Generator(SEED), 0
    file = tmp_path / "a.yaml"
    for number in range(100):
        text = yaml.safe_dump_all(generator.input(number), allow_unicode=True)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        before = errors(file)
        for fixed in fixed_files(lambda: compile(file).findings):
            file.write_bytes(fixed.after)
            lines = {one.location.line for one in fixed.fixed if one.location}
            fresh = {message: line for message, line in errors(file).items() if line in lines}
            assert fresh.keys() <= before.keys(), (number, text)
            corrected += 1
    assert corrected > 2


def errors(file):
    diagnostics = compile(file).diagnostics
    return {
        one.message: one.location and one.location.line for one in diagnostics if has_errors([one])
    }
