"""`etcompile bundle`: one archive or one image of what render writes, the same every time."""

import gzip
import hashlib
import io
import json
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from etcompile.cli.main import _etcompile as program
from etcompile.integrations.bundle import bundled
from specs import training_job

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(program, [str(one) for one in arguments], catch_exceptions=False)


@pytest.fixture
def jobs(tmp_path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "bert.yaml").write_text(yaml.safe_dump(training_job("bert")))
    return tmp_path / "jobs"


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("layout", ["jobs", "staged"])
def test_the_archive_holds_what_render_writes(layout, jobs, tmp_path):
    assert run("render", jobs, "-d", tmp_path / "out", "--layout", layout).exit_code == 0
    assert (
        run("bundle", jobs, "--archive", tmp_path / "job.tar.gz", "--layout", layout).exit_code == 0
    )
    command = ["tar", "-xzf", tmp_path / "job.tar.gz", "-C", jobs.parent / "unpacked"]
    (tmp_path / "unpacked").mkdir()
    subprocess.run(command, check=True)
    assert files_in(tmp_path / "unpacked") == files_in(tmp_path / "out")


def test_the_archive_says_nothing_of_who_made_it_and_when(jobs, tmp_path):
    assert run("bundle", jobs, "--archive", tmp_path / "job.tar.gz").exit_code == 0
    packed = (tmp_path / "job.tar.gz").read_bytes()
    assert packed[:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        entries = archive.getmembers()
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    for entry in entries:
        assert (entry.mode, entry.mtime, entry.uid, entry.gid) == (0o644, 0, 0, 0)
        assert (entry.uname, entry.gname, entry.isfile()) == ("", "", True)


def test_the_digest_is_printed_and_goes_with_the_content(jobs, tmp_path):
    first = run("bundle", jobs, "--archive", tmp_path / "a.tar.gz").stdout.strip()
    again = run("bundle", jobs, "--archive", tmp_path / "b.tar.gz").stdout.strip()
    assert first == again
    packed = (tmp_path / "a.tar.gz").read_bytes()
    assert first == f"sha256:{hashlib.sha256(packed).hexdigest()}"
    job = yaml.safe_load((jobs / "bert.yaml").read_text())
    job["spec"]["etReplicaSpecs"]["worker"]["replicas"] = 3
    (jobs / "bert.yaml").write_text(yaml.safe_dump(job))
    assert run("bundle", jobs, "--archive", tmp_path / "c.tar.gz").stdout.strip() != first


def test_standard_output_is_the_archive(jobs, tmp_path):
    run("bundle", jobs, "--archive", tmp_path / "job.tar.gz")
    found = run("bundle", jobs, "--archive", "-")
    assert found.stdout_bytes == (tmp_path / "job.tar.gz").read_bytes()


def test_a_refused_job_leaves_no_archive(jobs, tmp_path):
    (jobs / "bert.yaml").write_text("kind: TrainingJob\n")
    assert (
        run(
            "bundle", jobs, "--archive", tmp_path / "a.tar.gz", "--oci-layout", tmp_path / "i"
        ).exit_code
        == 2
    )
    assert not (tmp_path / "a.tar.gz").exists()
    assert not (tmp_path / "i").exists()


def test_an_image_does_not_take_the_place_of_a_folder_of_somebodys(jobs, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    found = run("bundle", jobs, "--oci-layout", tmp_path / "mine")
    assert found.exit_code == 2
    assert files_in(tmp_path / "mine") == {"notes": b"mine"}


def test_an_image_is_replaced_by_the_next_one(jobs, tmp_path):
    image = tmp_path / "image"
    run("bundle", jobs, "--oci-layout", image)
    first = files_in(image)
    run("bundle", jobs, "--oci-layout", image, "--split")
    run("bundle", jobs, "--oci-layout", image)
    assert files_in(image) == first
    index = json.loads(first["index.json"])
    manifest = json.loads(first[f"blobs/{index['manifests'][0]['digest'].replace(':', '/')}"])
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.flux.config.v1+json"
    [layer] = manifest["layers"]
    assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
    assert len(first) == 5


# What others make of it --------------------------------------------------------------------------


@pytest.fixture
def registry(consumer: Callable[[str], Path], tmp_path) -> Iterator[tuple[Path, str]]:
    """crane, and the address of a registry that it serves."""
    crane = consumer("crane")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    address = f"127.0.0.1:{port}"
    log = (tmp_path / "registry.log").open("wb")
    served = subprocess.Popen(
        [crane, "registry", "serve", "--address", address], stdout=log, stderr=log
    )
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield crane, address
    finally:
        served.terminate()
        served.wait()
        log.close()


def test_a_registry_takes_the_image_and_gives_the_files_back(registry, jobs, tmp_path):
    crane, address = registry
    run("render", jobs, "-d", tmp_path / "out")
    made = run(
        *("bundle", jobs, "--archive", tmp_path / "job.tar.gz", "--oci-layout", tmp_path / "image"),
        *("--source", "https://example.com/r.git", "--revision", "main@sha1:0123"),
    )
    assert made.exit_code == 0

    def ask(*words):
        return subprocess.run([crane, *words], capture_output=True, check=True).stdout

    name = f"{address}/jobs/bert:v1"
    ask("push", "--insecure", str(tmp_path / "image"), name)
    manifest = json.loads(ask("manifest", "--insecure", name))
    assert manifest["annotations"] == {
        "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
        "org.opencontainers.image.source": "https://example.com/r.git",
        "org.opencontainers.image.revision": "main@sha1:0123",
    }
    index = json.loads((tmp_path / "image" / "index.json").read_text())
    pushed = ask("digest", "--insecure", name).decode().strip()
    assert pushed == index["manifests"][0]["digest"]
    assert manifest["layers"][0]["digest"] == made.stdout.strip()
    ask("validate", "--insecure", "--remote", name)
    (tmp_path / "pulled").mkdir()
    # Which Python unpacks without a warning depends on its version.
    unpack = ["tar", "-x", "-C", str(tmp_path / "pulled")]
    subprocess.run(unpack, input=ask("export", "--insecure", name, "-"), check=True)
    assert files_in(tmp_path / "pulled") == files_in(tmp_path / "out")


def test_the_archive_is_the_same_on_every_other_machine():
    """Written down, as two of them are never at hand."""
    files = {"a/b.yaml": "kind: Pod\n" * 50, "kustomization.yaml": "resources: [a]\n"}
    packed = bundled(files)
    # No time, no system: RFC 1952 2.3. What follows is zlib's, and the tar inside is ours.
    assert packed[:10] == b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    digest = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    assert digest == "0fa83940176a305d3c5b844c19c3cef293615ff5aaf63fd5c91acec2644b8dbf"


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/../../x"])
@pytest.mark.parametrize("kind", ["v1 ConfigMap", "rbac.authorization.k8s.io/v1 ClusterRole"])
def test_no_name_of_an_object_leads_out_of_the_archive_or_the_folder(name, kind, tmp_path):
    version, _, kind = kind.partition(" ")
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": name}}
    (tmp_path / "in.yaml").write_text(yaml.safe_dump(value))
    more = ("--split", "--ignore", "ET4002", "--ignore", "ET4003")
    assert (
        run("bundle", tmp_path / "in.yaml", "--archive", tmp_path / "x.tar.gz", *more).exit_code
        == 2
    )
    assert run("render", tmp_path / "in.yaml", "-d", tmp_path / "out", *more).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["in.yaml"]


def test_the_name_of_a_file_begins_in_the_folder_whatever_the_object_is_called(tmp_path):
    value = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:x..y"},
        "rules": [],
    }
    (tmp_path / "in.yaml").write_text(yaml.safe_dump(value))
    assert (
        run("bundle", tmp_path / "in.yaml", "--archive", tmp_path / "x.tar.gz", "--split").exit_code
        == 0
    )
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        for entry in archive:
            assert entry.isreg()
            assert not entry.name.startswith(("/", "."))
            assert ".." not in Path(entry.name).parts
