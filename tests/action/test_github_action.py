"""The steps of action.yml, run as a runner runs them: under bash, with its files and variables."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from capacity.clusters import gpu_cluster
from etcompile.capacity.snapshot import of_objects, to_document
from specs import scale_out, training_job, worker

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
INSTALL, RUN = ACTION["runs"]["steps"]


class Runner:
    """A workflow's workspace, and what a runner gives to a step."""

    def __init__(self, path: Path) -> None:
        self.workspace = path / "workspace"
        self.temp = path / "temp"
        self.temp.mkdir()
        (self.workspace / "jobs").mkdir(parents=True)
        self.outputs: dict[str, str] = {}
        self.summary = ""
        self.path = ""

    def write(self, name, value):
        (self.workspace / name).write_text(yaml.safe_dump(value))

    def step(self, step, *, search=None, base="", **inputs):
        """Runs a step of the action; its files are read afterwards."""
        values = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        unknown = inputs.keys() - {name.replace("-", "_") for name in values}
        assert not unknown
        values |= {name.replace("_", "-"): value for name, value in inputs.items()}
        known = {f"inputs.{name}": value for name, value in values.items()}
        known |= {"github.action_path": str(ROOT), "github.event.pull_request.base.sha": base}
        files = {name: self.temp / name for name in ("OUTPUT", "STEP_SUMMARY", "PATH")}
        for file in files.values():
            file.write_text("")
        environment = {
            "HOME": str(self.temp),
            "PATH": search or f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            **{f"GITHUB_{name}": str(file) for name, file in files.items()},
            **{name: _evaluated(value, known) for name, value in step["env"].items()},
            **({"GITHUB_BASE_REF": "main"} if base else {}),
        }
        for name in ("PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy"):
            if name in os.environ:
                environment[name] = os.environ[name]
        assert step["shell"] == "bash"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = files["OUTPUT"].read_text().splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)
        self.summary = files["STEP_SUMMARY"].read_text()
        self.path = files["PATH"].read_text()
        return done

    def run(self, **inputs):
        return self.step(RUN, **inputs)


def _evaluated(text, known):
    return re.sub(r"\$\{\{ *(\S+) *\}\}", lambda match: known[match[1]], text)


@pytest.fixture
def runner(tmp_path) -> Runner:
    runner = Runner(tmp_path)
    runner.write("jobs/bert.yaml", training_job("bert"))
    return runner


def bad_job():
    job = training_job("bert", replicas=12)
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    return job


def git(runner, *arguments):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    return subprocess.run(command, cwd=runner.workspace, check=True, capture_output=True, text=True)


def test_a_good_job_passes(runner):
    done = runner.run()
    assert done.returncode == 0, done.stderr
    assert runner.outputs["changed"] == "false"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", runner.outputs["digest"])
    assert runner.summary.startswith("### etcompile check: accepted\n")
    assert "ok: 1 job, " in runner.summary
    assert Path(runner.outputs["summary-file"]).read_text() == runner.summary


def test_a_bad_job_fails_with_annotations_and_a_summary(runner):
    runner.write("jobs/bert.yaml", bad_job())
    done = runner.run(sarif="out.sarif", rdjson="out.rdjson")
    assert done.returncode == 2
    assert re.search(r"^::error file=jobs/bert.yaml,line=\d+", done.stdout, re.MULTILINE)
    assert "error[ET2003]: worker.replicas 12 is above maxReplicas 8" in runner.summary
    assert runner.outputs == {
        "changed": "false",
        "digest": "",
        "summary-file": str(runner.temp / "etcompile-summary.md"),
    }
    sarif = yaml.safe_load((runner.workspace / "out.sarif").read_text())
    assert sarif["runs"][0]["results"][0]["ruleId"] == "ET2003"
    rdjson = yaml.safe_load((runner.workspace / "out.rdjson").read_text())
    assert rdjson["diagnostics"][0]["location"]["path"] == "jobs/bert.yaml"


def test_render_writes_the_folder_and_says_whether_it_changed(runner):
    first = runner.run(mode="render", output="out")
    assert first.returncode == 0, first.stderr
    assert runner.outputs["changed"] == "true"
    assert (runner.workspace / "out" / "bert" / "kustomization.yaml").is_file()
    digest = runner.outputs["digest"]
    assert runner.run(mode="render", output="out").returncode == 0
    assert runner.outputs["changed"] == "false"
    assert runner.outputs["digest"] == digest


def test_check_fails_where_the_folder_is_old(runner):
    runner.run(mode="render", output="out", render_args="--config=split=true")
    assert runner.run(output="out", render_args="--config=split=true").returncode == 0
    assert "`out` is up to date" in runner.summary
    runner.write("jobs/more.yaml", scale_out("more", 1, job="bert"))
    done = runner.run(output="out", render_args="--config=split=true")
    assert done.returncode == 1
    assert runner.outputs["changed"] == "true"
    assert "::error title=etcompile::out is not up to date" in done.stdout
    assert "missing  out/bert/91-pod-bert-worker-2.yaml" in runner.summary


def test_diff_shows_what_a_pull_request_changes(runner):
    git(runner, "init", "-q")
    git(runner, "add", "-A")
    git(runner, "commit", "-q", "-m", "one")
    base = git(runner, "rev-parse", "HEAD").stdout.strip()
    assert runner.run(mode="diff", base=base).returncode == 0
    assert runner.outputs["changed"] == "false"
    runner.write("jobs/more.yaml", scale_out("more", 1, job="bert"))
    done = runner.run(mode="diff", base=base)
    assert done.returncode == 0, done.stderr
    assert runner.outputs["changed"] == "true"
    assert "bert-worker-2" in runner.summary


