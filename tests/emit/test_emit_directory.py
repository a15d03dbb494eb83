import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from etcompile.emit import HEADER
from etcompile.emit import directory as replacement
from etcompile.emit.directory import write


def _ours(text: str = "") -> str:
    return f"{HEADER}\n{text}"


_OLD = {
    "kustomization.yaml": _ours("old"),
    "mnist/20-config.yaml": _ours("same"),
    "mnist/91-workers.yaml": _ours("old"),
    "gone/91-workers.yaml": _ours("old"),
}
_NEW = {
    "kustomization.yaml": _ours("new"),
    "mnist/20-config.yaml": _ours("same"),
    "mnist/91-workers.yaml": _ours("new"),
    "bert/91-workers.yaml": _ours("new"),
}


def _tree(folder: Path) -> dict[str, str]:
    """Everything in a folder by relative path: texts, targets of links, and folders."""
    tree = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            tree[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            tree[name] = "folder"
        else:
            tree[name] = path.read_text()
    return tree


def _expected(files: dict[str, str], **others: str) -> dict[str, str]:
    folders = {str(folder): "folder" for name in files for folder in Path(name).parents[:-1]}
    return dict(sorted({**folders, **files, **others}.items()))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _state(folder: Path) -> dict[str, tuple[int, int, int]]:
    paths = [folder, *folder.rglob("*")]
    stats = {str(path): path.lstat() for path in paths}
    return {name: (one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for name, one in stats.items()}


def _codes(result: object) -> list[str]:
    return [diagnostic.code for diagnostic in result.diagnostics]


def _done(directory: Path, files: dict[str, str], **more: object) -> object:
    result = write(directory, files, **more)
    assert result.diagnostics == ()
    return result


def test_new_folder_and_its_parents_are_created(tmp_path: Path) -> None:
    out = tmp_path / "deploy" / "prod" / "out"
    result = _done(out, _NEW)
    assert (result.written, result.unchanged, result.removed) == (4, 0, ())
    assert _tree(out) == _expected(_NEW)
    assert _names(out.parent) == ["out"]


def test_files_of_an_earlier_run_are_replaced_and_stale_ones_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    same = (out / "mnist/20-config.yaml").stat()
    result = _done(out, _NEW)
    assert (result.written, result.unchanged) == (3, 1)
    assert result.removed == ("gone/91-workers.yaml",)
    assert _tree(out) == _expected(_NEW)
    unchanged = (out / "mnist/20-config.yaml").stat()
    assert (unchanged.st_ino, unchanged.st_mtime_ns) == (same.st_ino, same.st_mtime_ns)
    assert unchanged.st_nlink == 1
    assert _names(tmp_path) == ["out"]


def test_a_folder_that_is_right_is_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _done(out, _NEW)
    (out / "README.md").write_text("by hand")
    before = _state(tmp_path)
    result = _done(out, _NEW)
    assert (result.written, result.unchanged, result.removed) == (0, 4, ())
    assert _state(tmp_path) == before


def test_a_file_that_is_only_stale_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _done(out, _NEW | {"more/a.yaml": _ours()})
    result = _done(out, _NEW)
    assert (result.written, result.unchanged, result.removed) == (0, 4, ("more/a.yaml",))
    assert _tree(out) == _expected(_NEW)


def test_what_others_put_there_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    (out / "README.md").write_text("by hand")
    (out / "README.md").chmod(0o600)
    (out / "gone" / "notes.txt").write_text(f"quoting {HEADER}")
    (out / "empty" / "deep").mkdir(parents=True)
    (out / "link").symlink_to("mnist/91-workers.yaml")
    (out / "dangling").symlink_to("/nowhere")
    (out / "mnist" / "private").mkdir(mode=0o700)
    (out / "mnist" / "private" / "data.bin").write_bytes(b"\x00")
    os.mkfifo(out / "pipe")
    before = {name: (out / name).lstat() for name in ("README.md", "gone/notes.txt", "pipe")}
    pipe = out / "pipe"
    result = _done(out, _NEW)
    assert result.removed == ("gone/91-workers.yaml",)
    after = {name: (out / name).lstat() for name in before}
    for name, stat in before.items():
        assert (after[name].st_ino, after[name].st_mode) == (stat.st_ino, stat.st_mode)
    assert pipe.is_fifo()
    pipe.unlink()
    assert (out / "mnist" / "private").stat().st_mode & 0o777 == 0o700
    assert _tree(out) == _expected(
        _NEW,
        **{
            "README.md": "by hand",
            "gone": "folder",
            "gone/notes.txt": f"quoting {HEADER}",
            "empty": "folder",
            "empty/deep": "folder",
            "link": "-> mnist/91-workers.yaml",
            "dangling": "-> /nowhere",
            "mnist/private": "folder",
            "mnist/private/data.bin": "\x00",
        },
    )


def test_what_others_put_there_is_copied_where_it_cannot_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    (out / "README.md").write_text("by hand")
    os.utime(out / "README.md", (1, 1))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    _done(out, _NEW)
    assert _tree(out) == _expected(_NEW, **{"README.md": "by hand"})
    assert (out / "README.md").stat().st_mtime == 1


def test_foreign_files_in_the_way_are_all_named_and_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    (out / "kustomization.yaml").write_text("resources: []\n")
    (out / "bert").write_text("a file where a folder must be")
    (out / "mnist" / "91-workers.yaml").unlink()
    (out / "mnist" / "91-workers.yaml").symlink_to("20-config.yaml")
    (out / "mnist" / "20-config.yaml").unlink()
    (out / "mnist" / "20-config.yaml").mkdir()
    before = _state(tmp_path)
    result = write(out, _NEW)
    assert _codes(result) == ["ET5001"] * 4
    named = [diagnostic.message.partition(" was")[0] for diagnostic in result.diagnostics]
    in_the_way = ("bert", "kustomization.yaml", "mnist/20-config.yaml", "mnist/91-workers.yaml")
    assert named == [str(out / name) for name in in_the_way]
    assert _state(tmp_path) == before


def test_a_folder_of_others_where_a_file_must_be_is_in_the_way(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "kustomization.yaml" / "deep").mkdir(parents=True)
    assert _codes(write(out, _NEW)) == ["ET5001"]
    (out / "kustomization.yaml" / "deep" / "notes").write_text("by hand")
    assert _codes(write(out, _NEW)) == ["ET5001"]
    (out / "kustomization.yaml" / "deep" / "notes").write_text(_ours("stale"))
    assert _done(out, _NEW).removed == ("kustomization.yaml/deep/notes",)
    assert _tree(out) == _expected(_NEW)


def test_an_empty_folder_is_used_and_keeps_its_mode(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o750)
    _done(out, _NEW)
    assert out.stat().st_mode & 0o777 == 0o750


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        _done(tmp_path / "out", _NEW)
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "out" / "mnist").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "out" / "kustomization.yaml").stat().st_mode & 0o777 == 0o640


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    _done(tmp_path / "out", _OLD)
    _done(tmp_path / "out", _NEW)
    assert (tmp_path / "out").is_symlink()
    assert _tree(tmp_path / "real") == _expected(_NEW)


