"""Read the documents, overlays, runtimes, templates and keys of a run.

Everything is read before anything is compiled, so that a run reports all files that it cannot read.
"""

import marshal
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct, field, structs

from etcompile import backend, frontends, overlays
from etcompile.check import kubernetes
from etcompile.check.document_rules import check_schema
from etcompile.compiler.choices import Options
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose, has_errors
from etcompile.diagnostics.credentials import may_hold_credential
from etcompile.frontends.notes import unused
from etcompile.frontends.trainer.runtimes import is_runtime
from etcompile.k8s.objects import as_read
from etcompile.load import Document, Input, Loaded, from_values
from etcompile.load import load as load_files
from etcompile.load.access import TemplateFolder
from etcompile.load.sources import unreadable
from etcompile.model import Settings

if TYPE_CHECKING:
    from etcompile.compiler.keysource import KeySource


class Environment(Struct, frozen=True):
    """What is the same for all jobs of a run: the combined overlays, templates and keys.

    Args:
        documents: The overlays.
        deciding: By the name of a setting, the overlay that decides it.
        settled_by: The relative names of the overlays that have settings.
        edits: Edits of documents and objects, in order.
        matched: The edits that changed an image of the settings.
        diagnostics: Problems of the overlays.
        keys: Fills in key pairs and parameters of vaults; None leaves them open.
    """

    settings: Settings
    documents: tuple[Document, ...] = ()
    deciding: Mapping[str, overlays.Overlay] = field(default_factory=dict)
    settled_by: tuple[str, ...] = ()
    edits: tuple[overlays.Edit, ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    diagnostics: tuple[Diagnostic, ...] = ()
    texts: backend.Texts = field(default_factory=backend.Texts)
    keys: "KeySource | None" = None

    def place_of(self, setting: str) -> Location | None:
        """Locate a setting in the overlay that decides it; None if none does."""
        overlay = self.deciding.get(setting)
        return overlay.source.locate(("settings", setting)) if overlay else None


class Sources(Struct, frozen=True):
    """Everything that a run has read.

    Args:
        options: How to compile, with the settings of the overlays.
        inputs: The documents to compile, and the comments and problems of all files.
        library: The runtimes of the setting `runtimes`.
    """

    options: Options
    inputs: Loaded
    library: tuple[Document, ...]
    environment: Environment

    @property
    def files(self) -> tuple[str, ...]:
        documents = (*self.inputs.documents, *self.library, *self.environment.documents)
        return tuple(dict.fromkeys(document.file for document in documents))


def load(inputs: Input | Iterable[Input], options: Options, stdin: BinaryIO | None) -> Sources:
    read = loaded(inputs, options, stdin)
    environment, runtimes = environment_of(options), library_of(options)
    texts, notes = texts_of(options)
    keys = None
    if not has_errors(environment.diagnostics):
        options = structs.replace(options, settings=environment.settings)
        secret = options.settings.secret
        if secret.encrypts or (secret.kind == "csi" and secret.file):
            from etcompile.compiler.keysource import key_source  # noqa: PLC0415 - few runs need it

            keys = key_source(options, environment.place_of("secret"))
    problems: list[Diagnostic] = []
    if options.ignore:
        from etcompile.diagnostics import suppression  # noqa: PLC0415 - few runs need it

        problems += suppression.option_problems(options.ignore)
    accepted: tuple[str, ...] = (codes.NO_DOCUMENTS,) if options.allow_empty else ()
    if options.partial:  # one of several files may hold no object
        accepted = (codes.NO_DOCUMENTS, codes.KUSTOMIZATION_INPUT)
    problems += (problem for problem in read.diagnostics if problem.code not in accepted)
    problems += [*environment.diagnostics, *runtimes.diagnostics]
    documents = (*read.documents, *environment.documents, *runtimes.documents)
    doubtful = [each for each in documents if may_hold_credential(marshal.dumps(each.data))]
    if doubtful:
        from etcompile.check.plain_credentials import check_credentials  # noqa: PLC0415

        problems += check_credentials(doubtful)
    problems += [*notes, *(keys.diagnostics if keys else ())]
    comments = dict.fromkeys(
        [*read.comments, *(comment for each in documents for comment in each.comments)]
    )
    read = structs.replace(read, diagnostics=tuple(problems), comments=tuple(comments))
    environment = structs.replace(environment, texts=texts, keys=keys)
    return Sources(options, read, runtimes.documents, environment)


def loaded(inputs: Input | Iterable[Input], options: Options, stdin: BinaryIO | None) -> Loaded:
    """Load all documents of the input in order, without nulls, which mean absent in the API."""
    if isinstance(inputs, str | os.PathLike | Mapping | Document):
        inputs = [inputs]
    inputs = list(inputs)
    parts = [Loaded(tuple(v for v in inputs if isinstance(v, Document)), ())]
    if paths := [v for v in inputs if not isinstance(v, Mapping | Document)]:
        limits, output = options.limits, options.output

        def is_job(document: Document) -> bool:
            return frontends.is_known(document.kind or "") and not document.is_rendered

        parts.append(load_files(paths, stdin=stdin, limits=limits, output=output, is_job=is_job))
    parts.append(from_values(v for v in inputs if isinstance(v, Mapping)))
    return Loaded(
        tuple(
            structs.replace(document, data=as_read(document.data))
            for part in parts
            for document in part.documents
        ),
        tuple(problem for part in parts for problem in part.diagnostics),
        tuple(dict.fromkeys(comment for part in parts for comment in part.comments)),
        tuple(folder for part in parts for folder in part.outputs),
    )


def environment_of(options: Options) -> Environment:
    if not options.overlays:
        undeclared = _undeclared(options, options.settings, None)
        return Environment(options.settings, diagnostics=tuple(undeclared))
    from etcompile.overlays import overlay_files, overlay_settings  # noqa: PLC0415 - few runs

    documents, problems = overlay_files.overlay_documents(options.overlays, options.limits)
    for document in documents:
        problems += check_schema(document, overlays.SCHEMA)
    if has_errors(problems):
        return Environment(options.settings, documents, diagnostics=tuple(problems))
    in_order = [overlays.overlay_of(document) for document in documents]
    explicit = options.explicit
    if explicit is None:
        ours, defaults = options.settings, Settings()
        names = Settings.__struct_fields__
        explicit = frozenset(n for n in names if getattr(ours, n) != getattr(defaults, n))
    settings, deciding, matched, more = overlay_settings.settled(
        options.settings, explicit, in_order, kubernetes.versions()
    )
    if not more and "kubernetesVersion" not in deciding:
        gang = deciding.get("gang")
        place = gang.source.locate(("settings", "gang")) if gang else None
        more += _undeclared(options, settings, place)
    # A chosen namespace takes precedence over an overlay's, like a setting.
    edits = (
        edit
        for overlay in in_order
        for edit in overlay.edits
        if options.namespace is None or edit.change != "namespace"
    )
    return Environment(
        settings,
        documents,
        deciding,
        tuple(overlay.source.relative for overlay in in_order if overlay.settings),
        tuple(edits),
        matched,
        (*problems, *more),
    )


def _undeclared(
    options: Options, settings: Settings, place: Location | None
) -> Iterator[Diagnostic]:
    """Report a gang scheduler that needs a version of Kubernetes, if no version was chosen."""
    chosen = options.known_choices
    if chosen is None or "kubernetes_version" in chosen or settings.gang == "none":
        return
    if backend.gang.scheduler_of(settings.gang).declares_version:
        problem = "the Kubernetes version of the cluster is unknown"
        advice = "set kubernetes-version in etcompile.toml, or kubernetesVersion in an overlay"
        yield diagnose(codes.GANG_NATIVE, place, problem=problem, advice=advice)


def library_of(options: Options) -> Loaded:
    """Load the runtimes of the setting `runtimes`, in order, without nulls.

    Runtimes that no job names are not checked, so that a library may hold more than one repository
    needs. Other documents are reported as having no effect.
    """
    read = loaded(options.runtimes, options, None)
    without_effect = (
        unused(
            document.locate(("kind",)),
            f"{document.kind} {document.name or ''}".strip(),
            "the setting runtimes takes TrainingRuntimes and ClusterTrainingRuntimes only",
            "give it as an input, or keep it in another folder",
        )
        for document in read.documents
        if not is_runtime(document)
    )
    runtimes = tuple(document for document in read.documents if is_runtime(document))
    return Loaded(runtimes, (*read.diagnostics, *without_effect), read.comments)


def file_and_index(document: Document) -> tuple[str, int]:
    """Return a key that is equal for two documents at the same place of the same file."""
    return os.path.realpath(document.file), document.index


def texts_of(options: Options) -> tuple[backend.Texts, tuple[Diagnostic, ...]]:
    """Return the renderer of templates, without the user's if unreadable; report unused ones."""
    if options.templates is None:
        return backend.Texts(), ()
    path = os.fspath(options.templates)
    folder = TemplateFolder(path, options.limits)
    texts = backend.Texts(folder)
    try:
        unused_names = [*texts.unused()]
    except (OSError, ValueError) as error:
        return backend.Texts(), (unreadable(path, error),)
    notes = [
        diagnose(
            codes.UNUSED_TEMPLATE,
            Location(folder.file(name)),
            advice=f"did you mean {meant}?" if meant else "",
        )
        for name, meant in unused_names
    ]
    return texts, tuple(notes)
