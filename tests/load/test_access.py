"""What may be opened: one function decides it, and every reader asks that one."""

import ast
import contextlib
import os
import socket
from pathlib import Path

import pytest

from etcompile.load import Boundary, access

PACKAGE = Path(access.__file__).parents[1]

DIRECT_READERS = {
    "load/access.py": "it is the one function",
    # Files of the package itself, beside its code.
    "check/json_schemas.py": "reads our schemas",
    "check/kubernetes.py": "reads our schemas",
    "k8s/validation/engine.py": "reads our rules of the API server",
    "frontends/__init__.py": "reads our table of older API versions",
    "backend/texts.py": "compares the templates that we ship",
    "diagnostics/catalogue.py": "reads the texts of diagnostics",
    "k8s/defaults.py": "reads our rules about updates",
    "causes/causes.py": "reads the texts that name causes",
    "compiler/runtime_merge.py": "reads the runtimes that we ship",
    "data.py": "reads our schema of settings, which describes them",
    # What is written, and looked at before that: no input, and links in it are not followed.
    "emit/directory.py": "writes the output folder, and puts it in its place",
    "emit/files.py": "writes every other file that the user named",
    "emit/output_state.py": "looks at what the output folder holds; enters no link",
    "load/revision.py": "writes git's files to a folder of its own",
    "integrations/migrate/migration.py": "looks whether the files of a hand-over were edited",
    "cli/render.py": "shows how the output folder differs",
    # The user's own access to a cluster, which no repository can name.
    "kubeapi/authentication.py": "reads the token that the kubeconfig names",
    "kubeapi/kubeconfig.py": "reads the kubeconfig, its certificates and the own Pod's account",
    "kubeapi/transport.py": "hands certificates to the TLS library",
    # The process itself.
    "backend/jinja.py": "reads how much memory the process has",
    "cli/main.py": "opens the null device for a closed pipe",
    # What is shipped with etcompile.
    "integrations/watcher_manifests.py": "reads the dashboard and kustomizations that are shipped",
    "cli/argocd.py": "prints the plugin.yaml that is shipped",
    "integrations/argocd_plugin.py": "reads the plugin.yaml that is shipped",
    "rollout/inventory.py": "reads which boot of the machine this is",
}
"""Modules that open files without asking, each with why it may."""

OPENERS = {"open", "open_file", "read_text", "read_bytes", "write_text", "write_bytes", "fdopen"}


def opens(file: Path) -> bool:
    """Whether a module opens files by itself."""
    text = file.read_text("utf-8")
    if not any(f"{name}(" in text for name in OPENERS):
        return False
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            return True
        if isinstance(function, ast.Attribute) and function.attr in OPENERS:
            owner = function.value
            # An archive or a stream in memory is no file.
            if not (isinstance(owner, ast.Name) and owner.id in ("tarfile", "click", "access")):
                return True
            if owner.id == "click":
                return True
    return False


