"""Text from a cluster is masked, printable and cut before people get it, in linear time."""

import time

import msgspec
import pytest

from etcompile.causes.log import failures_of, tail_of
from etcompile.diagnostics import diagnose
from etcompile.diagnostics.redaction import redacted, shown, shown_value
from etcompile.k8s.bounds import bounded
from watcher_rules import observed

SECRETS = {
    "Hugging Face": ("export HF=hf_aB3dE5gH7jK9mN1pQ", "hf_aB3dE5gH7jK9mN1pQ"),
    "OpenAI": ("key sk-proj-aB3dE5gH7jK9mN1pQ2rS", "sk-proj-aB3dE5gH7jK9mN1pQ2rS"),
    "INI": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
    "environment": ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
    "Bearer": ("> Authorization: Bearer abc.DEF-123456", "abc.DEF-123456"),
    "bearer alone": ("curl -H 'bearer abc.DEF-123456'", "abc.DEF-123456"),
    "Basic": ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "signed URL": ("https://b.s3/x?X-Amz-Signature=deadbeef01&X=1", "deadbeef01"),
    "JSON": ('{"a": 1, "token": "s3cr3tv4lue"}', "s3cr3tv4lue"),
    "JSON without blanks": ('{"token":"s3cr3tv4lue"}', "s3cr3tv4lue"),
    "JSON in a text": (r'"{\"access_token\": \"s3cr3tv4lue\"}"', "s3cr3tv4lue"),
}
ORDINARY = (
    "Basic training starts; 1234 tokens per second",
    "pad_token: <pad> num_tokens=5000 loss=1.25",
    "pod task-1-of-a-name-that-is-rather-long-2026 is Pending",
    "ImagePullBackOff: Back-off pulling image registry.example.com/a:v1",
)
REPEATED = (
    *("password=", "PASSWORD=/", "secret=a-", "api_key=a-", "token: ", "name: TOKEN\n value:"),
    *('"token":', "Bearer a", "authorization: ", "--password ", "sig=", "://a:", "//a", "sk-"),
    *("-----BEGIN PRIVATE KEY-----", ".", "a.", "A", "eyJaaaaaaaa.", "hf_", "\n", " ", "@", ":"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_credentials_that_programs_print_are_masked(name):
    text, secret = SECRETS[name]
    assert secret not in shown(text)
    assert secret not in tail_of(f"epoch 1\n{text}\nepoch 2")
    assert secret not in str(shown_value({"events": [{"message": text}]}))
    assert shown(shown(text)) == shown(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_output_stays_as_it_is(text):
    assert shown(text) == text


def test_message_is_cut_and_shows_no_part_of_a_credential():
    for length in range(4060, 4100):
        word = "x " * (length // 2) + "HF_TOKEN=sesame-7 " + "y " * 500_000
        message = diagnose("ET5005", None, option="--a", problem=word, advice=word).message
        assert len(message) == 4096
        assert "sesame" not in message


def test_nothing_ends_a_line_or_reaches_a_terminal():
    words = shown("Error\n2026-11-25 WARNING forged\r\x1b]0;x\x07 \u202e \x9b31m")
    assert words.isprintable()
    assert len(shown("x " * 10_000)) == 4096


def patterns():
    yield "shown", shown
    yield "redacted", redacted
    yield "tail", tail_of


@pytest.mark.programs
@pytest.mark.parametrize(("name", "function"), [*patterns()])
@pytest.mark.parametrize("piece", REPEATED)
def test_sixteen_times_the_text_takes_about_sixteen_times_as_long(name, function, piece):
    signs = " T3BlbkFJ :_authToken= :// hooks.slack.com eyJ password PRIVATE KEY"

    def seconds(size: int) -> float:
        text = (piece * size)[:size] + signs
        best = float("inf")
        for _ in range(3):
            begun = time.thread_time()
            function(text)
            best = min(best, time.thread_time() - begun)
        return best

    small, large = seconds(4096), seconds(65536)
    # Quadratic is 256 times. Below a millisecond the clock says little.
    assert large < max(80 * small, 0.005), f"{name}: {large / small:.0f} times"


def hostile_pod() -> dict:
    long = "x" * 100_000
    ended = {"exitCode": 1, "reason": f"A\nforged {long}", "message": f"token={long}"}
    status = {"name": long, "restartCount": 1, "state": {"terminated": ended}}
    return {
        "metadata": {
            "name": "bert-worker-0",
            "uid": "u",
            "labels": {"etcompile.dev/role": "worker"},
            "annotations": {
                f"etcompile.dev/{name}": long
                for name in ("spec-hash", "touched", "epoch", "notice")
            },
            "ownerReferences": [{"uid": long, "controller": True}] * 10,
        },
        "spec": {
            "nodeName": long,
            "containers": [{"name": "train", "image": long, "args": [long] * 300}],
            "volumes": [{"name": "etcompile-run"}],
        },
        "status": {
            "phase": "Failed",
            "reason": long,
            "message": long,
            "conditions": [{"type": long, "status": "True", "reason": long, "message": long}],
            "containerStatuses": [status] * 500,
        },
    }


def test_record_of_the_largest_pod_is_small():
    view = observed(bounded(hostile_pod()))
    assert len(msgspec.json.encode(view)) < 512 * 1024
    assert view.reason.isprintable()
    assert all(failure.reason.isprintable() for failure in failures_of(bounded(hostile_pod())))
