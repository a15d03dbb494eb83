"""`etcompile graph`, as a person at a shell meets it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from commandline import at_a_shell, etcompile
from etcompile.cli.main import program

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))
EXAMPLE = ROOT / "examples" / "trainingjob" / "checkpoints"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_has_a_tree(example: Path) -> None:
    done = CliRunner().invoke(program, ["graph", str(example)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "wave 100" in done.stdout
    rendered = CliRunner().invoke(program, ["render", str(example)]).stdout
    # A gang that restarts in place waits for its master in the supervisor.
    gated = "/etc/etcompile/scripts/wait-for-workers.sh\n" in rendered or "gang=master" in rendered
    assert ("waits for Pod" in done.stdout) == gated


def test_a_claim_of_the_input_is_mounted() -> None:
    assert "mounts PersistentVolumeClaim checkpoints" in etcompile("graph", EXAMPLE).stdout


def test_a_flowchart_is_mermaid() -> None:
    assert etcompile("graph", EXAMPLE, "--output", "mermaid").stdout.startswith("flowchart RL\n")


def test_a_terminal_of_another_encoding_is_no_problem() -> None:
    done = at_a_shell("graph", EXAMPLE, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_deadlock_is_an_error_that_names_who_waits_for_whom(tmp_path: Path) -> None:
    for file in EXAMPLE.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    claim = tmp_path / "claim.yaml"
    late = 'annotations: {etcompile.dev/wave: "200"}'
    claim.write_text(claim.read_text().replace("metadata:", f"metadata:\n  {late}"))
    done = etcompile("graph", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[ET7001]: Pod vit-worker-0 mounts PersistentVolumeClaim checkpoints" in done.stderr


def test_input_that_render_refuses_is_refused(tmp_path: Path) -> None:
    done = etcompile("graph", tmp_path / "missing.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ET1002" in done.stderr
