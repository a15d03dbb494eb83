"""`etcompile apply out/` applies the objects of a rendered folder as they are."""

import shutil
from pathlib import Path

from etcompile import data

MASTER = data.folder("examples") / "elasticjob" / "parameter-servers-master"
"""Its output holds the ElasticJob itself, and the definition of its kind."""


def test_output_with_a_job_document_is_applied_as_objects(run, tmp_path: Path, namespace) -> None:
    shutil.copytree(MASTER, tmp_path / "jobs")
    job = tmp_path / "jobs" / "job.yaml"
    job.write_text(job.read_text().replace("namespace: ml", f"namespace: {namespace}"))
    assert run("render", "jobs", "-d", "out").returncode == 0
    done = run("apply", "out", "--yes", "--wait", "none")
    assert done.returncode == 0, done.stderr
    again = run("diff", "out", "--against", "cluster")
    assert "to create" not in again.stdout
    assert "ElasticJob" not in again.stderr
