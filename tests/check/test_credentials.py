"""Credentials in plain text: told with the way out, in every kind, and shown nowhere."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import etcompile
from etcompile.check.plain_credentials import check_credentials
from etcompile.cli import check
from etcompile.load import load, parse
from specs import kubeflow_job, patch, replicas

EXAMPLES = Path(__file__).parents[2] / "examples"
FORMS = ("text", "json", "sarif", "github")

# In pieces, so that no scanner of this repository takes them for real.
BY_FORM = {
    "GitHub": "ghp" + "_" + "0aB1" * 9,
    "GitHub's fine-grained": "github" + "_pat_" + "0aB1" * 5 + "0a_" + "0aB1" * 14 + "0aB",
    "GitLab": "glpat" + "-" + "0aB1" * 5,
    "Hugging Face": "hf" + "_" + "aBcD" * 8 + "eF",
    "AWS": "AKIA" + "0ABC" * 4,
    "Slack": "xoxb" + "-123456789012-" + "abcdef0123456789",
    "Stripe": "sk" + "_live_" + "0aB1" * 6,
    "OpenAI": "sk" + "-" + "0aB1" * 5 + "T3Blbk" + "FJ" + "0aB1" * 5,
    "SendGrid": "SG" + "." + "0aB1" * 5 + "0a." + "0aB1" * 10 + "0aB",
    "PyPI": "pypi" + "-AgEIcHlwaS5vcmc" + "0aB1" * 20,
    "npm": "//registry.npmjs.org/:_authToken" + "=npm_" + "0aB1" * 9,
    "Azure": "AccountKey" + "=" + "0aB1" * 21 + "aa==",
    "a URL": "https://me:" + "sesame7" + "@example.com/x.git",
    "JSON Web Token": "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxMjM0In0.c2lnbmF0dXJl",
}
BY_NAME = {
    "HF_TOKEN": "sesame-7",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYKEY77",
    "AWS_SESSION_TOKEN": "FwoGZXIvYXdzEBY",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "DB_PASSWORD": "12345",
    "password": "sesame-7",
    "MINIO_SECRET_KEY": "sesame-7",
    "CLIENT_SECRET": "s3same7",
}
NO_CREDENTIAL = {
    "TOKENIZERS_PARALLELISM": "true",
    "MAX_TOKENS": "4096",
    "MAX_TOKEN": "4096",
    "EOS_TOKEN": "end",
    "HF_TOKEN_PATH": "/var/run/token",
    "TLS_SECRET_NAME": "tls",
    "WANDB_TOKEN_FILE": "/secrets/wandb",
    "TLS_SECRET": "ingress-certificates",
    "USE_AUTH_TOKEN": "true",
    "A_TOKEN": "",
    "B_TOKEN": "$(OTHER)",
    "C_TOKEN": "${OTHER}",
    "D_TOKEN": "<your token>",
    "E_TOKEN": "{{ .Values.token }}",
    "F_TOKEN": "changeme",
    "G_TOKEN": "********",
    "H_TOKEN": "/run/secrets/token",
    "I_PASSWORD": "your-password-here",
    "NCCL_DEBUG": "INFO",
    "PATH": "/usr/bin:/bin",
    "KEY": "value",
    "IMAGE": "registry.example.com/team/train@sha256:" + "0123456789abcdef" * 4,
    "URL": "https://example.com:8080/path@v1",
}


def pod(env: dict[str, str], **fields: object) -> dict[str, object]:
    listed = [{"name": name, "value": value} for name, value in env.items()]
    return kubeflow_job("PyTorchJob", {"Master": replicas("PyTorchJob", 1, env=listed, **fields)})


def messages(value: object) -> list[str]:
    documents = parse(yaml.safe_dump(value, sort_keys=False, width=10_000)).documents
    return [one.message for one in check_credentials(documents)]


@pytest.mark.parametrize("value", BY_FORM.values(), ids=BY_FORM)
def test_a_credential_is_known_by_its_form_wherever_it_stands(value):
    for document in (
        pod({"PLAIN": value}),
        pod({}, args=["--key", value]),
        pod({}, command=["sh", "-c", f"login {value} && python train.py"]),
        {**pod({}), "metadata": {"name": "bert", "annotations": {"note": value}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}},
        patch({"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": value}]}]}}),
    ):  # fmt: skip
        (message,) = messages(document)
        assert value not in message


@pytest.mark.parametrize(("name", "value"), BY_NAME.items(), ids=BY_NAME)
def test_a_credential_is_known_by_the_name_of_its_variable(name, value):
    (message,) = messages(pod({name: value}))
    assert message.startswith(f"the environment variable '{name}' holds ")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert len(messages({**config, "data": {name: value}})) == 1
    assert len(messages({**config, "data": {".env": f"A=1\n{name}={value}\n"}})) == 1


def test_a_credential_is_known_by_the_name_of_an_option():
    assert len(messages(pod({}, args=["--hf-token", "sesame-7"]))) == 1
    assert len(messages(pod({}, args=["--password=sesame-7"]))) == 1
    assert (
        len(messages(pod({}, args=["sh", "-c", "export HF_TOKEN=sesame-7; python train.py"]))) == 1
    )


@pytest.mark.parametrize(("name", "value"), NO_CREDENTIAL.items(), ids=NO_CREDENTIAL)
def test_references_placeholders_and_words_of_models_are_none(name, value):
    assert messages(pod({name: value})) == []
    assert messages(pod({}, args=[f"--{name.lower()}={value}"])) == []


def test_a_reference_to_a_secret_is_the_way_out():
    document = pod({})
    reference = {"secretKeyRef": {"name": "hf", "key": "HF_TOKEN"}}
    container = document["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    container[0]["env"] = [{"name": "HF_TOKEN", "valueFrom": reference}]
    assert messages(document) == []


def test_our_examples_hold_none():
    documents = load([EXAMPLES]).documents
    assert documents
    assert list(check_credentials(documents)) == []


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize("form", FORMS)
def test_the_value_is_shown_in_no_form_and_the_job_compiles(tmp_path, form, part):
    document = pod({})
    spec = document["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    spec[part] = [
        *([] if part == "containers" else spec.get(part, [])),
        {
            "name": "pytorch" if part == "containers" else "fetch",
            "image": "x:1",
            "command": ["python"],
            "env": [{"name": "HF_TOKEN", "value": "sesame-7-sesame"}],
        },
    ]
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    done = CliRunner().invoke(check.command, [str(file), "--output-format", form])
    assert done.exit_code == 0
    assert "ET2136" in done.output
    assert "sesame-7" not in done.output


def test_other_diagnostics_of_that_place_do_not_show_it_either(tmp_path):
    file = tmp_path / "job.yaml"
    text = yaml.safe_dump(pod({"HF_TOKEN": "sesame-7-sesame"}), sort_keys=False)
    line = "value: sesame-7-sesame"
    broken = {
        "an unknown field": text.replace("value: sesame", "vlaue: sesame"),
        "a tab": text.replace("value: sesame", "value:\tsesame\t: x: ["),
        "a duplicate": text.replace(line, f"{line}\n            {line}"),
        "a control character": text.replace("sesame-7", "sesame-7\x01"),
        "a wrong type": text.replace(line, "value: [sesame-7-sesame]"),
    }  # fmt: skip
    for how, words in broken.items():
        file.write_text(words)
        for form in FORMS:
            done = CliRunner().invoke(check.command, [str(file), "--output-format", form])
            assert done.exit_code == 2, how
            assert "sesame-7" not in done.output, (how, form, done.output)


def test_python_values_are_checked_too():
    compilation = etcompile.compile(pod({"HF_TOKEN": "sesame-7"}))
    assert [one.code for one in compilation.diagnostics] == ["ET2136"]
    assert json.dumps(compilation.objects)  # and it compiles
