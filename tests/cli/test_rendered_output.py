"""Every command knows what etcompile rendered: it skips it beside jobs, and never compiles it."""

import json
import shutil
from io import BytesIO
from pathlib import Path

import pytest
import yaml

import etcompile as package
from commandline import etcompile, git
from etcompile import Options, data
from etcompile.integrations.krm import answer
from specs import manifest, training_job

MASTER = data.folder("examples") / "elasticjob" / "parameter-servers-master"
"""Its output holds the ElasticJob itself, which DLRover's master reads."""
OVERLAY = """\
apiVersion: etcompile.dev/v1alpha1
kind: Overlay
images:
- {name: registry.example.com/ads/dlrover-criteo, newName: mirror.example.com/dlrover-criteo}
patches:
- {target: {kind: ElasticJob}, patch: {metadata: {annotations: {team: ads}}}}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """A repository of a job whose output holds a job document, with an overlay in its settings."""
    folder = tmp_path_factory.mktemp("repository")
    shutil.copytree(MASTER, folder / "jobs")
    (folder / "overlay.yaml").write_text(OVERLAY)
    (folder / "etcompile.toml").write_text('overlay = ["overlay.yaml"]\n')
    passes(folder, "render", "jobs", "-d", "out/prod")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def passes(folder: Path, *words: str, stdin: str | None = None) -> str:
    done = etcompile(*words, cwd=folder, stdin=stdin, code=0)
    assert "warning" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("check", "."),
        ("check", "jobs", "out/prod"),
        ("check", "out/prod/criteo/20-config.yaml", "jobs"),
        ("check", "**/*.yaml"),
        ("check", "--fix", "."),
        ("diff", ".", "--against", "HEAD"),
        ("diff", ".", "--against", "out/prod"),
        ("graph", "."),
        ("render", ".", "-o", "name"),
        ("render", ".", "-d", "other"),
    ],
    ids=" ".join,
)
def test_rendered_output_among_jobs_is_skipped_with_one_line(
    repository: Path, words: tuple[str]
) -> None:
    said = passes(repository, *words)
    assert said.count("out/prod: skipped, because etcompile rendered it\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("check", "out"),
        ("check", "out/prod"),
        ("check", "out/prod/criteo"),
        ("check", "out/prod/criteo/20-config.yaml"),
        ("check", "out/prod/**"),
        ("graph", "out/prod"),
        ("diff", "jobs", "--against", "out/prod"),
        ("diff", "jobs", "--against", "HEAD:out/prod"),
        ("diff", "out", "--against", "HEAD:out"),
        ("diff", "out/prod", "--against", "HEAD"),
        ("render", "out/prod", "-d", "copy"),
    ],
    ids=" ".join,
)
def test_output_is_read_as_objects(repository: Path, words: tuple[str, ...]) -> None:
    said = passes(repository, *words)
    assert "skipped" not in said
    if words[0] == "diff":
        assert "no differences; 8 unchanged" in said


def test_output_is_the_same_objects_when_it_is_read_again(repository: Path) -> None:
    first = passes(repository, "render", "jobs", "-o", "json")
    again = passes(repository, "render", "out/prod", "-o", "json")
    assert json.loads(again) == json.loads(first)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_rendered_stream_is_read_as_objects(repository: Path, form: str) -> None:
    rendered = passes(repository, "render", "jobs", "-o", form)
    assert "ok: 8 objects" in passes(repository, "check", "--config", "none", "-", stdin=rendered)


def test_a_python_program_reads_output_as_objects(repository: Path) -> None:
    compilation = package.compile([repository / "out"], Options())
    assert compilation.ok
    assert [group.name for group in compilation.groups] == [None]
    compilation = package.compile([repository / "jobs", repository / "out"], Options())
    assert [Path(folder).name for folder in compilation.outputs] == ["prod"]


def test_a_krm_function_passes_output_through(repository: Path) -> None:
    objects = json.loads(passes(repository, "render", "jobs", "-o", "json"))["items"]
    config = manifest("EtcompileTransformer", "jobs", api_version="etcompile.dev/v1alpha1")
    listed = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": objects}
    said = answer(yaml.safe_dump({**listed, "functionConfig": config}).encode(), Options())
    assert not said.refused
    assert yaml.safe_load("".join(said.texts()))["items"] == objects


def test_argo_cd_finds_no_job_in_output(repository: Path, monkeypatch) -> None:
    monkeypatch.setenv("ARGOCD_APP_PARAMETERS", "[]")
    assert passes(repository / "out" / "prod", "argocd", "discover") == ""
    assert "job.yaml" in passes(repository, "argocd", "discover")


def test_output_inside_the_inputs_is_skipped_by_later_runs(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "bert.yaml").write_text(yaml.safe_dump(training_job("bert")))
    for words in [
        ("render", "jobs", "-d", "jobs/out"),
        ("render", "jobs", "-d", "jobs/out", "--check"),
        ("check", "jobs"),
        ("diff", "jobs", "--against", "jobs/out"),
        ("render", "jobs", "-d", "elsewhere"),
        ("scale", "bert", "jobs", "--to", "3"),
    ]:
        etcompile(*words, cwd=tmp_path, code=0)


def test_named_file_in_the_folder_of_d_is_read(tmp_path: Path) -> None:
    """Without a lock, nothing says that etcompile wrote it."""
    (tmp_path / "live.json").write_text(json.dumps(training_job()))
    passes(tmp_path, "migrate", "live.json", "-d", ".")
    assert (tmp_path / "mnist.yaml").exists()


def test_other_output_is_not_rendered_when_the_last_job_has_left(tmp_path: Path) -> None:
    job = tmp_path / "jobs" / "bert.yaml"
    job.parent.mkdir()
    job.write_text(yaml.safe_dump(training_job("bert")))
    for name in ("dev", "prod"):
        etcompile("render", ".", "-d", f"out/{name}", cwd=tmp_path, code=0)
    job.unlink()
    etcompile("render", ".", "-d", "out/prod", "--config=allow-empty=true", cwd=tmp_path, code=0)
    assert [path.name for path in (tmp_path / "out" / "prod").iterdir() if path.is_dir()] == []


def test_other_objects_next_to_rendered_output_are_read_with_it(tmp_path: Path) -> None:
    (tmp_path / "bert.yaml").write_text(yaml.safe_dump(training_job("bert")))
    etcompile("render", "bert.yaml", "-d", "deploy/out", cwd=tmp_path, code=0)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    (tmp_path / "deploy" / "namespace.yaml").write_text(yaml.safe_dump(namespace))
    names = etcompile("render", "deploy", "-o", "name", cwd=tmp_path).stdout.split()
    assert "namespace/ml" in names
    assert "pod/bert-worker-0" in names


def test_a_lock_file_above_the_repository_says_nothing_about_it(tmp_path: Path) -> None:
    (tmp_path / "etcompile.lock.json").write_text("{}")
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    (repository / "bert.yaml").write_text(yaml.safe_dump(training_job("bert")))
    assert "ok: 1 job" in etcompile("check", "bert.yaml", cwd=repository).stderr
    compilation = package.compile("-", stdin=BytesIO((repository / "bert.yaml").read_bytes()))
    assert [group.name for group in compilation.groups] == ["bert"]
