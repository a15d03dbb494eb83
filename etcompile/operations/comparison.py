"""The left side of `etcompile diff` where it is no cluster: a folder, or a Git revision."""

import os
import posixpath
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import emit
from etcompile.compiler import Compilation, Options, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, Severity, codes, diagnose
from etcompile.load.revision import Revision, RevisionError, revision, unpack
from etcompile.operations.declarations import declarations
from etcompile.overlays.overlay_files import shipped
from etcompile.plan.ignore_differences import Ignored
from etcompile.plan.planner import plan
from etcompile.plan.scope import Rights, targeted, unknown_targets
from etcompile.plan.step import Plan


class Comparison(Struct, frozen=True):
    """A plan, or why there is none.

    Args:
        plan: The plan; None if the left side cannot be read.
        diagnostics: What is wrong with it.
        refused: What `apply` would refuse, beyond the conflicts in the plan.
    """

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...] = ()
    refused: tuple[Diagnostic, ...] = ()

    def limited(self, targets: Sequence[str]) -> "Comparison":
        """The same with the named objects only.

        Args:
            targets: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME`; all objects if there are none.
        """
        if self.plan is None or not targets:
            return self
        if problems := unknown_targets(self.plan, targets):
            return Comparison(None, (*self.diagnostics, *problems))
        return structs.replace(self, plan=targeted(self.plan, targets))


def compared(
    compilation: Compilation,
    against: str,
    paths: Sequence[str],
    options: Options,
    ignored: tuple[Ignored, ...] = (),
) -> Comparison:
    """What has changed since a folder or a Git revision, as the plan that would bring it about.

    Args:
        compilation: The right side.
        against: A folder of manifests or job files; a Git revision, at which the same paths are
            compiled with the same options; or `REV:DIR`, a folder of a revision.
        paths: What was compiled.
        options: How it was compiled.
        ignored: Fields that may differ.

    Raises:
        RevisionError: `against` names nothing that there is.
    """
    if Path(against).is_dir():
        return _declared(compilation, _folder(against, options), against, ignored)
    with tempfile.TemporaryDirectory(prefix="etcompile-") as folder:
        left = _revision(against, paths, options, Path(folder))
        return _declared(compilation, left, f"revision {against}", ignored)


def _declared(
    compilation: Compilation, left: Compilation, name: str, ignored: tuple[Ignored, ...]
) -> Comparison:
    errors = tuple(
        diagnostic for diagnostic in left.diagnostics if diagnostic.severity is Severity.ERROR
    )
    if errors:
        return Comparison(None, (*errors, diagnose(codes.LEFT_SIDE, None, side=name)))
    right, whole = declarations(compilation), Rights(whole=True, ignored=ignored)
    return Comparison(plan(right, left.in_order(), emit.wave, whole, against=name))


def _folder(path: str, options: Options) -> Compilation:
    """What a folder declares: manifests as they are, and specs as they compile."""
    plain = Options(namespace=options.namespace, allow_plain_secrets=True, limits=options.limits)
    plain = structs.replace(
        plain,
        settings=structs.replace(
            plain.settings, kubernetes_version=options.settings.kubernetes_version
        ),
    )
    found = _nothing_is_nothing(compile([path], plain))
    if any(group.name for group in found.groups):
        return compile([path], options)
    return found


def _nothing_is_nothing(found: Compilation) -> Compilation:
    """A left side without objects is no mistake: then everything is new."""
    kept = tuple(
        diagnostic
        for diagnostic in found.diagnostics
        if diagnostic.code not in (codes.NO_DOCUMENTS, codes.NOTHING_RENDERED)
    )
    return structs.replace(found, diagnostics=kept)


def _revision(against: str, paths: Sequence[str], options: Options, folder: Path) -> Compilation:
    """What the same paths were at a revision, or what a folder of the revision declares."""
    name, _, inside = against.partition(":")
    of = revision(name, Path.cwd())
    if inside:
        # As git has it, from the top of the repository: never a place on the disk.
        inside = posixpath.normpath(inside)
        if posixpath.isabs(inside) or not unpack(of, [inside], folder):
            raise RevisionError(f"'{inside}' is not in {name}")
        return _placed_in(_folder(str(folder / inside), options), against, folder / inside)
    wanted = [_inside(of, path) for path in paths]
    there = unpack(of, wanted, folder)
    if not there:
        return Compilation((), ())
    options = structs.replace(
        options,
        overlays=tuple(
            overlay for overlay in map(_at(of, folder), options.overlays) if overlay is not None
        ),
        runtimes=tuple(
            given for given in map(_at(of, folder), options.runtimes) if given is not None
        ),
        templates=_templates(of, options.templates, folder),
    )
    inputs = [str(folder / path) for path in there]
    return _placed_in(_nothing_is_nothing(compile(inputs, options)), name, folder)


def _inside(of: Revision, path: str) -> str:
    if path == "-":
        raise RevisionError("standard input has no revision")
    if (found := of.within(path)) is None:
        raise RevisionError(f"{path} is not in the repository {of.top}")
    return found


def _at(of: Revision, folder: Path) -> Callable[[Any], Any]:
    """A file or folder as it was: None if it was not there; outside of the repository as it is."""

    def was(given: Any) -> Any:
        if not isinstance(given, str | os.PathLike):
            return given
        name = os.fsdecode(given)
        inside = of.within(name)
        if inside is None or (name in shipped() and not Path(name).exists()):
            return given
        return str(folder / inside) if unpack(of, [inside], folder) else None

    return was


def _templates(of: Revision, templates: Path | None, folder: Path) -> Path | None:
    inside = of.within(str(templates)) if templates else None
    if inside is None:
        return templates
    return folder / inside if unpack(of, [inside], folder, every=True) else None


def _placed_in(found: Compilation, name: str, folder: Path) -> Compilation:
    """The compilation whose diagnostics name files as git does: `main:jobs/bert.yaml`."""

    def placed(diagnostic: Diagnostic) -> Diagnostic:
        where = diagnostic.location
        if where is None or not where.file.startswith(str(folder)):
            return diagnostic
        file = f"{name}:{where.file[len(str(folder)) :].lstrip('/')}"
        return structs.replace(diagnostic, location=structs.replace(where, file=file))

    return structs.replace(found, diagnostics=tuple(map(placed, found.diagnostics)))
