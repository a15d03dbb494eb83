"""What the backend leaves open in a job's objects to what only the outside has.

That is a new key pair, encrypted, or the one that the last output holds; and the parameters of a
vault. Apart from the other stages because nothing else in a compilation is ever new: with the same
input and the same last output, each of them makes the same bytes, and this one keeps theirs.
"""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from etcompile.compiler.options import Options
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.digest import sha256
from etcompile.encryption import RecipientError
from etcompile.k8s.objects import Object
from etcompile.load import Limits, access
from etcompile.model import Job, SecretMode
from etcompile.model.keypair import has_key_pair, key_pair, new_data

if TYPE_CHECKING:
    from etcompile.compiler.kept import Kept
    from etcompile.compiler.recipients import Recipient

Fill = Callable[[Object, Job], tuple[Object, Sequence[Diagnostic]]]
"""From an object that is open and its job to the whole object, and what is wrong."""


class KeySource(Struct, frozen=True):
    """Where a run's objects get from what only the outside has.

    Args:
        fill: What fills an open object; None if this run leaves them as they are.
        inputs: The name and the SHA-256 of each file that was read for it.
        diagnostics: What is wrong with it.
    """

    fill: Fill | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def key_source(options: Options, place: Location | None = None) -> KeySource:
    """What fills the objects of a run.

    Args:
        options: How to compile, after overlays.
        place: Where an overlay names the secret mode; None if whoever runs the program did.
    """
    found = _key_source(options, place)
    placed = (
        structs.replace(diagnostic, location=diagnostic.location or place)
        for diagnostic in found.diagnostics
    )
    return structs.replace(found, diagnostics=tuple(placed))


def _key_source(options: Options, place: Location | None) -> KeySource:
    mode = options.settings.secret
    if mode.kind == "csi" and mode.file:
        from etcompile.compiler.patterns import pattern  # noqa: PLC0415 - few runs need it

        return KeySource(*pattern(mode.file, options.limits, place))
    if not mode.encrypts:
        return KeySource()
    from etcompile.compiler.recipients import recipient  # noqa: PLC0415 - few runs need it

    content, problems = _content(mode, options.limits, place)
    inputs = _digest(mode.file, content) if mode.file else ()
    reader, more = recipient(mode, content) if not problems else (None, ())
    fill = _filling(reader, options) if reader and not options.without_keys else None
    return KeySource(fill, inputs, (*problems, *more))


def filled(
    objects: Sequence[Object], source: KeySource, job: Job
) -> tuple[tuple[Object, ...], list[Diagnostic]]:
    """The objects of a job, whole, and what is wrong.

    Args:
        objects: The objects after overlays.
        source: What fills them.
        job: The job, as the run that they are.
    """
    made: list[Object] = []
    problems: list[Diagnostic] = []
    for value in objects:
        if source.fill is not None and _is_open(value):
            whole, found = source.fill(value, job)
            made.append(whole)
            problems += found
        else:
            made.append(value)
    return tuple(made), problems


def _is_open(value: Object) -> bool:
    kind = value["kind"]
    if kind == "SecretProviderClass":
        return not value.get("spec")
    if kind not in ("SealedSecret", "Secret") or value.get("data"):
        return False
    return has_key_pair(value)


def _filling(reader: "Recipient", options: Options) -> Fill:
    """What fills an object with the last output's ciphertext, or with a new key pair's."""
    from etcompile.compiler.kept import kept  # noqa: PLC0415 - few runs need it
    from etcompile.compiler.recipients import refused  # noqa: PLC0415 - few runs need it

    folder = options.previous or options.output
    last = kept(folder) if folder else None

    def fill(value: Object, job: Job) -> tuple[Object, Sequence[Diagnostic]]:
        if last is None or job.credentials is None:
            place = job.origin.locate("metadata", "name")
            return value, [
                diagnose(codes.ENCRYPTED_NEEDS_FOLDER, place, job=job.name, kind=reader.mode.kind)
            ]
        pair = key_pair(job.credentials)
        if (standing := last.of(value)) is None:
            if last.damaged:
                return value, [_unreadable(value, last)]
            try:
                return reader.encrypted(value, new_data(pair, job.name)), ()
            except RecipientError as error:
                return value, [refused(reader.mode, error)]
        if problem := reader.problem(value, standing.data, pair.keys):
            facts = {"what": _what(value), "problem": problem.text}
            advice = f"{problem.stay}; or begin a run with a key pair of its own: {_run(job)}"
            where = standing.locate(("metadata", "name"))
            return value, [diagnose(codes.KEY_PAIR_STAYS, where, **facts, advice=advice)]
        return reader.kept(value, standing.data), ()

    return fill


def _what(value: Object) -> str:
    return f"{value['kind']} '{value['metadata']['name']}'"


def _run(job: Job) -> str:
    return f"annotation etcompile.dev/run: {'another ID' if job.run_id else 'ID'}"


def _unreadable(value: Object, last: "Kept") -> Diagnostic:
    problem = f"its key pair may be in {', '.join(last.damaged)}, which cannot be read"
    advice = "restore it from Git; of a merge conflict, take either side as it was"
    return diagnose(codes.KEY_PAIR_STAYS, None, what=_what(value), problem=problem, advice=advice)


def _content(
    mode: SecretMode, limits: Limits, place: Location | None
) -> tuple[bytes, list[Diagnostic]]:
    """The bytes of the mode's file, if it has one."""
    if mode.file is None:
        return b"", []
    option = f"--secret {mode}"
    try:
        return access.content(mode.file, limits.boundary, limits.file_bytes), []
    except access.OutsideError as error:
        return b"", [
            diagnose(
                codes.OUTSIDE_THE_BOUNDARY, place or Location(mode.file), root=error.boundary.root
            )
        ]
    except access.SpecialFileError:
        return b"", [diagnose(codes.SECRET_SOURCE, None, option=option, problem="it is no file")]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"the file cannot be read: {reason[:1].lower()}{reason[1:]}"
        return b"", [diagnose(codes.SECRET_SOURCE, None, option=option, problem=problem)]


def _digest(file: str, content: bytes) -> tuple[tuple[str, str], ...]:
    return ((PurePath(file).name, sha256(content)),)
