"""What the tests of the secret modes share: jobs, output folders, and who can decrypt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from keyholders import Controller, Owner

from etcompile.cli.main import program
from specs import mpi_job, training_job


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.out = path / "out"
        self.jobs = path / "jobs"
        self.jobs.mkdir(parents=True)

    def job(self, document: dict[str, Any], namespace: str = "nlp") -> None:
        """Puts a document among the inputs, over that of its name."""
        document["metadata"] |= {"namespace": namespace} if namespace else {}
        file = self.jobs / f"{document['metadata']['name']}.yaml"
        file.write_text(yaml.safe_dump(document))

    def run(self, *arguments: object) -> Result:
        words = [str(one) for one in arguments]
        return CliRunner().invoke(program, words, catch_exceptions=False)

    def render(self, mode: object, *options: object) -> Result:
        return self.run("render", self.jobs, "-d", self.out, "--config", f"secret={mode}", *options)

    def rendered(self, mode: object, *options: object) -> dict[str, bytes]:
        """All files of the output folder, after a render that must succeed."""
        result = self.render(mode, *options)
        assert result.exit_code == 0, result.stderr
        return self.files()

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.out).as_posix(): path.read_bytes()
            for path in sorted(self.out.rglob("*"))
            if path.is_file()
        }

    def objects(self, kind: str) -> list[dict[str, Any]]:
        texts = [text for name, text in self.files().items() if name.endswith(".yaml")]
        documents = [one for text in texts for one in yaml.safe_load_all(text)]
        return [one for one in documents if one["kind"] == kind]

    def object(self, kind: str) -> dict[str, Any]:
        (value,) = self.objects(kind)
        return value


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    created = Folder(tmp_path)
    created.job(training_job("bert"))
    return created


@pytest.fixture
def mpi_folder(tmp_path: Path) -> Folder:
    created = Folder(tmp_path / "mpi")
    created.job(mpi_job("v2beta1", "pi"))
    return created


@pytest.fixture(scope="session")
def controller() -> Controller:
    return Controller()


@pytest.fixture
def certificate(controller: Controller, tmp_path: Path) -> Path:
    return controller.certificate(tmp_path / "cert.pem")


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture(params=["sealed", "sops"])
def recipient(request, certificate, controller, owner) -> tuple[str, Callable[[Folder], Any]]:
    """A mode that encrypts, and who decrypts the Secret in a folder."""
    if request.param == "sops":
        return f"sops:{owner.recipient}", lambda folder: owner.decrypted(folder.object("Secret"))
    return f"sealed:{certificate}", lambda it: controller.unsealed(it.object("SealedSecret"))


@pytest.fixture(params=["sealed", "sops"])
def encrypting(request, tmp_path: Path) -> Callable[[], str]:
    """`encrypting()`: a mode that encrypts, for another recipient each time."""
    numbers = iter(range(9))

    def mode() -> str:
        if request.param == "sops":
            return f"sops:{Owner().recipient}"
        return f"sealed:{Controller().certificate(tmp_path / f'{next(numbers)}.pem')}"

    return mode
