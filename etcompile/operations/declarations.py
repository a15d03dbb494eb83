"""Declare what files say: both sides of `etcompile diff --against`, and what `apply` applies.

The right side is what was compiled. The left side is a folder, or a Git revision, at which the same
paths are compiled with the same options.
"""

import hashlib
import os
import posixpath
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from etcompile.compiler.choices import Options
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004
from etcompile.diagnostics import RefusedError, Severity, codes, diagnose
from etcompile.k8s.names import is_label_value
from etcompile.load.revision import RevisionError, revision, unpack
from etcompile.model import Settings
from etcompile.overlays.overlay_files import shipped
from etcompile.plan.ignore_differences import Ignored
from etcompile.plan.planner import plan
from etcompile.plan.scope import Rights, targeted, unknown_targets
from etcompile.plan.step import Declared, JobSet, Plan, reference
from etcompile.several import several


def declarations(
    compilation: Compilation,
    inventories: Mapping[str | None, str] | None = None,
    *,
    generated: bool = False,
) -> list[Declared]:
    """Return the objects of a compilation, by job.

    Args:
        inventories: The ids of the jobs' ApplySets, by title; none if None.
        generated: With what is created in the cluster only, such as key pairs.
    """
    return [
        Declared(
            job=group.title,
            objects=(*group.generated, *group.objects) if generated else group.objects,
            waits=group.waits,
            origin=", ".join(group.sources) or None,
            listed=group.listed,
            inventory=(inventories or {}).get(group.title),
            create_only=frozenset(reference(value).key for value in group.generated),
        )
        for group in compilation.groups
    ]


def compared(
    compilation: Compilation,
    against: str,
    paths: Sequence[str],
    options: Options,
    ignored: tuple[Ignored, ...] = (),
    targets: Sequence[str] = (),
) -> Plan:
    """Plan what has changed since a folder or a Git revision.

    Args:
        against: A folder of manifests or job files; a Git revision, at which the same paths are
            compiled with the same options; or `REV:DIR`, a folder of a revision.
        targets: Limit it to these objects: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME`.

    Raises:
        RevisionError: `against` is neither.
        RefusedError: what it names has errors, or a target is no object of the plan.
    """
    name, paths, targets = against, several(paths), several(targets)
    if Path(against).is_dir():
        left = _folder(against, options)
    else:
        name = f"revision {against}"
        with tempfile.TemporaryDirectory(prefix="etcompile-") as folder:
            left = _revision(against, paths, options, Path(folder))
    errors = [
        diagnostic for diagnostic in left.diagnostics if diagnostic.severity is Severity.ERROR
    ]
    if errors:
        raise RefusedError([*errors, diagnose(codes.LEFT_SIDE, None, side=name)])
    rights = Rights(between_files=True, ignored=ignored)
    proposed = plan(declarations(compilation), left.in_order(), rights, against=name)
    if unknown := unknown_targets(proposed, targets):
        raise RefusedError(unknown)
    return targeted(proposed, targets)


def _folder(path: str, options: Options) -> Compilation:
    plain = Options(
        namespace=options.namespace,
        settings=Settings(kubernetes_version=options.settings.kubernetes_version),
        allow_plain_secrets=True,
        allow_empty=True,
        limits=options.limits,
    )
    manifests = compile([path], plain)
    return compile([path], options) if any(group.name for group in manifests.groups) else manifests


def _revision(against: str, paths: Sequence[str], options: Options, folder: Path) -> Compilation:
    name, _, inside = against.partition(":")
    of = revision(name, Path.cwd())

    def then(values: Sequence[Any]) -> tuple[Any, ...]:
        """Return options as they were then: files of the repository are those of the revision."""
        result = []
        for value in values:
            path = None
            if isinstance(value, str | os.PathLike):
                file = os.fsdecode(value)
                if file not in shipped() or Path(file).exists():
                    path = of.within(file)
            if path is None:
                result.append(value)
            elif unpack(of, [path], folder):
                result.append(str(folder / path))
        return tuple(result)

    if inside:
        # As git has it, from the top of the repository: never a place on the disk.
        inside = posixpath.normpath(inside)
        if posixpath.isabs(inside) or not unpack(of, [inside], folder):
            raise RevisionError(f"'{inside}' is not in {name}")
        name, folder = against, folder / inside
        compilation = _folder(str(folder), options)
    else:
        wanted = []
        for path in paths:
            if path == "-":
                raise RevisionError("standard input has no revision")
            if (inside_of := of.within(path)) is None:
                raise RevisionError(f"{path} is not in the repository {of.top}")
            wanted.append(inside_of)
        files = unpack(of, wanted, folder)
        if not files:
            return Compilation((), ())
        exclude, templates = options.limits.exclude, options.templates
        exclude = structs.replace(exclude, folder=str(folder / (of.within(exclude.folder) or ".")))
        if templates and (inside_of := of.within(str(templates))) is not None:
            has_any = unpack(of, [inside_of], folder, every=True)
            templates = folder / inside_of if has_any else None
        options = structs.replace(
            options,
            overlays=then(options.overlays),
            runtimes=then(options.runtimes),
            templates=templates,
            limits=structs.replace(options.limits, exclude=exclude),
            allow_empty=True,
        )
        compilation = compile([str(folder / path) for path in files], options)
    diagnostics = []
    for diagnostic in compilation.diagnostics:
        # Files are named as git does: `main:jobs/bert.yaml`.
        where = diagnostic.location
        if where is not None and where.file.startswith(str(folder)):
            file = f"{name}:{where.file[len(str(folder)) :].lstrip('/')}"
            place = structs.replace(where, file=file)
            diagnostic = structs.replace(diagnostic, location=place)  # noqa: PLW2901
        diagnostics.append(diagnostic)
    return structs.replace(compilation, diagnostics=tuple(diagnostics))


