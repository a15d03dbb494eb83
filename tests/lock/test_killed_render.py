"""`etcompile render -d` killed at any moment: the folder is wholly old or wholly new."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from rendering import done, render, tree, write

from specs import training_job


def _started(*arguments: object) -> int:
    """A render in a process of its own: its id."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(render(*arguments).exit_code)
        finally:
            os._exit(99)
    return child


@pytest.mark.programs  # goes by the clock
def test_a_render_that_is_killed_leaves_the_old_folder_or_the_new_one(tmp_path: Path) -> None:
    job, out = tmp_path / "job.yaml", tmp_path / "deploy" / "out"
    trees = []
    for replicas in (20, 40):
        write(job, training_job(replicas=replicas))
        done(job, "-d", tmp_path / str(replicas))
        trees.append(tree(tmp_path / str(replicas)))
    shutil.copytree(tmp_path / "20", out)
    begun = time.monotonic()
    os.waitpid(_started(job, "-d", out), 0)
    took = time.monotonic() - begun
    assert tree(out) == trees[1]
    moments = random.Random(0)
    seen = set()
    for _ in range(50):
        shutil.rmtree(out)
        shutil.copytree(tmp_path / "20", out)
        child = _started(job, "-d", out)
        time.sleep(moments.uniform(0, took))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        content = tree(out)
        assert content in trees
        seen.add(trees.index(content))
    assert 0 in seen, "no render was killed in time"
    done(job, "-d", out)
    assert tree(out) == trees[1]
    assert [path.name for path in out.parent.iterdir()] == ["out"]
