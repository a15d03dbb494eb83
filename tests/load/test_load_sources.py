"""Paths, directories, globs and standard input to documents."""

import contextlib
import errno
import io
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from etcompile.load import Limits, load


def probe(name):
    return f"apiVersion: v1\nkind: Probe\nmetadata: {{name: '{name}'}}\n"


def put(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(probe(path.name.split(".")[0].lower() or "x"))


def relative(loaded):
    return [document.relative for document in loaded.documents]


def codes(loaded):
    return [(one.code, one.location.file) for one in loaded.diagnostics]


@contextlib.contextmanager
def ordinary_user():
    """Permissions do not bind root: whoever runs this as root is somebody else meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public():
    """A folder that any user can enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_directory_gives_its_yaml_and_json_files_in_code_point_order(tmp_path):
    put(tmp_path, "b.yaml", "a/z.yml", "a/B.json", "a.yaml", "Z.yaml", "ä.yaml", "notes.txt",
        ".hidden.yaml", ".git/c.yaml", "a/.x/d.yaml", "a/sub.yaml/e.yaml")  # fmt: skip
    loaded = load([tmp_path])
    assert loaded.diagnostics == ()
    assert relative(loaded) == [
        "Z.yaml", "a/B.json", "a/sub.yaml/e.yaml", "a/z.yml", "a.yaml", "b.yaml", "ä.yaml",
    ]  # fmt: skip
    assert loaded.documents[1].file == f"{tmp_path}/a/B.json"


def test_names_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    put(tmp_path, "jobs/a.yaml", "jobs/deep/b.yaml")
    monkeypatch.chdir(tmp_path)
    near = load(["jobs", "jobs/a.yaml"])
    far = load([tmp_path / "jobs"])
    assert relative(near) == relative(far) == ["a.yaml", "deep/b.yaml"]
    assert [one.file for one in near.documents] == ["jobs/a.yaml", "jobs/deep/b.yaml"]
    assert relative(load(["jobs/deep/b.yaml"])) == ["b.yaml"]
    assert load(["./jobs/"]).documents[0].file == "./jobs/a.yaml"


def test_a_named_file_may_have_any_name(tmp_path):
    put(tmp_path, "job.txt", ".hidden")
    assert len(load([tmp_path / "job.txt", tmp_path / ".hidden"]).documents) == 2


def test_a_file_reached_twice_is_loaded_once(tmp_path):
    put(tmp_path, "d/a.yaml", "d/b.yaml")
    (tmp_path / "d/c.yaml").symlink_to("a.yaml")
    os.link(tmp_path / "d/b.yaml", tmp_path / "d/hard.yaml")
    path = tmp_path / "d/b.yaml"
    loaded = load([path, tmp_path / "d", path, f"{tmp_path}/d/*.yaml", tmp_path / "d/c.yaml"])
    assert relative(loaded) == ["b.yaml", "a.yaml"]
    assert loaded.diagnostics == ()


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("*.yaml", ["a.yaml", "b.yaml"]),
        ("[a-c].yaml", ["a.yaml", "b.yaml"]),
        ("?.json", ["c.json"]),
        ("*", ["a.yaml", "b.yaml", "c.json", "x/d.yaml", "y/e.yaml", "y/f/d.yaml"]),
        ("**/*.yaml", ["a.yaml", "b.yaml", "x/d.yaml", "y/e.yaml", "y/f/d.yaml"]),
        ("**/d.yaml", ["x/d.yaml", "y/f/d.yaml"]),
        ("**", ["a.yaml", "b.yaml", "c.json", "x/d.yaml", "y/e.yaml", "y/f/d.yaml"]),
        ("y/**/*.yaml", ["y/e.yaml", "y/f/d.yaml"]),
        ("**/f/**/*", ["y/f/d.yaml"]),
        ("*/*.yaml", ["x/d.yaml", "y/e.yaml"]),
        ("[xy]", ["x/d.yaml", "y/e.yaml", "y/f/d.yaml"]),
        ("*/", ["x/d.yaml", "y/e.yaml", "y/f/d.yaml"]),
        ("*/f", ["y/f/d.yaml"]),
        (".h*", [".h.yaml"]),
        ("readme*", ["readme.md"]),
    ],
)
def test_a_glob_gives_its_matches_in_code_point_order(tmp_path, monkeypatch, pattern, matching):
    put(tmp_path, "a.yaml", "b.yaml", "c.json", "x/d.yaml", "y/e.yaml", "y/f/d.yaml", ".h.yaml",
        "readme.md", ".git/g.yaml")  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for base in ("", "./", f"{tmp_path}/"):
        loaded = load([base + pattern])
        assert loaded.diagnostics == ()
        assert [one.file.replace("//", "/") for one in loaded.documents] == [
            base + name for name in matching
        ]


