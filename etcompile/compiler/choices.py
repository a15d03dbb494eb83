"""Define the options of a compilation, and refuse impossible ones.

The command line, the configuration file and overlays check settings where they are written, with
`refusal`. Those of a Python program are checked before anything is compiled.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, StructMeta, field

from etcompile.check import kubernetes
from etcompile.check.document_rules import schema_faults
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.load import Input, Limits
from etcompile.model import PROFILES, Services, Settings, schedulers
from etcompile.model.settings import SETTINGS, secret_mode
from etcompile.overlays import SCHEMA
from etcompile.overlays.overlay import API_VERSION, KIND
from etcompile.several import gather

Managed = Literal["refuse", "compile", "skip"]
"""What to do with jobs of another controller."""


class _OptionsType(StructMeta):
    """Points a program to `Settings` when it passes a setting to `Options`."""

    def __call__(self, *args: Any, **fields: Any) -> Any:
        for name in Settings.__struct_fields__:
            if name in fields:
                where = f"Options(settings=Settings({name}=...))"
                raise TypeError(f"'{name}' is a field of Settings: {where}")
        return super().__call__(*args, **fields)


class Options(Struct, frozen=True, metaclass=_OptionsType):
    """How to compile.

    Args:
        namespace: The namespace of documents that name none, as kubectl's `--namespace`; a
            document that names another one is refused.
        overlays: What an environment changes, in order: a file, a folder with an `overlay.yaml`,
            the name of an overlay that ships with etcompile, or a document.
        runtimes: TrainingRuntimes and ClusterTrainingRuntimes for TrainJobs, in addition to those
            of the input and those that Trainer ships: files, folders and globs, or documents.
        explicit: The names of settings that no overlay changes; those that differ from their
            defaults if None.
        chosen: The names of settings that somebody chose, including those of a configuration file,
            which an overlay may change; those of `explicit`, or all of them, if None.
        templates: A folder whose Jinja2 templates replace those of the same name.
        allow_plain_secrets: Let Secrets with data among the inputs pass.
        ignore_managed_by: Compile jobs that `managedBy` gives to another controller, too.
        skip_managed_by: Skip such jobs with a warning, instead of refusing them, unless
            `ignore_managed_by` compiles them.
        dlrover_version: The version of DLRover for ElasticJobs that do not set it.
        lint: Check the documents as `check` does: with advice about training (ET9xxx), and without
            an error for what cannot be rendered by itself, such as a runtime.
        partial: The inputs are some of several files. One may hold no document, or a scale intent
            whose job is in another one. None: if they hold no job.
        output: The output folder, which is not read as input. Its encrypted key pairs stay.
        previous: The folder whose encrypted key pairs stay, if not `output`.
        without_keys: Omit key pairs that the output would hold encrypted, because nobody uses this
            compilation, or its Secrets.
        default_namespace: The namespace of documents that name none; others, and overlays, may name
            another.
    """

    namespace: str | None = None
    settings: Settings = field(default_factory=Settings)
    overlays: tuple[Input, ...] = ()
    runtimes: tuple[Input, ...] = ()
    explicit: frozenset[str] | None = None
    chosen: frozenset[str] | None = None
    templates: Path | None = None
    allow_plain_secrets: bool = False
    allow_empty: bool = False
    ignore_managed_by: bool = False
    skip_managed_by: bool = False
    dlrover_version: str | None = None
    ignore: Collection[str] = ()
    lint: bool = False
    partial: bool | None = False
    limits: Limits = field(default_factory=Limits)
    output: Path | None = None
    previous: Path | None = None
    without_keys: bool = False
    default_namespace: str | None = None

    def __post_init__(self) -> None:
        gather(self, "overlays", "runtimes", "ignore")
        gather(self, "explicit", "chosen", kind=frozenset)

    @property
    def known_choices(self) -> frozenset[str] | None:
        """Return the names of the settings that somebody chose, anywhere; None if unknown."""
        return self.explicit if self.chosen is None else self.chosen

    @property
    def managed(self) -> Managed:
        if self.ignore_managed_by:
            return "compile"
        return "skip" if self.skip_managed_by else "refuse"


def impossible_choices(options: Options) -> list[Diagnostic]:
    possible = {
        "kubernetes_version": kubernetes.versions(),
        "services": get_args(Services),
        "gang": schedulers.GANGS,
        "profiles": PROFILES,
    }
    problems = []
    for name, known in possible.items():
        chosen = getattr(options.settings, name)
        for value in chosen if name == "profiles" else (chosen,):
            if value not in known:
                facts = {"option": f"Settings.{name}", "value": value}
                facts["problem"] = f"it is one of {', '.join(known)}"
                problems.append(diagnose(codes.IMPOSSIBLE_CHOICE, None, **facts))
    refused = {f"Settings.{n}": refusal(n, getattr(options.settings, n)) for n in _TEXTS}
    try:
        secret_mode(str(options.settings.secret))
    except ValueError as error:
        refused["Settings"] = str(error)
    for option, problem in refused.items():
        facts = {"option": option, "problem": problem, "advice": ""}
        problems += [diagnose(codes.OPTION, None, **facts)] if problem else []
    return problems


_TEXTS = ("cluster_domain", "gang_scheduler", "init_image", "kubectl_image", "run")
"""The settings that are free text, whose syntax is in the schema of overlays."""


def refusal(name: str, text: str | None) -> str | None:
    """Return why a text is invalid for a setting; None if it is valid."""
    written = {key: text for key, field in SETTINGS.items() if field == name}
    faults = schema_faults({"apiVersion": API_VERSION, "kind": KIND, "settings": written}, SCHEMA)
    expected = next((fault.facts.get("expected", "a text") for fault in faults), "a text")
    return f"'{text}' is not {expected}" if faults or text == "" else None
