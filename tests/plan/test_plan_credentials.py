"""What shows changes shows no credential: a diff in every form, and `render --check`."""

import pytest
import yaml
from click.testing import CliRunner

from etcompile.cli import diff, render
from etcompile.plan.step import masked
from specs import training_job


def test_a_change_holds_no_credential():
    env = ("spec", "containers", "[main]", "env", "[HF_TOKEN]")
    assert masked("Pod", (*env, "value"), "sesame-7") == "(hidden)"
    assert masked("Pod", env, {"name": "HF_TOKEN", "value": "sesame-7"}) == {
        "name": "HF_TOKEN", "value": "(hidden)",
    }  # fmt: skip
    assert masked("ConfigMap", ("data", "DB_PASSWORD"), "sesame-7") == "(hidden)"
    shell = masked("Pod", ("spec", "containers"), [{"args": ["export HF_TOKEN=sesame-7; train"]}])
    assert shell == [{"args": ["export HF_TOKEN=(hidden); train"]}]
    assert masked("Pod", (*env[:-1], "[EPOCHS]", "value"), "10") == "10"
    assert masked("Pod", ("spec", "replicas"), 3) == 3


@pytest.fixture
def changed(tmp_path):
    """A job whose token changed since it was rendered, with something else."""
    job = training_job("bert")

    def write(token, image):
        template = job["spec"]["etReplicaSpecs"]["launcher"]["template"]
        container = template["spec"]["containers"][0]
        container["env"] = [{"name": "HF_TOKEN", "value": token}]
        container["image"] = image
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))

    write("sesame-seven", "x:1")
    words = [str(tmp_path / "job.yaml"), "-d", str(tmp_path / "out")]
    done = CliRunner().invoke(render.command, words)
    assert done.exit_code == 0, done.output
    write("sesame-eight", "x:2")
    return tmp_path


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_diff_shows_no_credential(changed, form):
    words = [str(changed / "job.yaml"), "--against", str(changed / "out"), "--output", form]
    done = CliRunner().invoke(diff.command, words)
    assert done.exit_code == 1, done.output
    assert "HF_TOKEN" in done.output
    assert "sesame" not in done.output


def test_what_is_said_of_an_output_folder_shows_none(changed):
    words = [str(changed / "job.yaml"), "-d", str(changed / "out")]
    for more in (["--check"], [], ["--replace"]):
        done = CliRunner().invoke(render.command, [*words, *more])
        assert "x:2" in done.output or more == ["--replace"]
        assert "sesame" not in done.output
