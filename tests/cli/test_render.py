"""`etcompile render` and its neighbours, as a person at a shell meets them."""

import functools
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from commandline import at_a_shell, etcompile

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "trainingjob" / "elastic-mnist"
JOB = (EXAMPLE / "job.yaml").read_text()


def test_data_goes_to_standard_output_and_nothing_else() -> None:
    done = at_a_shell("render", EXAMPLE)
    assert done.returncode == 0
    assert done.stderr == ""
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout)]
    assert kinds[0] == "ServiceAccount"
    assert kinds.count("Pod") == 4


def test_standard_input_is_an_input() -> None:
    assert etcompile("render", "-", stdin=JOB).stdout.count("kind: Pod") == 3


def test_five_mistakes_are_five_diagnostics_on_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata: {name: five}
spec:
  cleanPodPolicy: running
  slotPerWorker: 2
  etReplicaSpecs:
    launcher:
      template:
        spec:
          containers:
          - name: main
            image: horovod/horovod:0.28.1
    worker:
      replicas: "2"
      minReplicas: 0
      template:
        spec:
          containers: []
"""
    )
    done = etcompile("render", file)
    assert (done.returncode, done.stdout) == (2, "")
    places = [line.split("-->")[1].strip() for line in done.stderr.splitlines() if "-->" in line]
    assert places == [f"{file}:{place}" for place in ("5:19", "6:3", "15:17", "16:20", "19:23")]
    assert "did you mean 'Running'?" in done.stderr
    assert "did you mean 'slotsPerWorker'?" in done.stderr
    assert "5 errors" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "is_reported"),
    [([], 0, True), (["--strict"], 2, True), (["-q", "--strict"], 2, True), (["-q"], 0, False)],
)
def test_strict_refuses_warnings_and_quiet_hides_them(
    words: list[str], code: int, is_reported: bool
) -> None:
    warned = JOB.replace("horovod:0.28.1", "horovod:latest")
    done = etcompile("render", *words, "-", stdin=warned)
    assert (done.returncode, done.stdout == "") == (code, code == 2)
    assert ("ET2040" in done.stderr) == bool(done.stderr) == is_reported


def test_a_full_disk_is_no_bug_of_ours() -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        how = {"capture_output": False, "stdout": full, "stderr": subprocess.PIPE}
        done = at_a_shell("render", EXAMPLE, **how)
    assert done.returncode == 2
    assert "standard output" in done.stderr


def test_what_is_no_matter_of_standard_output_is_not_called_so(tmp_path: Path) -> None:
    """A machine on which nobody may write a file: there is no place for another revision."""
    (tmp_path / "job.yaml").write_text(JOB)
    done = at_a_shell(
        *("diff", "job.yaml", "--against", "HEAD"),
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("etcompile: No usable temporary directory")


def test_color_requires_a_terminal_or_the_color_option() -> None:
    plain = etcompile("check", "-", stdin="a: 1")
    colored = etcompile("check", "--color", "always", "-", stdin="a: 1")
    assert "\x1b[" not in plain.stderr
    assert "\x1b[" in colored.stderr


def test_an_output_folder_is_written_and_said(tmp_path: Path) -> None:
    done = etcompile("render", EXAMPLE, "-d", tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, "")
    assert "written" in done.stderr
    assert (tmp_path / "out" / "elastic-mnist" / "91-workers.yaml").is_file()
    again = etcompile("render", EXAMPLE, "-d", tmp_path / "out")
    assert "0 written" in again.stderr


def test_a_refused_input_writes_nothing(tmp_path: Path) -> None:
    etcompile("render", EXAMPLE, "-d", tmp_path / "out")
    before = {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    bad = tmp_path / "bad.yaml"
    bad.write_text(JOB.replace("replicas: 2", "replicas: 12"))
    etcompile("render", bad, "-d", tmp_path / "out", code=2)
    assert before == {p: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()}


def test_a_refused_file_leaves_nothing_of_the_others_on_standard_output(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(JOB)
    (tmp_path / "b.yaml").write_text(JOB.replace("elastic-mnist", "b").replace("image:", "imag:"))
    done = at_a_shell("render", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_output_folder_is_not_read_as_input(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    etcompile("render", ".", "-d", "out", cwd=tmp_path, code=0)
    again = etcompile("render", ".", "-d", "out", cwd=tmp_path)
    assert (again.returncode, "0 written" in again.stderr) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["render"],
        ["render", EXAMPLE, "--config", "kubernetes-version=1.99"],
        ["render", EXAMPLE, "--config", "secret=vault"],
        ["render", EXAMPLE, "--config", "secret=existing:Bad Name"],
        ["render", EXAMPLE, "-n", "Bad_NS"],
        ["render", EXAMPLE, "--force"],
        ["rendr", EXAMPLE],
        ["explain", "ET0000"],
        ["schema", "Widget"],
    ],
    ids=lambda words: " ".join(map(str, words[:1] + words[2:])),
)
def test_a_usage_error_is_one_message_and_code_2(arguments: list[object]) -> None:
    done = etcompile(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["", "-"])
def test_an_output_that_names_no_folder_is_a_usage_error(tmp_path: Path, output: str) -> None:
    done = etcompile("render", EXAMPLE, "-d", output, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave -d out to write to standard output" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["jobs", ".", "jobs/.."])
@pytest.mark.parametrize("more", [[], ["--check"]])
def test_output_folder_that_contains_the_input_is_refused(
    tmp_path: Path, output: str, more: list[str]
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text(JOB)
    done = etcompile("render", "jobs", "-d", output, *more, cwd=tmp_path, code=2)
    assert "error[ET5002]" in done.stderr
    assert "\n1 error\n" in done.stderr


def test_a_folder_that_cannot_be_replaced_can_be_checked(tmp_path: Path) -> None:
    etcompile("render", EXAMPLE, "-d", tmp_path / "out", code=0)
    etcompile("render", EXAMPLE, "-d", ".", "--check", cwd=tmp_path / "out", code=0)


def test_a_template_that_replaces_none_is_a_warning(tmp_path: Path) -> None:
    templates = {
        "discover_host.sh.j2": "",
        "worker.sh": "",
        "run-once.sh.j2": '{% include "part.j2" %}',
        "part.j2": "# ours",
        "extra.j2": "",
        "README.md": "worker.sh.j2",
    }
    for name, text in templates.items():
        (tmp_path / name).write_text(text)
    done = etcompile("render", EXAMPLE, "--config", f"templates={tmp_path}", code=0)
    assert "# ours" in done.stdout
    assert done.stderr.count("warning[ET5012]") == 3
    assert (
        f"{tmp_path}/discover_host.sh.j2\n  = hint: did you mean discover_hosts.sh.j2?"
        in done.stderr
    )
    assert f"{tmp_path}/worker.sh\n  = hint: did you mean worker.sh.j2?" in done.stderr
    assert f"{tmp_path}/extra.j2\n" in done.stderr


def test_namespace_is_for_documents_that_name_none() -> None:
    bare = JOB.replace("  namespace: ml\n", "")
    done = etcompile("render", "-n", "prod", "-", stdin=bare)
    assert {d["metadata"]["namespace"] for d in yaml.safe_load_all(done.stdout)} == {"prod"}
    refused = etcompile("render", "-n", "prod", "-", stdin=JOB, code=2)
    assert "-:7:14" in refused.stderr


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m etcompile render {EXAMPLE} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_explain_knows_every_code_and_name() -> None:
    from etcompile.diagnostics import RULES

    assert "maxReplicas" in etcompile("explain", "ET2003").stdout
    assert (
        etcompile("explain", "et2003").stdout == etcompile("explain", "replicas-above-max").stdout
    )
    assert all(rule.why and rule.example for rule in RULES.values())


def test_kinds_lists_what_compiles() -> None:
    text = etcompile("kinds").stdout
    listed = json.loads(etcompile("kinds", "-o", "json").stdout)
    assert {"TrainingJob", "TrainJob"} <= {one["kind"] for one in listed["kinds"]}
    names = [one["kind"] for one in listed["kinds"]] + [one["name"] for one in listed["runtimes"]]
    assert all(name in text for name in names)


LOCALES = [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LANG": "tr_TR"}]
SEEDS = [{"PYTHONHASHSEED": str(seed)} for seed in range(21)]


@pytest.mark.parametrize("environment", [*SEEDS, *LOCALES, {"TZ": "Asia/Kolkata"}], ids=str)
def test_bytes_do_not_depend_on_hash_seed_locale_or_time_zone(environment: dict[str, str]) -> None:
    assert _bytes(environment) == _usual_bytes()


def test_bytes_do_not_depend_on_the_working_directory(tmp_path: Path) -> None:
    relative = os.path.relpath(EXAMPLE, tmp_path)
    assert _bytes({}, relative, cwd=tmp_path) == _usual_bytes()


@functools.cache
def _usual_bytes() -> str:
    """With a hash seed that is another one each time."""
    return _bytes({"PYTHONHASHSEED": "random"})


def _bytes(environment: dict[str, str], path: object = EXAMPLE, cwd: Path = ROOT) -> str:
    done = at_a_shell("render", path, env={**os.environ, **environment}, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_render_never_imports_a_cluster_client() -> None:
    script = (
        "import sys, etcompile\n"
        f"assert etcompile.compile([{str(EXAMPLE)!r}]).ok\n"
        "import etcompile.cli.render\n"
        "heavy = {'kubernetes', 'jsonschema', 'ruamel', 'hypothesis'}\n"
        "sys.exit(repr(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