def test_a_glob_match_is_named_by_its_base_name(tmp_path):
    put(tmp_path, "x/a.yaml")
    assert relative(load([f"{tmp_path}/*/a.yaml"])) == ["a.yaml"]


def test_a_path_that_exists_is_not_a_glob(tmp_path):
    put(tmp_path, "job[1].yaml", "job1.yaml")
    assert relative(load([tmp_path / "job[1].yaml"])) == ["job[1].yaml"]


def test_missing_paths_are_reported_once_each_and_other_files_still_load(tmp_path):
    put(tmp_path, "a.yaml")
    missing = [f"{tmp_path}/no.yaml", f"{tmp_path}/*.json", f"{tmp_path}/a.yaml/b", ""]
    loaded = load([*missing, tmp_path / "a.yaml"])
    assert codes(loaded) == [("ET1002", path) for path in missing]
    assert len(loaded.documents) == 1


def test_a_bad_file_does_not_hide_the_next(tmp_path):
    put(tmp_path, "d.yaml")
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "b.yaml").write_bytes(b"name: caf\xe9\n")
    (tmp_path / "c.yaml").write_text("- 1\n")
    loaded = load([tmp_path])
    assert [code for code, _ in codes(loaded)] == ["ET1005", "ET1003", "ET1013"]
    assert relative(loaded) == ["d.yaml"]


def test_an_empty_file_is_refused_when_named_and_skipped_in_a_directory(tmp_path):
    put(tmp_path, "d/a.yaml")
    (tmp_path / "d/empty.yaml").write_text("# nothing\n")
    assert load([tmp_path / "d"]).diagnostics == ()
    assert load([f"{tmp_path}/d/*.yaml"]).diagnostics == ()
    (problem,) = load([tmp_path / "d/empty.yaml"]).diagnostics
    assert (problem.code, problem.message) == (
        "ET1011", "nothing to compile: this file holds no document",
    )  # fmt: skip


def test_comment_only_file_is_skipped_next_to_others_but_an_empty_file_is_reported(tmp_path):
    put(tmp_path, "d/a.yaml")
    notes, empty = tmp_path / "d/notes.yaml", tmp_path / "d/empty.yaml"
    notes.write_text("# nothing yet\n")
    empty.write_text("\n")
    loaded = load([tmp_path / "d/a.yaml", notes])
    assert (relative(loaded), loaded.diagnostics) == (["a.yaml"], ())
    assert codes(load([notes, notes])) == [("ET1011", str(notes))] * 2
    assert codes(load([notes, empty])) == [("ET1011", str(empty)), ("ET1011", str(notes))]
    assert codes(load([tmp_path / "d/a.yaml", notes, empty])) == [("ET1011", str(empty))]
    (tmp_path / "d/bad.yaml").write_text("a: [\n")
    assert [code for code, _ in codes(load([tmp_path / "d/bad.yaml", notes]))] == ["ET1005"]


