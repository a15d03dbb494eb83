"""The messages that `explain` shows: as they are told, and not as the catalogue writes them."""

import re
import string
from typing import Any

import pytest
from click.testing import CliRunner

from etcompile.cli.check import command
from etcompile.diagnostics import RULES, rule_text

TRAINER = "name: main, image: example.com/trainer:1"
JOB = f"""\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata: {{name: bert}}
spec:
  slotsPerWorker: 1
  etReplicaSpecs:
    launcher:
      replicas: 1
      template:
        spec:
          containers: [{{{TRAINER}, command: [horovodrun, -np, "2", python, train.py]}}]
    worker:
      replicas: 2
      template:
        metadata: {{}}
        spec:
          containers: [{{{TRAINER}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""
SCALE_OUT = """\
---
apiVersion: kai.alibabacloud.com/v1alpha1
kind: ScaleOut
metadata: {name: more}
spec: {selector: {name: bert}, toAdd: {count: 9}}
"""
SCALE_IN = """\
---
apiVersion: kai.alibabacloud.com/v1alpha1
kind: ScaleIn
metadata: {name: less}
spec: {selector: {name: bert}, toDelete: {count: 2}}
"""


def job(*changes: tuple[str, str]) -> str:
    """The job with texts of it replaced."""
    text = JOB
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def worker(fields: str) -> str:
    return job(("worker:\n      replicas: 2", f"worker:\n      {fields}"))


def named(text: str, name: str) -> str:
    return text.replace("name: bert", f"name: {name}")


def kubeflow(
    kind: str, spec: str, roles: dict[str, int], container: str = "", more: str = ""
) -> str:
    container = container or kind.removesuffix("Job").lower()
    template = (
        f"spec: {{containers: [{{name: {container}, image: 'example.com/trainer:1'{more}}}]}}"
    )
    field = {"TFJob": "tf", "PyTorchJob": "pytorch", "JAXJob": "jax", "MPIJob": "mpi"}[kind]
    return "\n".join(
        [
            f"apiVersion: kubeflow.org/v{'2beta1' if kind == 'MPIJob' else '1'}",
            f"kind: {kind}\nmetadata: {{name: bert}}\nspec:",
            *([f"  {spec}"] if spec else []),
            f"  {field}ReplicaSpecs:",
            *(
                f"    {role}: {{replicas: {n}, template: {{{template}}}}}"
                for role, n in roles.items()
            ),
            "",
        ]
    )


TORCHRUN = ", command: [torchrun, train.py]"
INPUTS: dict[str, str] = {
    "ET1005": "spec:\n  a: 1\n b: 2\n",
    "ET1013": "- just\n- a list\n",
    "ET1014": "metadata: {name: job}\n",
    "ET1015": "? [a, b]\n: value\n",
    "ET1017": "<<: [1, 2]\n",
    "ET1019": "apiVersion: v1\nkind: List\nitems: {}\n",
    "ET1040": job(("launcher:", "launcher:   # etcompile: ignore[ET2040]")),
    "ET1041": job(("launcher:", "launcher:   # etcompile: ignore[ET204]")),
    "ET1042": worker("replicas: 12   # etcompile: ignore[ET2003]\n      maxReplicas: 9"),
    "ET2001": job(("slotsPerWorker", "slotPerWorker")),
    "ET2002": worker("maxReplicas: 9"),
    "ET2003": worker("replicas: 12\n      maxReplicas: 9"),
    "ET2004": worker("replicas: 1\n      minReplicas: 2"),
    "ET2005": worker("replicas: 2\n      minReplicas: 4\n      maxReplicas: 2"),
    "ET2006": worker('replicas: "2"'),
    "ET2007": job(("slotsPerWorker", "cleanPodPolicy: running\n  slotsPerWorker")),
    "ET2008": job(("slotsPerWorker: 1", "slotsPerWorker: 0")),
    "ET2009": kubeflow(
        "MPIJob", "sshAuthMountPath: root/.ssh", {"Launcher": 1, "Worker": 2}, "main"
    ),
    "ET2011": job(("v1alpha1", "v2")),
    "ET2013": JOB + SCALE_OUT.replace("ScaleOut", "Scaleout"),
    "ET2014": job(("  slotsPerWorker: 1\n", ""), ("gpu: 1", 'gpu: "0"')),
    "ET2020": named(JOB, "bert.v2"),
    "ET2030": job(('"2"', '"8"')),
    "ET2042": job(("metadata: {}", "metadata: {labels: {training-job-role: mine}}")),
    "ET2046": named(JOB, 'bert, annotations: {job-supervisor.kube-ai.io/job-suspended: "true"}'),
    "ET2050": named(JOB, "bert, annotations: {etcompile.dev/gate-timeout: soon}"),
    "ET2061": kubeflow("TFJob", "", {"Worker": 2, "worker": 2}, "tensorflow"),
    "ET2062": kubeflow("TFJob", "", {"Worker": 2}, "main"),
    "ET2064": kubeflow("TFJob", "", {"PS": 2}, "tensorflow"),
    "ET2067": kubeflow("PyTorchJob", "", {"Worker": 2}, more=TORCHRUN),
    "ET2068": kubeflow("JAXJob", "", {"Worker": 0}),
    "ET2069": kubeflow(
        "PyTorchJob",
        "elasticPolicy: {standalone: true, maxReplicas: 4}",
        {"Worker": 2},
        more=TORCHRUN,
    ),
    "ET2110": kubeflow("PyTorchJob", "cleanPodPolicy: All", {"Worker": 2}),
    "ET2111": kubeflow("PyTorchJob", "", {"Worker": 2}).replace("kubeflow.org", "kubeflow.com"),
    "ET2130": worker("replicas: 2147483647"),
    "ET3001": named(JOB, "mnist") + named(SCALE_OUT, "mnits"),
    "ET3004": worker("replicas: 2\n      maxReplicas: 4") + SCALE_OUT,
    "ET3005": JOB + SCALE_IN,
    "ET4001": job((f"[{{{TRAINER}, res", f"[{{{TRAINER}, imag: a, res")),
    "ET4010": JOB + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  {name: settings,"
    " uid: 3f0c1111-1111-4111-8111-111111111111, resourceVersion: '7'}\n",
    "ET4013": kubeflow("PyTorchJob", "", {"Worker": 2})
    + "---\n"
    + kubeflow("JAXJob", "", {"Worker": 2}),
    "ET4020": job(("image: example.com/trainer:1, res", 'image: "pytorch/pytorch: 2.5.1", res')),
}


def facts(template: str) -> set[str]:
    fields = (name for _, name, _, _ in string.Formatter().parse(template) if name is not None)
    return {re.split(r"[.\[]", name)[0] for name in fields}


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_each_fact_of_a_rule_has_a_sample_and_no_other(rule: Any) -> None:
    assert set(rule.sample) == facts(rule.message) | facts(rule.hint)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.code)
def test_no_explanation_shows_a_placeholder(rule: Any) -> None:
    diagnostic = rule_text.sample(rule)
    names = facts(rule.message) | facts(rule.hint)
    for words in (diagnostic.message, diagnostic.hint or ""):
        assert not names & set(re.findall(r"\{(\w+)", words))
    assert diagnostic.message in rule_text.as_text(rule)
    assert (diagnostic.hint or "") in rule_text.as_text(rule)


@pytest.mark.parametrize("code", INPUTS)
def test_what_explain_shows_is_what_check_says(
    code: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = {"ET1013": "hosts.yaml", "ET1014": "ds_config.json"}.get(code, "job.yaml")
    (tmp_path / file).write_text(INPUTS[code])
    said = CliRunner().invoke(command, [file]).output
    diagnostic = rule_text.sample(RULES[code])
    assert f"[{code}]: {diagnostic.message}\n" in said
    assert diagnostic.hint is None or f"= hint: {diagnostic.hint}\n" in said
