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
    run("render", "jobs", "-d", "out", code=0)
    run("apply", "out", "--yes", "--wait", "none", code=0)
    again = run("diff", "out", "--against", "cluster")
    assert "to create" not in again.stdout
    assert "ElasticJob" not in again.stderr
