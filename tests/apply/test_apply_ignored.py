"""`--ignore-differences`: fields that somebody else looks after stay as they are."""

import json

import pytest
import yaml

from specs import training_job


def rules(*entries, kind="IgnoreDifferences"):
    document = {"apiVersion": "etcompile.dev/v1", "kind": kind, "ignoreDifferences": list(entries)}
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "ml"},
        "spec": {"ignoreDifferences": list(entries)},
    }
    return yaml.safe_dump(application if kind == "Application" else document)


IMAGE = '.spec.containers[] | select(.name == "main").image'
BY = {
    "pointer": {"kind": "Pod", "jsonPointers": ["/spec/containers/0/image"]},
    "expression": {"group": "", "kind": "*", "jqPathExpressions": [IMAGE]},
    "manager": {"kind": "Pod", "managedFieldsManagers": ["updater"]},
}


@pytest.mark.parametrize("kind", ["IgnoreDifferences", "Application"])
@pytest.mark.parametrize("by", BY)
def test_a_field_that_is_ignored_is_no_difference_and_is_not_written_back(
    applied, run, kubelet, ask, objects, tmp_path, by, kind
):
    applied(replicas=1)
    there = ask("GET", "pods/mnist-worker-0")["spec"]["containers"]
    other = {"spec": {"containers": [{**there[0], "image": "mirror.example.com/x:9"}]}}
    ask("PATCH", "pods/mnist-worker-0", other, manager="updater")
    (tmp_path / "ignore.yaml").write_text(rules(BY[by], kind=kind))
    options = ("--config", "ignore-differences=ignore.yaml")
    run("diff", "jobs", code=1)
    run("diff", "jobs", *options, code=0)
    # Another field changes, and this one stays.
    labels = {"metadata": {"labels": {"etcompile.dev/role": "other"}}}
    ask("PATCH", "pods/mnist-worker-0", labels, manager="kubectl-edit")
    run("apply", "jobs", *options, "--config", "take-ownership=kubectl-edit", code=0)
    pod = objects()["Pod/mnist-worker-0"]
    assert pod["spec"]["containers"][0]["image"] == "mirror.example.com/x:9"
    assert pod["metadata"]["labels"]["etcompile.dev/role"] == "worker"


def test_a_field_is_ignored_between_two_revisions_too(run, write, tmp_path):
    write(training_job(replicas=1))
    run("render", "jobs", "-d", "out", code=0)
    job = training_job(replicas=1)
    for role in job["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = "example.com/new:2"
    write(job)
    (tmp_path / "ignore.yaml").write_text(
        rules(
            BY["pointer"],
            {"kind": "ConfigMap", "jqPathExpressions": ['.data["job.yaml"]']},
            {
                "kind": "*",
                "jqPathExpressions": ['.metadata.annotations["etcompile.dev/spec-hash"]'],
            },
        )
    )
    diff = run("diff", "jobs", "--against", "out", "--output", "json")
    ours = run(
        *("diff", "jobs", "--against", "out", "--output", "json"),
        *("--config", "ignore-differences=ignore.yaml"),
    )
    changed = [
        {
            change["path"]
            for step in json.loads(done.stdout)["steps"]
            for change in step.get("changes", ())
        }
        for done in (diff, ours)
    ]
    assert "spec.containers[main].image" in changed[0]
    assert "spec.containers[main].image" not in changed[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "ignore.yaml:1"),
        (rules(kind="Pod"), "a document of the kind IgnoreDifferences or Application is expected"),
        (rules({"kind": "Pod"}), "a rule needs one of jsonPointers"),
        (rules({"kind": "Pod", "jsonPointers": ["spec"]}), "'spec' is no JSON pointer"),
        (rules({"kind": "Pod", "jqPathExpressions": [".spec | length"]}), "is not understood"),
        (rules({"kind": "Pod", "jsonpointers": ["/spec"]}), "unknown field 'jsonpointers'"),
        (rules({"jsonPointers": ["/spec"]}), "missing required field 'kind'"),
    ],
)
def test_rules_that_cannot_be_read_are_named_with_their_place(run, write, tmp_path, text, words):
    write(training_job(replicas=1))
    (tmp_path / "ignore.yaml").write_text(text)
    done = run(
        "diff", "jobs", "--against", "jobs", "--config", "ignore-differences=ignore.yaml", code=2
    )
    assert words in " ".join(done.stderr.split())
    assert "ignore.yaml:" in done.stderr
    assert "Traceback" not in done.stderr