def test_a_directory_or_glob_without_any_document_is_refused(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d/empty.yaml").write_text("---\n")
    (tmp_path / "d/kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    )
    problems = [
        codes(load([path])) for path in (tmp_path / "none", tmp_path / "d", f"{tmp_path}/d/*")
    ]
    assert [[code for code, _ in one] for one in problems] == [
        ["ET1011"], ["ET1020", "ET1011"], ["ET1020", "ET1011"],
    ]  # fmt: skip


def test_standard_input_is_read_once_and_named_by_a_dash():
    loaded = load(["-", "-"], stdin=io.BytesIO(probe("x").encode()))
    (document,) = loaded.documents
    assert (document.file, document.relative, document.name) == ("-", "-", "x")
    assert codes(load(["-"], stdin=io.BytesIO(b""))) == [("ET1011", "-")]


def test_directory_that_contains_itself_is_reported_once(tmp_path):
    put(tmp_path, "a.yaml", "x/y/b.yaml")
    (tmp_path / "x/y/up").symlink_to(tmp_path)
    loaded = load([tmp_path])
    assert codes(loaded) == [("ET1012", f"{tmp_path}/x/y/up")]
    assert relative(loaded) == ["a.yaml", "x/y/b.yaml"]


def test_links_are_followed_and_two_ways_to_a_directory_are_no_loop(tmp_path):
    put(tmp_path, "real/a.yaml")
    (tmp_path / "jobs").mkdir()
    for name in ("one", "two"):
        (tmp_path / "jobs" / name).symlink_to(tmp_path / "real")
    loaded = load([tmp_path / "jobs"])
    assert relative(loaded) == ["one/a.yaml"]
    assert loaded.diagnostics == ()


def test_a_glob_does_not_walk_in_circles(tmp_path):
    put(tmp_path, "d/a.yaml")
    for name in "xyz":
        (tmp_path / "d" / name).symlink_to(".")
    loaded = load([f"{tmp_path}/**/*.yaml"])
    assert loaded.diagnostics == ()
    assert len(loaded.documents) == 1


def test_a_very_deep_directory_is_read(tmp_path, monkeypatch):
    depth = 1500
    monkeypatch.chdir(tmp_path)
    for _ in range(depth):
        Path("d").mkdir()
        os.chdir("d")
    Path("a.yaml").write_text(probe("a"))
    os.chdir(tmp_path)
    try:
        assert [len(load([path]).documents) for path in (".", "**/a.yaml")] == [1, 1]
    finally:
        # Python's own removal gives up at this depth.
        for _ in range(depth):
            os.chdir("d")
        Path("a.yaml").unlink()
        for _ in range(depth):
            os.chdir("..")
            Path("d").rmdir()


def test_a_link_to_nowhere_is_unreadable(tmp_path):
    put(tmp_path, "a.yaml")
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    (tmp_path / "README").symlink_to("nowhere")
    loaded = load([tmp_path])
    assert codes(loaded) == [("ET1001", f"{tmp_path}/gone.yaml")]
    assert codes(load([tmp_path / "gone.yaml"])) == [("ET1001", f"{tmp_path}/gone.yaml")]
    (tmp_path / "self.yaml").symlink_to("self.yaml")
    (problem,) = load([tmp_path / "self.yaml"]).diagnostics
    assert problem.code == "ET1001"


def test_unreadable_file_and_directory_are_reported_by_name(public):
    put(public, "a.yaml", "b.yaml", "d/c.yaml")
    (public / "a.yaml").chmod(0)
    (public / "d").chmod(0)
    with ordinary_user():
        loaded = load([public])
        named = load([public / "a.yaml"])
    assert codes(loaded) == [("ET1001", f"{public}/a.yaml"), ("ET1001", f"{public}/d")]
    assert relative(loaded) == ["b.yaml"]
    assert named.diagnostics[0].message == "cannot read this file: permission denied"


def test_error_while_reading_is_reported():
    class Broken(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    (problem,) = load(["-"], stdin=Broken()).diagnostics
    assert (problem.code, problem.message) == (
        "ET1001", "cannot read this file: input/output error",
    )  # fmt: skip


def test_pipes_sockets_and_devices_are_refused_without_opening(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.yaml"))
        loaded = load([tmp_path, "/dev/zero", tmp_path / "pipe.yaml"])
    assert [(one.code, one.message) for one in loaded.diagnostics] == [
        ("ET1016", "this is a named pipe, not a file or a directory"),
        ("ET1016", "this is a socket, not a file or a directory"),
        ("ET1016", "this is a device, not a file or a directory"),
        ("ET1016", "this is a named pipe, not a file or a directory"),
    ]


def test_a_file_or_stream_over_the_limit_is_refused(tmp_path):
    limits = Limits(file_bytes=1024 * 1024)
    (tmp_path / "fits.yaml").write_bytes(probe("x").encode().ljust(1024 * 1024, b"\n"))
    (tmp_path / "big.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    assert load([tmp_path / "fits.yaml"], limits=limits).diagnostics == ()
    (problem,) = load([tmp_path / "big.yaml"], limits=limits).diagnostics
    assert (problem.code, problem.message) == ("ET1007", "this file is larger than 1 MiB")
    with Path("/dev/zero").open("rb") as endless:
        assert codes(load(["-"], stdin=endless, limits=limits)) == [("ET1007", "-")]


def test_a_name_that_is_not_utf8_can_be_printed(tmp_path):
    path = os.fsencode(tmp_path) + b"/caf\xe9.yaml"
    Path(os.fsdecode(path)).write_text("- 1\n")
    (problem,) = load([tmp_path]).diagnostics
    assert problem.location.file == f"{tmp_path}/caf\\xe9.yaml"
