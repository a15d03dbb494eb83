"""What `etcompile init` makes is sound as it stands: its own checks, CI's and pre-commit's pass."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from commandline import etcompile
from etcompile import data, frontends
from etcompile.check.json_schemas import bundled_schema

TOOLS = ("argocd", "flux", "none")
COMMON = {
    ".github/CODEOWNERS",
    ".github/workflows/etcompile.yaml",
    ".pre-commit-config.yaml",
    "README.md",
    "etcompile.toml",
    "jobs/hello.yaml",
    "overlays/prod/overlay.yaml",
}
RENDERED = {
    "out/prod/etcompile.lock.json",
    "out/prod/kustomization.yaml",
    "out/prod/hello/kustomization.yaml",
    "out/prod/hello/20-config.yaml",
    "out/prod/hello/91-workers.yaml",
}
OF_TOOL = {"argocd": {"argocd/application.yaml"}, "flux": {"flux/training.yaml"}, "none": set()}


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


@pytest.fixture(scope="module", params=TOOLS)
def scaffolded(request, tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param) / "Training Jobs"
    etcompile("init", str(folder), "--gitops", request.param, cwd=folder.parent, code=0)
    return request.param, folder


def passes(line: str, folder: Path) -> None:
    words = shlex.split(line)
    assert words[0] == "etcompile"
    etcompile(*words[1:], cwd=folder, code=0)


def test_it_makes_these_files(scaffolded):
    tool, folder = scaffolded
    assert set(files(folder)) == COMMON | RENDERED | OF_TOOL[tool]


def test_what_ci_runs_passes_at_once(scaffolded):
    _, folder = scaffolded
    workflow = yaml.safe_load((folder / ".github/workflows/etcompile.yaml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["rendered"]["steps"] if "run" in step]
    ours = [step for step in steps if step.startswith("etcompile ")]
    assert [shlex.split(step)[1] for step in ours] == ["check", "diff", "render"]
    assert "--check" in ours[-1]
    for step in ours:
        if "$GITHUB_BASE_REF" not in step:  # of pull requests; see test_pull_request.py
            passes(step, folder)


def test_what_pre_commit_runs_passes_at_once(scaffolded):
    _, folder = scaffolded
    config = yaml.safe_load((folder / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert [hook["id"] for hook in hooks] == ["etcompile-check", "etcompile-render"]
    for hook in hooks:
        passes(hook["entry"], folder)
        assert re.search(hook["files"], "jobs/hello.yaml")


def test_an_edit_that_was_not_rendered_fails_ci(scaffolded, tmp_path):
    _, folder = scaffolded
    subprocess.run(["cp", "-r", f"{folder}/.", tmp_path], check=True)
    job = tmp_path / "jobs/hello.yaml"
    job.write_text(job.read_text().replace("replicas: 2", "replicas: 3"))
    workflow = yaml.safe_load((tmp_path / ".github/workflows/etcompile.yaml").read_text())
    last = workflow["jobs"]["rendered"]["steps"][-1]["run"]
    etcompile(*shlex.split(last)[1:], cwd=tmp_path, code=1)


def test_the_commands_of_its_readme_work(scaffolded, tmp_path):
    _, folder = scaffolded
    subprocess.run(["cp", "-r", f"{folder}/.", tmp_path], check=True)
    readme = (tmp_path / "README.md").read_text()
    [block] = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    ours = [line for line in block.splitlines() if line.startswith("etcompile ")]
    offline = re.findall(r"`(etcompile scale [^`]*)`", readme)
    assert ours
    assert offline
    for line in (*ours, *offline):
        passes(line, tmp_path)


def test_the_last_job_can_leave_as_its_readme_says(scaffolded, tmp_path):
    _, folder = scaffolded
    subprocess.run(["cp", "-r", f"{folder}/.", tmp_path], check=True)
    for job in (tmp_path / "jobs").iterdir():
        job.unlink()
    (tmp_path / "jobs" / ".gitkeep").touch()
    [block] = re.findall(r"```sh\n(.*?)```", (tmp_path / "README.md").read_text(), re.DOTALL)
    check, render = (line for line in block.splitlines() if line.startswith("etcompile "))
    refused = etcompile(*shlex.split(render)[1:], cwd=tmp_path, code=2)
    assert "allow-empty" in refused.stderr
    with (tmp_path / "etcompile.toml").open("a") as file:
        file.write("allow-empty = true\n")
    passes(check, tmp_path)
    passes(render, tmp_path)
    left = yaml.safe_load((tmp_path / "out/prod/kustomization.yaml").read_text())
    assert left["resources"] == []
    assert [path.name for path in (tmp_path / "out/prod").iterdir() if path.is_dir()] == []


def test_every_file_that_takes_comments_has_one(scaffolded):
    _, folder = scaffolded
    for path, text in files(folder).items():
        if path.endswith((".yaml", "CODEOWNERS")):
            assert b"# " in text, path


def test_editors_find_the_schemas(scaffolded):
    _, folder = scaffolded
    named = {}
    for path in ("jobs/hello.yaml", "overlays/prod/overlay.yaml"):
        first = (folder / path).read_text().splitlines()[0]
        named[path] = first.removeprefix("# yaml-language-server: $schema=")
    [kind] = [one for one in frontends.kinds() if one.name == "PyTorchJob"]
    assert named["jobs/hello.yaml"] == bundled_schema(kind.schema)["$id"]
    overlay = json.loads((data.folder("schemas") / "Overlay.json").read_text())
    assert named["overlays/prod/overlay.yaml"] == overlay["$id"]


def test_every_path_in_codeowners_exists(scaffolded):
    tool, folder = scaffolded
    lines = (folder / ".github/CODEOWNERS").read_text().splitlines()
    owned = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert all((folder / path.strip("/")).is_dir() for path in owned)
    assert (f"/{tool}/" in owned) is (tool != "none")


def test_the_output_is_annotated_for_the_tool(scaffolded):
    tool, folder = scaffolded
    rendered = b"".join(text for path, text in files(folder).items() if path in RENDERED)
    assert (b"argocd.argoproj.io/sync-wave" in rendered) is (tool == "argocd")
    assert b"profiles" in rendered or tool == "none"


def test_argo_cd_application_points_to_the_output_folder(tmp_path):
    url = "https://git.example.com/t.git"
    words = ("--gitops", "argocd", "--repository", url, "--name", "t", "-n", "nlp")
    etcompile("init", ".", *words, cwd=tmp_path, code=0)
    application = yaml.safe_load((tmp_path / "argocd/application.yaml").read_text())
    source = application["spec"]["source"]
    assert source == {"repoURL": url, "targetRevision": "main", "path": "out/prod"}
    assert application["spec"]["destination"]["namespace"] == "nlp"
    overlay = yaml.safe_load((tmp_path / "overlays/prod/overlay.yaml").read_text())
    assert overlay["namespace"] == "nlp"


def test_flux_kustomization_points_to_the_output_folder(tmp_path):
    url = "https://git.example.com/t.git"
    words = ("--gitops", "flux", "--repository", url, "--name", "t")
    etcompile("init", ".", *words, cwd=tmp_path, code=0)
    text = (tmp_path / "flux/training.yaml").read_text()
    by_kind = {one["kind"]: one for one in yaml.safe_load_all(text)}
    spec = by_kind["Kustomization"]["spec"]
    wanted = {"prune": True, "wait": False, "force": False, "timeout": "5m", "path": "./out/prod"}
    assert {key: spec[key] for key in wanted} == wanted
    assert spec["sourceRef"] == {"kind": "GitRepository", "name": "t"}
    assert by_kind["GitRepository"]["spec"]["url"] == url
    assert by_kind["Namespace"]["metadata"]["name"] == "training"


def test_the_repository_is_the_remote_origin_without_anybodys_token(tmp_path):
    url = "https://somebody:token@git.example.com/team/x.git"
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", url], check=True)
    etcompile("init", "--gitops", "argocd", cwd=tmp_path, code=0)
    text = (tmp_path / "argocd/application.yaml").read_text()
    assert "repoURL: https://git.example.com/team/x.git\n" in text
    assert not [path for path, text in files(tmp_path).items() if b"token@" in text]


# ---- what is there stays -------------------------------------------------------------------------


def test_what_is_there_stays_and_the_rest_is_added(tmp_path):
    (tmp_path / "README.md").write_text("mine\n")
    done = etcompile("init", cwd=tmp_path, code=0)
    assert "kept  README.md" in done.stderr
    assert set(files(tmp_path)) == COMMON | RENDERED
    assert (tmp_path / "README.md").read_text() == "mine\n"


def test_twice_is_as_once(tmp_path):
    etcompile("init", cwd=tmp_path, code=0)
    before = files(tmp_path)
    etcompile("init", cwd=tmp_path, code=0)
    assert files(tmp_path) == before


@pytest.mark.parametrize("way", ["file", "nowhere"])
def test_what_stands_where_a_folder_should_be_is_in_the_way(tmp_path, way):
    if way == "file":
        (tmp_path / "overlays").write_text("mine\n")
    else:
        (tmp_path / "overlays").symlink_to("/no/such")
    done = etcompile("init", cwd=tmp_path, code=2)
    assert "overlays" in done.stderr
    assert ("ET5003" if way == "file" else "ET5023") in done.stderr


def test_unwritable_folder_is_reported(tmp_path):
    done = etcompile("init", "/proc/nothing/here", cwd=tmp_path, code=2)
    assert "ET5003" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--gitops", "kapp"),
        ("-n", "Not A Namespace"),
        ("--kubernetes-version", "1.2"),
        ("--name", "-"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path, words):
    etcompile("init", *words, cwd=tmp_path, code=2)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("version", ["1.34", "v1.34", "1.34.4", "v1.34.4"])
def test_a_version_may_be_written_as_for_render(tmp_path, version):
    etcompile("init", "--kubernetes-version", version, cwd=tmp_path, code=0)
    script = "\n".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "1.34" in script
    assert "1.34.4" not in script
    assert "v1.34" not in script


def test_template_folders_are_the_expected_ones():
    folders = {path.name for path in data.folder("templates").iterdir() if path.is_dir()}
    # Python keeps its code there when it runs the build hook.
    folders -= {"__pycache__"}
    assert folders == {"argocd", "flux", "migrate", "pages", "policies", "repository", "watcher"}


def test_configuration_without_the_environment_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "etcompile.toml").write_text('kubernetes-version = "1.35"\n')
    done = etcompile("init", ".", cwd=tmp_path, code=2)
    assert "ET1053" in done.stderr
    assert [*files(tmp_path)] == ["etcompile.toml"]
    added = re.search(r"add (overlay = .*) in a table (\[.*\])", done.stderr)
    assert added
    with (tmp_path / "etcompile.toml").open("a") as file:
        file.write(f"{added[2]}\n{added[1]}\n")
    etcompile("init", ".", cwd=tmp_path, code=0)