@pytest.mark.parametrize("path", [".", "..", "/", "../here", "link"])
def test_the_current_directory_and_its_parents_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "link").symlink_to(".")
    monkeypatch.chdir(here)
    before = _state(tmp_path)
    result = write(Path(path), _NEW)
    assert _codes(result) == ["ET5002"]
    assert "current directory" in result.diagnostics[0].message
    assert _state(tmp_path) == before


def test_a_folder_that_holds_an_input_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "jobs").mkdir(parents=True)
    (out / "jobs" / "a.yaml").write_text("kind: TrainingJob\n")
    (out / "jobs" / "link.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    (tmp_path / "alias.yaml").symlink_to(out / "jobs" / "a.yaml")
    inputs = [out / "jobs" / "a.yaml", out, out / "jobs" / "link.yaml", tmp_path / "alias.yaml"]
    before = _state(tmp_path)
    for path in [*inputs, out / "jobs" / "*.yaml", tmp_path / "x" / ".." / "out" / "jobs"]:
        result = write(out, _NEW, inputs=[tmp_path, path])
        assert _codes(result) == ["ET5002"]
        assert str(path) in result.diagnostics[0].message
    assert _state(tmp_path) == before
    assert _codes(write(out, _NEW, inputs=[tmp_path / "outside.yaml", tmp_path])) == []


@pytest.mark.parametrize("kind", ["file", "link to a file", "link to itself"])
def test_what_is_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "link to itself":
        out.symlink_to(out)
    else:
        (tmp_path / "file").write_text("text")
        out.symlink_to("file") if kind == "link to a file" else out.write_text("text")
    before = _state(tmp_path)
    result = write(out, _NEW)
    assert _codes(result) == ["ET5002"]
    assert "not a directory" in result.diagnostics[0].message
    assert _state(tmp_path) == before


@pytest.mark.skipif(not Path("/proc").is_mount(), reason="there is no /proc to try it on")
def test_a_mount_point_is_refused_with_a_way_out() -> None:
    result = write(Path("/proc"), _NEW)
    assert _codes(result) == ["ET5002"]
    assert "/proc/manifests" in result.diagnostics[0].hint


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    for out in (tmp_path / "file" / "out", tmp_path / ("n" * 300)):
        result = write(out, _NEW)
        assert _codes(result) == ["ET5003"]
        assert str(out) in result.diagnostics[0].message
        assert ".etcompile-" not in result.diagnostics[0].message
    assert _names(tmp_path) == ["file"]


def test_a_current_directory_that_was_deleted_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    assert _codes(write(Path("out"), _NEW)) == ["ET5003"]


def test_a_full_disk_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    before = _tree(out), out.stat().st_ino, out.stat().st_mtime_ns

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = write(out, _NEW)
    assert _codes(result) == ["ET5003"]
    assert result.diagnostics[0].message == f"cannot write {out}: No space left on device"
    assert (_tree(out), out.stat().st_ino, out.stat().st_mtime_ns) == before
    assert _names(tmp_path) == ["out"]


def test_what_somebody_adds_during_the_swap_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    put_in_place = replacement.put_in_place

    def late(tree: Path, target: Path) -> Path | None:
        (out / "gone" / "late.txt").write_text("just in time")
        (out / "bert").mkdir()
        (out / "bert" / "91-workers.yaml").write_text("too late to be refused")
        return put_in_place(tree, target)

    monkeypatch.setattr(replacement, "put_in_place", late)
    _done(out, _NEW)
    late_comer = {"gone": "folder", "gone/late.txt": "just in time"}
    assert _tree(out) == _expected(_NEW, **late_comer)


# Killed runs ----------------------------------------------------------------------------------

# Renders two outputs in turn into the folder named by its argument, for ever.
_RENDER_FOR_EVER = f"""
import sys
from pathlib import Path
from etcompile.emit.directory import write
out, one, other = Path(sys.argv[1]), {_OLD!r}, {_NEW!r}
write(out, one)
print("ready", flush=True)
while True:
    for files in (other, one):
        problems = write(out, files).diagnostics
        if problems:
            sys.exit(str(problems))
"""


@contextlib.contextmanager
def _rendering(out: Path) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", _RENDER_FOR_EVER, str(out)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def _killed_at(step: int, out: Path, *, exchange: bool) -> bool:
    """Writes `_NEW` in a process that kills itself at its nth use of the system.

    Returns:
        Whether it was killed; False if it finished before.
    """
    child = os.fork()
    if child == 0:
        steps = iter(range(step))

        def die(event: str, _: object) -> None:
            watched = event == "open" or event.startswith(("os.", "shutil.", "fcntl."))
            if watched and event != "os.kill" and next(steps, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            if not exchange:
                replacement.exchange = lambda *_: False
            sys.addaudithook(die)
            os._exit(len(write(out, _NEW).diagnostics))
        finally:
            os._exit(99)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code != 0


@pytest.mark.parametrize(
    "standing",
    [pytest.param(None, id="no folder", marks=pytest.mark.programs), pytest.param(_OLD, id="old")],
)
@pytest.mark.parametrize(
    "exchange",
    [
        pytest.param(True, id="exchange"),
        pytest.param(False, id="two renames", marks=pytest.mark.programs),
    ],
)
def test_a_run_can_be_killed_at_every_single_step(
    tmp_path: Path, exchange: bool, standing: dict[str, str] | None
) -> None:
    step, seen = 0, set()
    killed = True
    while killed:
        out = tmp_path / str(step) / "out"
        out.parent.mkdir()
        if standing:
            _done(out, standing)
            (out / "README.md").write_text("by hand")
        others = {"README.md": "by hand"} if standing else {}
        killed = _killed_at(step, out, exchange=exchange)
        if out.exists():
            assert _tree(out) in [_expected(files, **others) for files in (standing or {}, _NEW)]
        else:
            # Without an exchange there is a moment in which the folder is away.
            assert not standing or not exchange
        seen.add((out / "bert").exists())
        _done(out, _NEW)
        assert _tree(out) == _expected(_NEW, **others)
        assert _names(out.parent) == ["out"]
        step += 1
    assert seen == {False, True}
    assert step > 20


def test_a_folder_that_a_killed_run_took_away_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _done(out, _OLD)
    out.rename(tmp_path / ".out.etcompile-old-0123456789abcdef")
    result = _done(out, _OLD)
    assert (result.written, result.unchanged) == (0, 4)
    assert _tree(out) == _expected(_OLD)
    assert _names(tmp_path) == ["out"]


def test_only_leftovers_of_earlier_writes_are_removed(tmp_path: Path) -> None:
    preserved = [
        ".out.etcompile-backup",
        ".out2.etcompile-new-0123456789abcdef",
        "out.etcompile-new-0123456789abcdef",
        ".out.etcompile-new-0123456789abcdef.bak",
    ]
    for name in [*preserved, ".out.etcompile-new-0123456789abcdef"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / ".out.etcompile-old-0123456789abcdef").symlink_to(preserved[0])
    _done(tmp_path / "out", _NEW)
    expected = {*preserved, "out", ".out.etcompile-old-0123456789abcdef"}
    assert set(_names(tmp_path)) == expected
    assert all((tmp_path / name / "file").exists() for name in preserved)


@pytest.fixture
def users_folder() -> Iterator[Path]:
    """A folder of a user whom permissions bind, under parents that this user may pass."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)
    shutil.rmtree(folder)


def _as_user(folder: Path, code: str) -> str:
    """Runs a program as the user to whom it gives the folder."""
    program = "import os; from pathlib import Path; from etcompile.emit.directory import write\n"
    if os.geteuid() == 0:
        nobody = 65534
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, nobody, nobody)
        program += f"os.setgid({nobody}); os.setuid({nobody})\n"
    run = subprocess.run(
        [sys.executable, "-c", program + code], capture_output=True, text=True, check=True
    )
    return run.stdout


def test_leftovers_that_are_write_protected_are_removed(users_folder: Path) -> None:
    folder = users_folder / ".out.etcompile-new-0123456789abcdef" / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    (folder / "file").chmod(0o400)
    folder.chmod(0o500)
    folder.parent.chmod(0o500)
    _as_user(users_folder, f"write(Path({str(users_folder / 'out')!r}), {_NEW!r})")
    assert _names(users_folder) == ["out"]


@pytest.mark.parametrize("mode", [0o555, 0o333])
def test_a_parent_that_cannot_be_used_is_reported(users_folder: Path, mode: int) -> None:
    out = users_folder / "out"
    users_folder.chmod(mode)
    code = f"print(write(Path({str(out)!r}), {_NEW!r}).diagnostics[0].message)"
    assert _as_user(users_folder, code) == f"cannot write {out}: Permission denied\n"


def test_a_folder_inside_that_cannot_be_read_is_named(users_folder: Path) -> None:
    out = users_folder / "out"
    _done(out, _OLD)
    (out / "secret").mkdir(mode=0o000)
    code = f"print(write(Path({str(out)!r}), {_NEW!r}).diagnostics[0].message)"
    assert _as_user(users_folder, code) == f"cannot write {out / 'secret'}: Permission denied\n"


def test_a_file_that_cannot_be_read_is_somebody_elses(users_folder: Path) -> None:
    out = users_folder / "out"
    _done(out, _OLD)
    (out / "secret").write_text(_ours())
    (out / "secret").chmod(0o000)
    _as_user(users_folder, f"write(Path({str(out)!r}), {_NEW!r})")
    assert (out / "secret").stat().st_mode & 0o777 == 0
    assert _names(out) == ["bert", "kustomization.yaml", "mnist", "secret"]


# Two runs at once -----------------------------------------------------------------------------


@pytest.mark.programs  # goes by the clock
def test_two_runs_at_once_leave_the_folder_of_one_of_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "README.md").write_text("by hand")
    with _rendering(out) as one, _rendering(out) as other:
        time.sleep(0.5)
        assert one.poll() is None
        assert other.poll() is None
    whole = [_expected(files, **{"README.md": "by hand"}) for files in (_OLD, _NEW)]
    assert _tree(out) in whole
    _done(out, _NEW)
    assert _names(tmp_path) == ["out"]


def test_a_reader_never_sees_a_mixture(tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen = set()
    with _rendering(out) as process:
        until = time.monotonic() + 300
        while len(seen) < 2 and time.monotonic() < until:
            # Open once, as the directory may be another one by the next look.
            folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
            try:
                names = os.listdir(folder)  # noqa: PTH208 - a descriptor has no path
                if os.path.samestat(os.fstat(folder), out.stat()):
                    seen.add(frozenset(names))  # else it was taken away between the two
            finally:
                os.close(folder)
        assert process.poll() is None
    tops = [frozenset(Path(name).parts[0] for name in files) for files in (_OLD, _NEW)]
    assert tops[0] != tops[1]
    assert seen == set(tops)


def _waits_for_a_lock(process: int) -> bool:
    lines = Path("/proc/locks").read_text().splitlines()
    return any(line.split()[1] == "->" and str(process) in line.split() for line in lines)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="/proc/locks says who waits")
def test_a_run_waits_for_another_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import sys; from pathlib import Path; from etcompile.emit import directory\n"
        "with directory.locked(Path(sys.argv[1])) as held:\n"
        "    print(held, flush=True); sys.stdin.readline()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program, str(out)], **pipes) as holder:
        assert holder.stdout.readline() == "True\n"
        leftover = tmp_path / ".out.etcompile-new-0123456789abcdef"
        leftover.mkdir()
        child = os.fork()
        if child == 0:
            write(out, _NEW)
            os._exit(0)
        while not _waits_for_a_lock(child):
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
        assert leftover.exists()
        assert not out.exists()
        # Not closed: the child has that end of the pipe, too.
        holder.stdin.write("\n")
        holder.stdin.flush()
        os.waitpid(child, 0)
    assert _tree(out) == _expected(_NEW)
    assert not leftover.exists()


def test_without_a_lock_nothing_is_tidied_up_but_all_else_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def unsupported(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", unsupported)
    (tmp_path / ".out.etcompile-new-0123456789abcdef").mkdir()
    _done(out, _OLD)
    out.rename(tmp_path / ".out.etcompile-old-0123456789abcdef")
    _done(out, _NEW)
    assert _tree(out) == _expected(_NEW)
    assert _names(tmp_path) == [".out.etcompile-new-0123456789abcdef", "out"]


def test_the_system_exchanges_directories_here(tmp_path: Path) -> None:
    """If this fails, the tests above did not see the exchange at work."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"was-{name}").touch()
    assert replacement.exchange(tmp_path / "a", tmp_path / "b")
    assert _names(tmp_path / "a") == ["was-b"]
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "c"))):
        replacement.exchange(tmp_path / "a", tmp_path / "c")
