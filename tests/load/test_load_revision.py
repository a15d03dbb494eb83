"""`diff --against REVISION`: links of a tree lead where they led, and nothing leads out of it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from commandline import git
from etcompile.cli.main import program
from etcompile.load.revision import RevisionError, revision, unpack


def config_map(name: str, value: str = "1") -> str:
    metadata = {"name": name, "namespace": "default"}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}
    )


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A repository with a folder, and a file of others beside it."""
    folder = tmp_path / "repository"
    (folder / "real").mkdir(parents=True)
    (folder / "jobs").mkdir()
    (folder / "real" / "a.yaml").write_text(config_map("a"))
    (folder / "jobs" / "b.yaml").write_text(config_map("b"))
    (tmp_path / "secret.yaml").write_text(config_map("secret"))
    git(folder, "init", "-q")
    monkeypatch.chdir(folder)
    return folder


def commit(repository: Path) -> None:
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "x")


def diff(*arguments: object) -> tuple[int, str]:
    words = ["diff", *map(str, arguments)]
    done = CliRunner().invoke(program, words, catch_exceptions=False)
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("jobs/link.yaml", "../real/a.yaml"),
        ("jobs/folder", "../real"),
        ("jobs/chain.yaml", "../again.yaml"),
        ("jobs/text.yaml", "../real/a.txt"),
    ],
)
@pytest.mark.parametrize("argument", ["jobs", "jobs/*", "link"])
def test_a_link_leads_where_it_led(repository, link, target, argument):
    (repository / "real" / "a.txt").write_text(config_map("text"))
    (repository / "again.yaml").symlink_to("real/a.yaml")
    (repository / link).symlink_to(target)
    commit(repository)
    path = link if argument == "link" else argument
    code, said = diff(path, "--against", "HEAD")
    assert (code, "no differences" in said) == (0, True), said
    (repository / "real" / "a.yaml").write_text(config_map("a", "2"))
    (repository / "real" / "a.txt").write_text(config_map("text", "2"))
    assert diff(path, "--against", "HEAD")[0] == 1


def test_a_folder_of_a_revision_may_be_a_link(repository):
    (repository / "linked").symlink_to("real")
    commit(repository)
    assert diff("real", "--against", "HEAD:linked")[0] == 0


@pytest.mark.parametrize("target", ["../../secret.yaml", "/etc/hostname", "../jobs/../../x"])
def test_a_link_out_of_the_repository_is_not_followed(repository, target):
    (repository / "jobs" / "link.yaml").symlink_to(target)
    commit(repository)
    code, said = diff("real", "--against", "HEAD:jobs")
    assert code == 2
    assert "'jobs/link.yaml' is a link to" in said
    assert "secret" not in said.replace("secret.yaml", "")


def test_a_link_that_nothing_is_read_through_may_lead_anywhere(repository):
    (repository / "jobs" / "notes").symlink_to("/etc/hostname")
    commit(repository)
    assert diff("jobs", "--against", "HEAD")[0] == 0


def test_symlink_to_the_folder_it_is_in_is_reported_and_not_followed_forever(repository):
    (repository / "jobs" / "loop").symlink_to(".")
    (repository / "jobs" / "self.txt").symlink_to("self.txt")
    commit(repository)
    code, said = diff("real", "--against", "HEAD:jobs")
    assert (code, "ET1012" in said) == (2, True)


@pytest.mark.parametrize("name", ["real", "jobs/../real", "real/", "./real"])
def test_a_folder_of_a_revision_is_named_from_the_top(repository, name):
    commit(repository)
    (repository / "real" / "a.yaml").write_text(config_map("a", "2"))
    assert diff("real", "--against", f"HEAD:{name}")[0] == 1


@pytest.mark.parametrize("name", ["..", "../..", "jobs/../../x", "/etc", "/", "{top}/real"])
def test_a_folder_of_a_revision_is_no_place_on_the_disk(repository, name):
    commit(repository)
    code, said = diff("real", "--against", f"HEAD:{name.format(top=repository)}")
    assert (code, "Invalid value for --against" in said) == (2, True)


def tree(repository: Path, entries: Mapping[tuple[str, str, str], bytes]) -> str:
    """A tree as no git writes it, byte by byte: mode, kind and name of each entry."""
    raw = b"".join(
        f"{mode} {name}".encode() + b"\0" + bytes.fromhex(git_object(repository, kind, content))
        for (mode, kind, name), content in entries.items()
    )
    return git_object(repository, "tree", raw)


def git_object(repository: Path, kind: str, content: bytes) -> str:
    words = ("hash-object", "-t", kind, "-w", "--literally", "--stdin")
    return git(repository, *words, input=content).strip()


FILE, LINK, FOLDER = ("100644", "blob"), ("120000", "blob"), ("40000", "tree")


@pytest.mark.parametrize(
    "entries",
    [
        {(*FILE, "../up.yaml"): b"x"},
        {(*FILE, ".."): b"x"},
        {(*FILE, "/abs.yaml"): b"x"},
        {(*LINK, "../up.yaml"): b"a.yaml"},
        {(*FILE, "a.yaml"): b"x", (*LINK, "a.yaml"): b"b.yaml"},
        {(*FILE, f"{'n' * 300}.yaml"): b"x"},
        {(*LINK, "a.yaml"): b"n" * 5000},
        {(*LINK, "a.yaml"): b"../up.yaml"},
    ],
)
def test_a_tree_that_no_git_makes_writes_nothing_elsewhere(repository, tmp_path, entries):
    written = git(repository, "commit-tree", tree(repository, entries), "-m", "x").strip()
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / "up.yaml").write_text("mine")
    before = {path.name for path in tmp_path.iterdir()}
    try:
        unpack(revision(written, repository), ["."], inner)
    except RevisionError:
        assert "long" not in str(entries)
    assert {path.name for path in (tmp_path / "outer").iterdir()} == {"inner", "up.yaml"}
    assert (tmp_path / "outer" / "up.yaml").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_file_is_not_written_through_a_link_of_the_same_tree(repository, tmp_path):
    inner = bytes.fromhex(git_object(repository, "blob", b"x"))
    below = git_object(repository, "tree", b"100644 up.yaml\0" + inner)
    link = git_object(repository, "blob", b"..")
    raw = b"120000 a\0" + bytes.fromhex(link) + b"40000 a\0" + bytes.fromhex(below)
    written = git(repository, "commit-tree", git_object(repository, "tree", raw), "-m", "x").strip()
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    with pytest.raises(RevisionError, match=r"several files|no revision"):
        unpack(revision(written, repository), ["."], tmp_path / "outer" / "inner")
    assert [path.name for path in (tmp_path / "outer").iterdir()] == ["inner"]
