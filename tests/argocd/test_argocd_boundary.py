"""The plugin and the KRM function read nothing outside of the repository, by whichever door.

Whoever can write to the repository is not who owns the machine that renders it.
"""

import json
import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from etcompile.cli import argocd, krm, render
from specs import manifest, overlay, training_job

SECRET = "hunter2-in-the-file"
HOSTS = "discover_hosts.sh.j2"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with a job in `jobs`, in which a render runs, and a secret beside the clone."""
    repo = tmp_path / "repo"
    (repo / "jobs").mkdir(parents=True)
    (repo / ".git").mkdir()
    (repo / ".git" / "config").write_text(f"url: {SECRET}\n")
    write(repo / "jobs" / "bert.yaml", training_job("bert"))
    (tmp_path / "secret.yaml").write_text(f"root: {SECRET}\n{SECRET}\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / HOSTS).write_text(SECRET)
    (tmp_path / "outside" / "overlay.yaml").write_text(SECRET)
    monkeypatch.chdir(repo)
    for name in [name for name in os.environ if name.startswith(("ARGOCD_", "KUBE_"))]:
        monkeypatch.delenv(name)
    return repo


def write(path: Path, *values: object) -> None:
    path.write_text(yaml.safe_dump_all(values))


def generated(*words: str, **variables: str) -> str:
    """What the plugin says where it refuses; nothing of the secret is in it."""
    done = CliRunner().invoke(argocd.command, ["generate", *words], env=variables)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert SECRET not in done.output
    return done.stderr


def transformed(config: dict[str, object]) -> str:
    """What the KRM function says where it refuses, results and all."""
    listed = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": []}
    text = yaml.safe_dump({**listed, "functionConfig": config})
    done = CliRunner().invoke(krm.command, [], input=text)
    assert done.exit_code == 2, done.output
    assert SECRET not in done.output
    return done.stderr


def generator(**spec: object) -> dict[str, object]:
    version, spec = "etcompile.dev/v1alpha1", {"inputs": ["jobs"], **spec}
    return manifest("EtcompileGenerator", "g", api_version=version, spec=spec)


OUTSIDE = ["../secret.yaml", "/etc/passwd", "/proc/self/environ", "/dev/zero", ".git/config"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("mode", ["csi", "sealed"])
def test_a_secret_mode_of_an_overlay_reads_nothing_outside(repository, mode, path):
    name = path if "/" in path else f"./{path}"
    write(repository / "overlay.yaml", overlay(settings={"secret": f"{mode}:{name}"}))
    assert "error[ET1033]" in generated("jobs", "--overlay", "overlay.yaml")
    assert "overlay.yaml:" in generated("jobs", "--overlay", "overlay.yaml")
    assert "error[ET1033]" in transformed(generator(overlays=["overlay.yaml"]))
    assert "error[ET1033]" in transformed(generator(settings={"secret": f"{mode}:{name}"}))


LINKS = {
    "an input": ("jobs/link.yaml", "../../secret.yaml", {}),
    "a folder of inputs": ("jobs/more", "../../outside", {}),
    "an input by its name": ("link.yaml", "../secret.yaml", {"inputs": ["link.yaml"]}),
    "a glob": ("jobs/l.yaml", "../../secret.yaml", {"inputs": ["jobs/*.yaml"]}),
    "an overlay": ("o.yaml", "../secret.yaml", {"overlays": ["o.yaml"]}),
    "a folder of an overlay": ("o", "../outside", {"overlays": ["o"]}),
    "an overlay in a folder": ("o/overlay.yaml", "../../secret.yaml", {"overlays": ["o"]}),
    "a kustomization": ("o/kustomization.yaml", "../../secret.yaml", {"overlays": ["o"]}),
    "the configuration of git": ("jobs/git.yaml", "../.git/config", {}),
    "an overlay in the folder of git": ("o.yaml", ".git/config", {"overlays": ["o.yaml"]}),
    "templates": ("t", "../outside", {"templates": "t"}),
    "a template": (f"t/{HOSTS}", f"../../outside/{HOSTS}", {"templates": "t"}),
}


@pytest.mark.parametrize(("link", "target", "spec"), LINKS.values(), ids=LINKS)
def test_a_link_leads_nowhere_outside(repository, link, target, spec):
    (repository / link).parent.mkdir(exist_ok=True)
    (repository / link).symlink_to(target)
    assert "leads out of" in transformed(generator(**spec))
    words = [*spec.get("inputs", ["jobs"]), *(f"--overlay={o}" for o in spec.get("overlays", ()))]
    words += [f"--config=templates={spec['templates']}"] if "templates" in spec else []
    # Also where the installation names it, which knows nothing of links in a repository.
    assert "leads out of" in generated(*words)
    named = [{"name": "paths", "array": spec.get("inputs", ["jobs"])}]
    named += [{"name": "overlay", "array": spec["overlays"]}] if "overlays" in spec else []
    if "templates" not in spec:  # which an Application does not name
        said = generated(ARGOCD_APP_PARAMETERS=json.dumps(named))
        assert "leads out of" in said or "is not in the repository" in said


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_a_function_config_names_is_inside(repository, path):
    for spec in ({"inputs": [path]}, {"overlays": [path]}, {"templates": path}):
        assert "error[ET1033]" in transformed(generator(**spec))


def test_what_the_installation_names_itself_is_read(repository, tmp_path):
    file = tmp_path / "outside" / "overlay.yaml"
    write(file, overlay(labels=[{"pairs": {"cluster": "west"}}]))
    done = CliRunner().invoke(argocd.command, ["generate", "jobs", "--overlay", str(file)])
    assert done.exit_code == 0, done.output
    assert "cluster: west" in done.stdout


def test_an_overlay_on_a_workstation_names_any_file_but_shows_nothing_of_it(repository):
    for text in (f"root:x:{SECRET}\n", f"{SECRET}: [", f"kind: {SECRET}\napiVersion: v1\n", "\x00"):
        (repository.parent / "secret.yaml").write_text(text)
        write(repository / "overlay.yaml", overlay(settings={"secret": "csi:../secret.yaml"}))
        done = CliRunner().invoke(render.command, ["jobs", "--overlay", "overlay.yaml"])
        assert done.exit_code == 2
        assert "error[ET5016]" in done.stderr
        assert "overlay.yaml:" in done.stderr
        assert SECRET not in done.output
