"""`etcompile diff` against a folder and against a Git revision, and its forms."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from etcompile import data, emit
from etcompile.plan.plan_file import read_plan
from etcompile.plan.planner import plan
from etcompile.plan.presentation import LIMIT, markdown, page, text
from etcompile.plan.scope import Rights
from etcompile.plan.step import Declared
from specs import compiled, manifest, overlay, scale_in, training_job

Git = Callable[..., str]


def steps(done) -> list[str]:
    return [
        step["id"] for step in json.loads(done.stdout)["steps"] if step["action"] != "unchanged"
    ]


SCALED_OUT = [
    "create Service ml/mnist-worker-2",
    "create Pod ml/mnist-worker-2",
    "wait until ready Pod ml/mnist-worker-2",
    "update ConfigMap ml/mnist-config",
]


def test_a_revision_is_compiled_the_same_way(jobs: Path, diff) -> None:
    done = diff("jobs", "--against", "HEAD", "--output", "json", code=1)
    assert steps(done) == SCALED_OUT
    same = diff("jobs/job.yaml", "--against", "HEAD", "--run", "b", code=0)
    assert "no differences" in same.stdout


def test_globs_folders_and_absolute_paths_mean_the_same_at_a_revision(jobs: Path, diff) -> None:
    for path in ("jobs/*.yaml", ".", str(jobs), "jobs/../jobs/"):
        done = diff(path, "--against", "HEAD", "--output", "json")
        assert steps(done) == SCALED_OUT, (path, done.stderr)


def test_overlay_is_read_from_the_compared_revision(jobs: Path, diff, git: Git) -> None:
    file = jobs.parent / "overlay.yaml"
    file.write_text(yaml.safe_dump(overlay(labels=[{"pairs": {"team": "a"}}])))
    git("add", "-A")
    git("commit", "-qm", "overlay")
    arguments = ("jobs", "--overlay", "overlay.yaml", "--against")
    diff(*arguments, "HEAD", code=0)
    file.write_text(yaml.safe_dump(overlay(labels=[{"pairs": {"team": "b"}}])))
    diff(*arguments, "HEAD", code=1)
    diff(*arguments, "HEAD~1", code=1)


def test_what_did_not_exist_at_a_revision_is_new(jobs: Path, diff, git: Git) -> None:
    done = diff("jobs/out.yaml", "jobs/job.yaml", "--against", "HEAD", "--output", "json")
    assert steps(done) == SCALED_OUT
    (jobs / "sub").mkdir()
    (jobs / "job.yaml").rename(jobs / "sub" / "job.yaml")
    (jobs / "out.yaml").unlink()
    done = diff("jobs/sub", "--against", "HEAD", "--output", "json")
    assert {one.split()[0] for one in steps(done)} == {"create"}


def test_a_committed_output_folder_is_a_left_side(jobs: Path, diff, git: Git) -> None:
    diff("jobs/job.yaml", "-d", "out", "-q", command="render")
    diff("jobs/job.yaml", "--against", "out", code=0)
    assert steps(diff("jobs", "--against", "out", "--output", "json")) == SCALED_OUT
    git("add", "-A")
    git("commit", "-qm", "out")
    done = diff("jobs", "--against", "HEAD:out", "--output", "json")
    assert steps(done) == SCALED_OUT
    diff("jobs/job.yaml", "--against", "HEAD:out", "--output", "json", code=0)


def test_a_folder_of_specs_is_a_left_side(jobs: Path, diff) -> None:
    (jobs.parent / "old").mkdir()
    (jobs.parent / "old" / "job.yaml").write_text((jobs / "job.yaml").read_text())
    assert steps(diff("jobs", "--against", "old", "--output", "json")) == SCALED_OUT


def test_an_empty_folder_makes_all_new(jobs: Path, diff) -> None:
    (jobs.parent / "empty").mkdir()
    done = diff("jobs", "--against", "empty", "--output", "json", code=1)
    assert {one.split()[0] for one in steps(done)} == {"create"}


@pytest.mark.parametrize(
    ("against", "words"),
    [
        ("nope", "'nope' is no revision"),
        ("--output=text", "is no revision"),
        ("HEAD:nope", "'nope' is not in HEAD"),
    ],
)
def test_a_left_side_that_is_not_there_is_an_error(
    jobs: Path, diff, against: str, words: str
) -> None:
    done = diff("jobs", f"--against={against}", code=2)
    assert words in done.stderr
    assert done.stdout == ""


def test_mistake_in_a_revision_is_reported_with_its_revision_and_file(
    jobs: Path, diff, git: Git
) -> None:
    good = (jobs / "job.yaml").read_text()
    (jobs / "job.yaml").write_text(good.replace("replicas: 2", "replicas: -2"))
    git("commit", "-qam", "bad")
    (jobs / "job.yaml").write_text(good)
    done = diff("jobs", "--against", "HEAD", code=2)
    assert "HEAD:jobs/job.yaml:" in done.stderr
    assert "ET7002" in done.stderr


def test_refused_input_is_an_error_and_no_difference(jobs: Path, diff) -> None:
    (jobs / "out.yaml").write_text("a: [")
    diff("jobs", "--against", "HEAD", code=2)


def test_the_repository_stays_as_it_is(jobs: Path, diff, git: Git) -> None:
    before = git("status", "--porcelain", "--ignored"), git("worktree", "list")
    diff("jobs", "--against", "HEAD")
    assert (git("status", "--porcelain", "--ignored"), git("worktree", "list")) == before


def test_the_plan_file_is_the_plan(jobs: Path, diff) -> None:
    done = diff("jobs", "--against", "HEAD", "--plan", "plan.json")
    value = json.loads((jobs.parent / "plan.json").read_text())
    schema = json.loads((data.folder("schemas") / "plan.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(value)
    assert done.returncode == 1
    read = read_plan((jobs.parent / "plan.json").read_bytes())
    assert [step.id for step in read.steps if step.action != "unchanged"] == SCALED_OUT
    assert diff("plan", command="schema").stdout == json.dumps(schema, indent=2) + "\n"


def test_text_is_in_order_and_ends_with_a_summary(jobs: Path, diff) -> None:
    done = diff("jobs", "--against", "HEAD")
    lines = done.stdout.splitlines()
    assert lines[0] == "job ml/mnist"
    assert [line.split()[0] for line in lines if line[:5].strip().isdigit()] == ["1", "2", "3", "4"]
    assert "+ mnist-worker-2:1" in done.stdout
    assert lines[-1] == "revision HEAD: 2 to create, 1 to update; 6 unchanged"
    assert "\x1b" not in done.stdout
    assert "\x1b[32m" in diff("jobs", "--against", "HEAD", "--config", "color=always").stdout
    diff("jobs", "--against", "HEAD", "--exit-zero", code=0)


# Forms ------------------------------------------------------------------------------------------


def between(old, new):
    groups = [Declared(one.name, one.objects, one.waits) for one in new.groups]
    return plan(groups, old.objects, Rights(between_files=True), against="main")


def test_similar_changes_are_summarized_in_one_line() -> None:
    changes = between(compiled(training_job()), compiled(training_job(replicas=100)))
    output = "\n".join(text(changes, emit.to_yaml, color=False))
    assert "Pod mnist-worker-2 … 99 (98 Pods)" in output
    assert len(output.splitlines()) < 160


def test_a_comment_stays_below_its_limit_and_says_what_it_leaves_out() -> None:
    objects = [
        manifest("ConfigMap", f"c{'x' * number}", data={"k": "y" * 2000}) for number in range(1, 60)
    ]
    changes = plan([Declared(None, objects)], [])
    output = markdown(changes, emit.to_yaml)
    assert len(output.encode()) <= LIMIT
    assert "too long for a comment" in output
    assert output.count("<details>") == output.count("</details>")
    assert output.count("```") % 2 == 0


def test_a_value_cannot_leave_its_place_in_markdown_or_html() -> None:
    evil = "```\n</details>\n<script>alert(1)</script>\n@everyone | `x`"
    value = manifest(
        "ConfigMap", "c", metadata={"annotations": {"<b>`|": evil}}, data={"<img src=x>": evil}
    )
    there = {**value, "data": {"<img src=x>": "1"}}
    changes = plan([Declared("<i>", [value])], [there], Rights(between_files=True))
    output = page(changes, emit.to_yaml)
    assert "<script>alert" not in output
    assert "<img src" not in output
    assert "<i>" not in output
    comment = markdown(changes, emit.to_yaml)
    assert "````diff" in comment


def test_secrets_are_masked_in_every_form() -> None:
    def secret(value: str):
        return manifest("Secret", "s", stringData={"k": value})

    new, old = secret("hunter2-new"), secret("hunter2-old")
    for there in ([], [old]):
        changes = plan([Declared(None, [new])], there, Rights(between_files=True))
        from etcompile.plan.plan_file import plan_value

        forms = [
            "\n".join(text(changes, emit.to_yaml, color=False)),
            markdown(changes, emit.to_yaml),
            page(changes, emit.to_yaml),
            json.dumps(plan_value(changes)),
        ]
        for form in forms:
            assert "hunter2" not in form
            assert "aHVudGVyMi" not in form
            assert "s" in form
    assert "(hidden, 11 bytes)" in forms[3]


def test_a_scale_in_reads_as_one_in_every_form() -> None:
    changes = between(
        compiled(training_job()), compiled(training_job(), scale_in("i", ["mnist-worker-1"]))
    )
    for form in (
        "\n".join(text(changes, emit.to_yaml, color=False)),
        markdown(changes, emit.to_yaml).replace("\\", ""),
        page(changes, emit.to_yaml).partition('id="steps"')[2],
    ):
        places = [
            form.index(words)
            for words in (
                "ConfigMap mnist-config",
                "Pod mnist-worker-1 has drained",
                "Service mnist-worker-1",
            )
        ]
        assert places == sorted(places)