def test_check_refuses_a_change_that_pods_of_the_base_cannot_take(runner):
    assert runner.run(mode="render", output="out").returncode == 0
    git(runner, "init", "-q")
    git(runner, "add", "-A")
    git(runner, "commit", "-q", "-m", "one")
    git(runner, "update-ref", "refs/remotes/origin/main", "HEAD")
    base = git(runner, "rev-parse", "HEAD").stdout.strip()
    assert runner.run(output="out", base=base).returncode == 0
    job = training_job("bert")
    worker(job)["template"]["spec"]["containers"][0]["command"] = ["sleep", "1"]
    runner.write("jobs/bert.yaml", job)
    shutil.rmtree(runner.workspace / "out")
    assert runner.run(mode="render", output="out").returncode == 0
    git(runner, "commit", "-q", "-a", "-m", "two")
    done = runner.run(output="out", base=base)
    assert done.returncode == 2
    assert "error[ET5008]" in done.stdout
    assert "::error title=etcompile::the change of out is refused" in done.stdout
    assert runner.summary.startswith("### etcompile check: the change of `out` is refused\n")
    # What merging would do follows.
    assert "bert-worker-0" in runner.summary.split("``````````")[-1]


def test_a_snapshot_tells_whether_jobs_fit(runner):
    runner.write("capacity.yaml", to_document(gpu_cluster()))
    assert runner.run(capacity="capacity.yaml").returncode == 0
    assert "capacity: bert fits now" in runner.summary
    runner.write("capacity.yaml", to_document(of_objects([])))
    assert runner.run(capacity="capacity.yaml").returncode == 2
    assert "error[ET7010]: bert never fits this cluster" in runner.summary
    (runner.workspace / "old").mkdir()
    runner.run(mode="diff", against="old", capacity="capacity.yaml")
    assert "| bert | never fits: " in runner.summary


def test_a_diff_against_nothing_known_fails(runner):
    git(runner, "init", "-q")
    done = runner.run(mode="diff", against="no-such-revision")
    assert done.returncode == 2
    assert "no-such-revision" in done.stderr
    assert runner.summary.startswith("### etcompile diff: no diff")


def test_a_long_summary_is_cut_and_ends_its_block(runner):
    job = yaml.safe_dump(bad_job())
    for number in range(400):
        text = job.replace("name: bert", f"name: bert-{number}")
        (runner.workspace / f"jobs/bert-{number}.yaml").write_text(text)
    assert runner.run().returncode == 2
    summary = Path(runner.outputs["summary-file"]).read_bytes()
    assert 50_000 < len(summary) < 65_536
    assert summary.decode().endswith(" more lines\n``````````\n")


def test_nothing_in_a_job_ends_the_block_or_runs_as_a_command(runner):
    job = bad_job()
    job["metadata"]["annotations"] = {"etcompile.dev/x": "`" * 12}
    text = yaml.safe_dump(job).replace("replicas: 12", f"replicas: 12 # {'`' * 12} $(touch pwned)")
    (runner.workspace / "jobs" / "$(touch pwned).yaml").write_text(text)
    (runner.workspace / "jobs" / "bert.yaml").unlink()
    runner.run(path="jobs/$(touch pwned).yaml", args="--config 'cluster-domain=$(touch pwned)'")
    assert not (runner.workspace / "pwned").exists()
    assert runner.summary.count("`" * 10) == 2


def test_arguments_are_words_of_a_shell(runner):
    (runner.workspace / "my overlay.yaml").write_text(
        "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\nsettings: {profiles: [argocd]}\n"
    )
    done = runner.run(
        mode="render", output="out", args="--overlay 'my overlay.yaml' --config services=shared"
    )
    assert done.returncode == 0, done.stderr
    pods = (runner.workspace / "out" / "bert" / "91-workers.yaml").read_text()
    assert "argocd.argoproj.io/sync-wave" in pods
    assert runner.run(args="--overlay 'my overlay.yaml").returncode != 0


def test_several_paths_stand_on_lines(runner):
    runner.write("more.yaml", scale_out("more", 1, job="bert"))
    runner.run(path="more.yaml")
    assert "ok: 1 scale intent\n" in runner.summary
    runner.run(path="jobs\nmore.yaml\n")
    assert "ok: 1 job, " in runner.summary


@pytest.mark.parametrize("inputs", [{"mode": "apply"}, {"mode": "render"}])
def test_invalid_input_exits_2_and_annotates_an_error(inputs, runner):
    done = runner.run(**inputs)
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=etcompile::mode ")


def test_an_etcompile_that_is_there_is_not_installed_again(runner):
    assert runner.step(INSTALL).returncode == 0
    assert runner.path == ""
    assert not (runner.temp / "etcompile").exists()


@pytest.mark.programs  # pip installs the checkout, with all that it needs
def test_a_runner_without_etcompile_gets_that_of_the_checkout(runner, require):
    path = "/usr/local/bin:/usr/bin:/bin"
    require("a PATH without etcompile", present=shutil.which("etcompile", path=path) is None)
    python = Path(sys.base_prefix) / "bin"
    done = runner.step(INSTALL, search=f"{python}:{path}")
    require("pip", present="No matching distribution" not in done.stderr, why="no package index")
    assert done.returncode == 0, done.stderr
    assert runner.path == f"{runner.temp}/etcompile/bin\n"
    assert runner.step(RUN, search=f"{runner.path.strip()}:{path}").returncode == 0


def test_every_output_is_one_that_the_step_makes():
    runner_outputs = {one["value"] for one in ACTION["outputs"].values()}
    outputs = {"changed", "digest", "summary-file"}
    assert runner_outputs == {f"${{{{ steps.run.outputs.{name} }}}}" for name in outputs}


def test_no_input_is_put_into_a_script():
    """It would be run: an input may come from a pull request."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
