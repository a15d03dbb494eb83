"""The left side of `etcompile diff`: what is there now, in a cluster, a folder or a revision."""

import os
import posixpath
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from etcompile import emit
from etcompile.cli.cluster_options import rights
from etcompile.cli.declarations import declarations
from etcompile.cli.targets import not_found
from etcompile.compiler import Compilation, Options, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, Severity, codes, diagnose
from etcompile.load.revision import Revision, RevisionError, revision, unpack
from etcompile.overlays.files import shipped
from etcompile.plan.planning import plan
from etcompile.plan.rights import Rights
from etcompile.plan.step import Plan
from etcompile.plan.targeting import targeted

if TYPE_CHECKING:
    from etcompile.cli.diff import DiffOptions


class Outcome(Struct, frozen=True):
    """A plan, or why there is none.

    Args:
        plan: The plan; None if the left side cannot be read.
        diagnostics: What is wrong with it.
    """

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...] = ()


def compared(compilation: Compilation, options: Options, given: "DiffOptions") -> Outcome:
    """The plan against what `--against` names.

    Args:
        compilation: The right side.
        options: How it was compiled.
        given: The command line's options.

    Raises:
        click.BadParameter: `--against` names nothing that there is.
    """
    against = given.against
    if against == "cluster":
        return _limited(_cluster(compilation, rights(given.rights), given), given.rights.targets)
    if Path(against).is_dir():
        left = _folder(against, options)
        found = _declared(compilation, left, against, rights(given.rights))
        return _limited(found, given.rights.targets)
    with tempfile.TemporaryDirectory(prefix="etcompile-") as folder:
        try:
            left = _revision(against, given.paths, options, Path(folder))
        except RevisionError as error:
            problem = f"{error}; it takes cluster, a folder, a revision, or REVISION:FOLDER"
            raise click.BadParameter(problem, param_hint="--against") from error
        found = _declared(compilation, left, f"revision {against}", rights(given.rights))
        return _limited(found, given.rights.targets)


def _limited(outcome: Outcome, targets: Sequence[str]) -> Outcome:
    """The outcome with the named objects only."""
    if outcome.plan is None or not targets:
        return outcome
    if problems := not_found(outcome.plan, targets):
        return Outcome(None, (*outcome.diagnostics, *problems))
    return structs.replace(outcome, plan=targeted(outcome.plan, targets))


def _cluster(compilation: Compilation, rights: Rights, given: "DiffOptions") -> Outcome:
    from etcompile.cli.job_sets import job_set
    from etcompile.cli.planned import planned
    from etcompile.kubeapi import ClusterError
    from etcompile.rollout.preflight import unusable_namespaces

    try:
        with given.connection.connect(given.namespace) as cluster:
            found = job_set(given.paths, given.set_name, cluster.namespace)
            made = planned(compilation, cluster, rights, job_set=found)
            unusable = [
                diagnose(
                    codes.UNUSABLE_NAMESPACE,
                    None,
                    namespace=one.ref.name,
                    problem=one.reasons[0].removeprefix("it "),
                    advice=one.hint,
                )
                for one in unusable_namespaces(cluster, made.plan)
            ]
            return Outcome(made.plan, (*made.diagnostics, *unusable))
    except ClusterError as error:
        return Outcome(None, (error.diagnostic,))


def _declared(compilation: Compilation, left: Compilation, name: str, rights: Rights) -> Outcome:
    errors = tuple(one for one in left.diagnostics if one.severity is Severity.ERROR)
    if errors:
        return Outcome(None, (*errors, diagnose(codes.LEFT_SIDE, None, side=name)))
    right, whole = declarations(compilation), Rights(whole=True, ignored=rights.ignored)
    return Outcome(plan(right, left.in_order(), emit.wave, whole, against=name))


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
        one
        for one in found.diagnostics
        if one.code not in (codes.NO_DOCUMENTS, codes.NOTHING_RENDERED)
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
        return _told_of(_folder(str(folder / inside), options), against, folder / inside)
    wanted = [_inside(of, path) for path in paths]
    there = unpack(of, wanted, folder)
    if not there:
        return Compilation((), ())
    options = structs.replace(
        options,
        overlays=tuple(one for one in map(_at(of, folder), options.overlays) if one is not None),
        templates=_templates(of, options.templates, folder),
    )
    inputs = [str(folder / path) for path in there]
    return _told_of(_nothing_is_nothing(compile(inputs, options)), name, folder)


def _inside(of: Revision, path: str) -> str:
    if path == "-":
        raise RevisionError("standard input has no revision")
    if (found := of.within(path)) is None:
        raise RevisionError(f"{path} is not in the repository {of.top}")
    return found


def _at(of: Revision, folder: Path) -> Callable[[Any], Any]:
    """An overlay as it was: None if there was none; what is not of the repository as it is."""

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


def _told_of(found: Compilation, name: str, folder: Path) -> Compilation:
    """The compilation whose diagnostics name files as git does: `main:jobs/bert.yaml`."""

    def placed(one: Diagnostic) -> Diagnostic:
        where = one.location
        if where is None or not where.file.startswith(str(folder)):
            return one
        file = f"{name}:{where.file[len(str(folder)) :].lstrip('/')}"
        return structs.replace(one, location=structs.replace(where, file=file))

    return structs.replace(found, diagnostics=tuple(map(placed, found.diagnostics)))