def test_every_module_that_opens_files_by_itself_is_known_with_its_reason():
    readers = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if opens(file)}
    assert readers == DIRECT_READERS.keys()


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A repository `repo` with a file, and a secret beside it."""
    (tmp_path / "repo" / "jobs").mkdir(parents=True)
    (tmp_path / "repo" / "jobs" / "a.yaml").write_text("inside")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".git" / "config").write_text("url = https://me:token@example.com")
    (tmp_path / "repository-of-others").mkdir()
    (tmp_path / "repository-of-others" / "a.yaml").write_text("secret")
    (tmp_path / "secret.yaml").write_text("secret")
    return tmp_path


def links(world: Path) -> dict[str, str]:
    """Ways out of the repository, each by its name."""
    repo = world / "repo"
    (repo / "file.yaml").symlink_to(world / "secret.yaml")
    (repo / "relative.yaml").symlink_to("../secret.yaml")
    (repo / "chain.yaml").symlink_to("file.yaml")
    (repo / "folder").symlink_to(world)
    (repo / "jobs" / "up").symlink_to("../..")
    return {
        "a link to a file": str(repo / "file.yaml"),
        "a relative link": str(repo / "relative.yaml"),
        "a link to a link": str(repo / "chain.yaml"),
        "through a link to a folder": str(repo / "folder" / "secret.yaml"),
        "up by a link": str(repo / "jobs" / "up" / "secret.yaml"),
        "up by its name": str(repo / ".." / "secret.yaml"),
        "an absolute name": str(world / "secret.yaml"),
        "a folder of a similar name": str(world / "repository-of-others" / "a.yaml"),
        "the repository's own configuration": str(repo / ".git" / "config"),
        "the environment of the process": "/proc/self/environ",
        "the root of the process": "/proc/self/root/etc/hostname",
        "a device": "/dev/zero",
        "a file that is not there": str(world / "nothing.yaml"),
    }


def test_nothing_outside_of_the_boundary_is_opened(world):
    boundary = Boundary(str(world / "repo"))
    for way, path in links(world).items():
        for read in (access.content, access.status, access.names):
            with contextlib.suppress(access.OutsideError):
                read(path, boundary)
                pytest.fail(f"{way} is open")


def test_what_is_inside_is_opened_however_it_is_named(world):
    repo = world / "repo"
    (repo / "link.yaml").symlink_to("jobs/a.yaml")
    (repo / "again").symlink_to(repo / "jobs")
    (world / "other-name").symlink_to(repo)
    for boundary in (Boundary(str(repo)), Boundary(str(world / "other-name"))):
        for path in ("jobs/a.yaml", "link.yaml", "again/a.yaml", "jobs/../jobs/a.yaml"):
            assert access.content(str(repo / path), boundary) == b"inside"
            assert access.content(str(world / "other-name" / path), boundary) == b"inside"
        assert access.names(str(repo / "again"), boundary) == ["a.yaml"]


def test_who_runs_the_program_may_name_files_elsewhere(world):
    boundary = Boundary(str(world / "repo"), (str(world / "secret.yaml"),))
    assert access.content(str(world / "secret.yaml"), boundary) == b"secret"
    with pytest.raises(access.OutsideError):
        access.content(str(world / "repository-of-others" / "a.yaml"), boundary)


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
def test_a_link_that_is_put_there_after_the_decision_is_not_followed(world, monkeypatch, is_folder):
    repo = world / "repo"
    decide = access.resolved

    def swapped(path, within):
        decision = decide(path, within)
        (repo / "jobs" / "a.yaml").unlink()
        if is_folder:
            (repo / "jobs").rmdir()
            (repo / "jobs").symlink_to(world / "repository-of-others")
        else:
            (repo / "jobs" / "a.yaml").symlink_to(world / "secret.yaml")
        return decision

    monkeypatch.setattr(access, "resolved", swapped)
    with pytest.raises(access.OutsideError):
        access.content(str(repo / "jobs" / "a.yaml"), Boundary(str(repo)))


@pytest.mark.parametrize("bounded", [True, False])
def test_only_regular_files_are_opened(world, bounded):
    boundary = Boundary(str(world / "repo")) if bounded else None
    repo = world / "repo"
    os.mkfifo(repo / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(repo)  # the name of a socket is short
            listener.bind("socket.yaml")
        kinds = {}
        for name in ("pipe.yaml", "socket.yaml", "jobs"):
            with pytest.raises(access.SpecialFileError) as caught:
                access.content(str(repo / name), boundary)
            kinds[name] = caught.value.what
    assert kinds == {"pipe.yaml": "a named pipe", "socket.yaml": "a socket", "jobs": "a folder"}


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices_are_no_input_anywhere(path):
    with pytest.raises(access.SpecialFileError):
        access.content(path)


WRITERS = {
    "emit/directory.py": "replaces the output folder as a whole",
    "emit/files.py": "is the one module that writes other files",
    "load/revision.py": "writes git's files to a folder of its own",
    "kubeapi/transport.py": "hands certificates to the TLS library in a folder of its own",
}
CHANGES = {
    *("write_text", "write_bytes", "unlink", "rmdir", "rmtree", "mkdir", "makedirs", "touch"),
    *("symlink_to", "hardlink_to", "rename", "removedirs", "open_file"),
}


def test_every_module_that_changes_files_is_known_with_its_reason():
    writers = set()
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text("utf-8")
        if not any(f".{name}(" in text for name in CHANGES):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                writers |= {str(file.relative_to(PACKAGE))} if node.func.attr in CHANGES else set()
    assert writers == WRITERS.keys()
