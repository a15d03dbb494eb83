"""Rendering over a folder whose objects exist: what a live object refuses is refused before."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import done, render, tree, write

import etcompile
from etcompile.emit.output_state import LOCK
from specs import container, kubeflow_job, launcher, scale_in, scale_out, training_job, worker

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return write(tmp_path / "job.yaml", training_job(replicas=3))


@pytest.fixture
def out(tmp_path: Path, job: Path) -> Path:
    done(job, "-d", tmp_path / "out")
    return tmp_path / "out"


def _changed(**fields: Any) -> dict[str, Any]:
    document = training_job(replicas=3)
    worker(document)["template"]["spec"]["containers"] = [container(**fields)]
    return document


def test_a_change_that_pods_refuse_is_one_error_with_both_ways_out(job: Path, out: Path) -> None:
    write(job, _changed(workingDir="/data"))
    before = tree(out)
    result = render(job, "-d", out)
    assert result.exit_code == 2
    assert tree(out) == before
    assert result.stderr.count("error[ET5008]") == 1
    assert (
        "error[ET5008]: Pods mnist-worker-0, mnist-worker-1 and mnist-worker-2:"
        ' spec.containers[main].workingDir cannot change from "" to "/data"'
    ) in result.stderr
    assert "another ID in the annotation etcompile.dev/run" in result.stderr
    assert "pass --replace" in result.stderr


def test_the_error_points_at_the_field_in_the_output(job: Path, out: Path) -> None:
    write(job, _changed(workingDir="/data"))
    done(job, "-d", out, "--replace")
    write(job, _changed(workingDir="/other"))
    stderr = render(job, "-d", out).stderr
    file = out / "mnist" / "91-workers.yaml"
    lines = file.read_text().splitlines()
    place = next(n for n, line in enumerate(lines, 1) if "workingDir: /data" in line)
    assert f"--> {file}:{place}:" in stderr


def test_a_hundred_workers_are_one_error(tmp_path: Path) -> None:
    job, out = tmp_path / "job.yaml", tmp_path / "out"
    write(job, training_job(replicas=100))
    done(job, "-d", out)
    document = training_job(replicas=100)
    worker(document)["template"]["spec"]["hostNetwork"] = True
    write(job, document)
    stderr = render(job, "-d", out).stderr
    assert stderr.count("error[ET5008]") == 1
    assert "Pods mnist-worker-0, mnist-worker-1 and 98 more: spec.hostNetwork" in stderr


def test_pods_whose_host_names_change_are_one_error(job: Path, out: Path) -> None:
    stderr = render(job, "-d", out, "-n", "default", "--config", "services=shared").stderr
    assert stderr.count("spec.hostname cannot change") == 1


def test_with_replace_the_objects_to_delete_are_named(job: Path, out: Path) -> None:
    write(job, _changed(workingDir="/data"))
    stderr = done(job, "-d", out, "--replace").stderr
    assert "warning[ET5010]: Pods mnist-worker-0, mnist-worker-1 and mnist-worker-2" in stderr
    assert "must be deleted before this is applied" in stderr
    assert "workingDir: /data" in (out / "mnist" / "91-workers.yaml").read_text()
    assert "ET50" not in done(job, "-d", out).stderr


def test_an_image_changes_in_place_with_a_warning(job: Path, out: Path) -> None:
    write(job, _changed(image="horovod/horovod:0.28.2"))
    assert render(job, "-d", out, "--strict").exit_code == 2
    stderr = done(job, "-d", out).stderr
    assert stderr.count("ET5009") == 1
    assert "etcompile.dev/run" in stderr


def test_a_new_run_may_change_anything(job: Path, out: Path) -> None:
    write(job, _changed(image="other/image:1", workingDir="/data"))
    assert "ET50" not in done(job, "-d", out, "--run", "auto").stderr


def test_the_same_run_may_not(job: Path, out: Path) -> None:
    done(job, "-d", out, "--run", "one")
    write(job, _changed(workingDir="/data"))
    assert (
        "another ID in the annotation etcompile.dev/run"
        in render(job, "-d", out, "--run", "one").stderr
    )
    done(job, "-d", out, "--run", "two")


def test_auto_is_another_run_for_another_job_and_the_same_for_the_same(
    job: Path, out: Path
) -> None:
    done(job, "-d", out, "--run", "auto")
    before = tree(out)
    done(job, "-d", out, "--run", "auto")
    assert tree(out) == before
    write(job, _changed(workingDir="/data"))
    done(job, "-d", out, "--run", "auto")


@pytest.mark.parametrize(
    "intent",
    [scale_out("a", 5), scale_in("a", 1), scale_in("a", ["mnist-worker-0"])],
    ids=["out", "in", "in by names"],
)
def test_scaling_is_no_change_of_what_exists(
    tmp_path: Path, job: Path, out: Path, intent: Any
) -> None:
    more = write(tmp_path / "intent.yaml", intent)
    assert done(job, more, "-d", out).stderr.count("ET") == 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("flags", [(), ("--config=split=true",)], ids=["files", "split"])
def test_an_example_scales_and_renders_again_without_a_word(
    tmp_path: Path, example: Path, flags: tuple[str, ...]
) -> None:
    scalers = sorted(example.glob("scale-*.yaml"))
    inputs = [path for path in sorted(example.glob("*.yaml")) if path not in scalers]
    for count in range(len(scalers) + 1):
        result = done(*inputs, *scalers[:count], "-d", tmp_path / "out", *flags)
        assert "ET50" not in result.stderr


def test_objects_that_move_to_other_files_are_still_compared(job: Path, out: Path) -> None:
    assert "ET50" not in done(job, "-d", out, "--config=split=true").stderr
    write(job, _changed(workingDir="/data"))
    assert "ET5008" in render(job, "-d", out).stderr


def test_an_object_that_goes_or_comes_is_no_change(tmp_path: Path, job: Path, out: Path) -> None:
    other = write(tmp_path / "other.yaml", training_job("other"))
    assert "ET50" not in done(other, "-d", out).stderr


def test_immutable_field_of_an_object_outside_the_job_is_compared_too(
    tmp_path: Path, job: Path
) -> None:
    out = tmp_path / "out"

    def claim(name: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }

    volume = write(tmp_path / "pvc.yaml", claim("fast"))
    done(job, volume, "-d", out)
    write(volume, claim("slow"))
    stderr = render(job, volume, "-d", out).stderr
    message = 'data: spec.storageClassName cannot change from "fast" to "slow"'
    assert f"PersistentVolumeClaim {message}" in stderr
    assert "give it a new name; or pass --replace, and delete it" in stderr
    assert "--run" not in stderr


def test_values_of_secrets_are_not_shown(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token"},
        "immutable": True,
        "stringData": {"token": "hunter2"},
    }
    file = write(tmp_path / "secret.yaml", secret)
    done(job, file, "--config=allow-plain-secrets=true", "-d", out)
    write(file, {**secret, "stringData": {"token": "hunter3"}})
    stderr = render(job, file, "--config=allow-plain-secrets=true", "-d", out).stderr
    message = stderr.partition("error[ET5008]")[2].partition("\n")[0]
    assert "data.token cannot change" in message
    assert "hunter" not in stderr
    assert "aHVudGVy" not in stderr


def test_an_old_file_that_is_broken_or_was_never_valid_is_no_live_object(
    job: Path, out: Path
) -> None:
    workers = out / "mnist" / "91-workers.yaml"
    for text in (
        workers.read_text().replace("containers:", "containers: [", 1),
        workers.read_text().replace("restartPolicy: Never", "restartPolicy: [a, b]"),
    ):
        workers.write_text(text)
        write(job, _changed(workingDir="/data"))
        assert "internal error" not in render(job, "-d", out, "--force").stderr


def test_a_long_value_is_shown_from_where_it_differs(job: Path, out: Path) -> None:
    document = training_job(replicas=3)
    launcher(document)["template"]["spec"]["containers"][0]["command"][-1] = "tune.py"
    write(job, document)
    stderr = render(job, "-d", out).stderr
    assert '"python", "tune.py"]' in stderr
    assert stderr.count("…") == 2


def test_a_variable_that_names_all_hosts_is_one_change_of_many_pods(job: Path, out: Path) -> None:
    file = write(job.with_name("tf.yaml"), kubeflow_job("TFJob", {"Worker": 4}))
    target = out.with_name("tf")
    done(file, "-d", target)
    stderr = render(write(file, kubeflow_job("TFJob", {"Worker": 5})), "-d", target).stderr
    assert stderr.count("error[ET5008]") == 1
    assert "and 2 more" in stderr
    assert "env[TF_CONFIG]" in stderr


# Runs -------------------------------------------------------------------------------------------


def named(name: str, run: str | None = None, **fields: Any) -> dict[str, Any]:
    document = _changed(**fields)
    document["metadata"]["name"] = name
    if run:
        document["metadata"]["annotations"] = {"etcompile.dev/run": run}
    return document


def pods_of(out: Path, name: str) -> list[str]:
    text = (out / name / "91-workers.yaml").read_text()
    return [value["metadata"]["name"] for value in yaml.safe_load_all(text)]


def test_a_run_of_one_job_leaves_all_others_as_they_are(tmp_path: Path) -> None:
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    write(jobs / "a.yaml", named("a"))
    write(jobs / "b.yaml", named("b"))
    done(jobs, "-d", out)
    before = tree(out / "b")
    write(jobs / "a.yaml", named("a", "two", workingDir="/data"))
    stderr = done(jobs, "-d", out).stderr
    assert "ET5026" not in stderr
    assert pods_of(out, "a") == [f"a-two-worker-{index}" for index in range(3)]
    assert tree(out / "b") == before
    assert json.loads((out / LOCK).read_text())["settings"]["runs"] == {"a": "two"}


def test_run_id_for_all_jobs_warns_about_the_unchanged_jobs_it_replaces(tmp_path: Path) -> None:
    jobs, out = tmp_path / "jobs", tmp_path / "out"
    jobs.mkdir()
    write(jobs / "a.yaml", named("a"))
    write(jobs / "b.yaml", named("b"))
    write(jobs / "own.yaml", named("own", "mine"))
    done(jobs, "-d", out, "--run", "one")
    write(jobs / "a.yaml", named("a", workingDir="/data"))
    result = done(jobs, "-d", out, "--run", "two")
    assert "warning[ET5026]: all Pods of b are replaced" in result.stderr
    assert pods_of(out, "own")[0] == "own-mine-worker-0"
    assert "ET5026" not in done(jobs, "-d", out, "--run", "two").stderr


@pytest.mark.parametrize("run", ["Two", "a" * 17, "", "a_b"])
def test_an_id_that_no_pod_can_have_is_refused(run: str) -> None:
    document = named("a")
    document["metadata"]["annotations"] = {"etcompile.dev/run": run}
    diagnostics = etcompile.compile([document]).diagnostics
    assert [one.code for one in diagnostics if one.severity.name == "ERROR"] == ["ET2050"]
