"""The single file of a release: what packs it, and what a user does with it."""

import os
import subprocess
import sys
from pathlib import Path

import pyrage
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = "trainingjob/elastic-mnist"

pytestmark = pytest.mark.programs  # pip builds the checkout, and pex asks the package index


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory, require) -> Path:
    """The file, packed as the release does, for the Python of the tests only."""
    folder = tmp_path_factory.mktemp("single")
    pex = Path(sys.executable).parent / "pex"
    require("pex", present=pex.exists(), why="the extra `test` is not installed")
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    require("pip", present="No matching distribution" not in built.stderr, why="no package index")
    assert built.returncode == 0, built.stderr
    [wheel] = folder.glob("*.whl")
    file = folder / "made" / "etcompile"
    script = ROOT / ".github" / "release" / "single-file.sh"
    packed = subprocess.run(
        ["bash", script, wheel, file, sys.executable],
        env={
            **os.environ,
            "PATH": f"{pex.parent}:{os.environ['PATH']}",
            "PEX_ROOT": str(folder / "packing"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert packed.returncode == 0, packed.stderr
    return file


def run(file: Path, home: Path, *words: str) -> str:
    """What the file prints to somebody who has a Python, and nothing of this project."""
    python = Path(sys.base_prefix) / "bin"
    return subprocess.run(
        [file, *words],
        env={"HOME": str(home), "PATH": f"{python}:/usr/bin:/bin"},
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_it_renders_and_unpacks_itself_once(single: Path, tmp_path: Path) -> None:
    golden = (ROOT / "golden" / EXAMPLE / "2-in.yaml").read_text("utf-8")
    example = str(ROOT / "examples" / EXAMPLE)
    assert without_source(run(single, tmp_path, "render", example)) == without_source(golden)
    # The archive behind the shell's head is not opened again.
    head, _, _ = single.read_bytes().partition(b"PK\x03\x04")
    started = tmp_path / "etcompile"
    started.write_bytes(head)
    started.chmod(0o755)
    assert without_source(run(started, tmp_path, "render", example)) == without_source(golden)


def test_it_is_the_plugin_of_kubectl_by_its_name(single: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-etcompile"
    plugin.hardlink_to(single)
    assert run(plugin, tmp_path, "--help").startswith("Usage: kubectl etcompile ")


def test_it_creates_a_repository_with_a_rendered_job(single: Path, tmp_path: Path) -> None:
    run(single, tmp_path, "init", "training")
    assert (tmp_path / "training" / "out" / "prod" / "hello" / "91-workers.yaml").exists()


def test_it_encrypts_key_pairs_for_sops(single: Path, tmp_path: Path) -> None:
    recipient = pyrage.x25519.Identity.generate().to_public()
    example = str(ROOT / "examples" / EXAMPLE)
    run(single, tmp_path, "render", example, "-d", "out", "--config", f"secret=sops:{recipient}")
    [secret] = (tmp_path / "out").rglob("*secret*.yaml")
    assert "ENC[AES256_GCM," in secret.read_text("utf-8")


def without_source(text: str) -> str:
    """The text without the line that names the files it was rendered from."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("# Generated"))