# Sets of jobs -------------------------------------------------------------------------------------

_LONGEST = 50
"""Characters of the name of a set: a digest follows it in the value of a label."""
_REMOTE = re.compile(
    r"^(?:(?P<scheme>[a-z+]+)://)?(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+(?=/))?"
    r"[:/]+(?P<path>[^:/].*)$"
)


def job_set(
    paths: Sequence[str], name: str | None = None, *, repository: tuple[str, str] | None = None
) -> JobSet | None:
    """Return the set that PATHs are, or are a part of; None if nothing says whose they are.

    A folder is a set: what left it is an orphan. A single file is a part of its folder's set, and
    says nothing about the other files there. The id must be the same for every clone of a
    repository, and another one for every other repository, so it comes from the repository's name
    or the address of its Git remote, and the path in it: never from a path or a host name.

    Args:
        name: The setting `set`.
        repository: The name that the configuration file gives the repository, and its folder.

    Raises:
        ValueError: `name` cannot be the value of a label.
    """
    if name is not None:
        if not 0 < len(name) <= _LONGEST or not is_label_value(name):
            allowed = f"at most {_LONGEST} letters, digits, '-', '_' and '.'"
            raise ValueError(f"'{name}' is not a name of {allowed}")
        return JobSet(name, f"--config set={name}", f"--config set={name}")
    paths = several(paths)
    places = [Path("." if path == "-" else path).resolve() for path in paths or (".",)]
    folders = {place if place.is_dir() else place.parent for place in places}
    known = (_address(folder, repository) for folder in folders)
    addresses = sorted(address for address in known if address is not None)
    if len(addresses) != len(folders):
        return None
    names = ["/".join(filter(None, address)) for address in addresses]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", names[0].rpartition("/")[2]).strip("-")[:40].strip("-")
    text = "\n".join(names).encode(errors="surrogateescape")
    origin = ""
    if repository:  # its remote, or its first commit
        git = "git", "-C", repository[1]
        origin = normalised(command_output(*git, "remote", "get-url", "origin"))
        if not origin:
            commits = command_output(*git, "rev-list", "--max-parents=0", "HEAD")
            origin = commits.rpartition("\n")[2]
    return JobSet(
        f"{stem or 'jobs'}-{hashlib.sha256(text).hexdigest()[:10]}",
        ", ".join(names),
        addresses[0][0],
        origin,
        bool(paths) and "-" not in paths and all(place.is_dir() for place in places),
    )


def _address(folder: Path, repository: tuple[str, str] | None) -> tuple[str, str] | None:
    """Return a folder as every clone of the repository has it: `github.com/team/repo`, `jobs`."""
    if repository is not None:
        name, top = repository[0].strip("/"), repository[1]
    else:
        git = "git", "-C", str(folder)
        name = normalised(command_output(*git, "remote", "get-url", "origin"))
        top = command_output(*git, "rev-parse", "--show-toplevel") if name else ""
    if not name or not top:
        return None
    inside = os.path.relpath(folder, Path(top).resolve())
    return name, "" if inside == "." else inside


def normalised(remote: str) -> str:
    """Return a remote's address without what differs between clones: `github.com/team/repo`.

    That is the scheme, the user, the port, an alias of ssh's configuration, and the case.
    """
    match = _REMOTE.match(remote.rstrip("/").removesuffix(".git"))
    local = "://" not in remote and ":" not in remote.partition("/")[0]
    if match is None or local or remote.startswith("file:"):
        return ""
    host = match["host"]
    if match["scheme"] in (None, "ssh", "git+ssh") and not host.startswith("-"):
        lines = command_output("ssh", "-G", host).splitlines()
        host = next((line[9:] for line in lines if line.startswith("hostname ")), host)
    return f"{host}/{match['path'].lstrip('/')}".lower()


def command_output(*command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - arguments of our own
            command, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""
