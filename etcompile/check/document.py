"""Everything that is wrong with a document of a kind of ours, each problem once and with its path.

Several checks look at one document: the schema of its kind, that of Kubernetes for its Pod
templates, the rules of Pods, the number of replicas. None of them waits for another; what two of
them find at one place is one problem. Apart from lowering, which needs a document that has none.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from etcompile.check import counts, kubernetes, pods, schema
from etcompile.check.explain import MOST_FAULTS, Fault, without_echoes
from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import value_at


class Template(Struct, frozen=True):
    """A Pod template of a document.

    Args:
        path: Where it stands.
        partial: The job fills in what it lacks.
        restarts_beside: The restartPolicy beside it counts, whose words it may have: `ExitCode`.
    """

    path: ValuePath
    partial: bool
    restarts_beside: bool = False


class Rules(Struct, frozen=True):
    """What a document is held against.

    Args:
        schema: The JSON Schema of its kind.
        version: The version of Kubernetes whose schema its Pod templates must satisfy.
        volumes: Volumes that its Pods have besides the template's own.
        pod_counts: Where it says how many Pods there are to be.
    """

    schema: str | Path
    version: str
    volumes: tuple[str, ...] = ()
    pod_counts: tuple[ValuePath, ...] = ()


def findings(source: Source, templates: Sequence[Template], rules: Rules) -> list[Diagnostic]:
    """What is wrong with a document, and what is to be said about its Pod templates.

    Args:
        source: The document.
        templates: Its Pod templates.
        rules: What it is held against.

    Returns:
        One diagnostic for each problem: what follows from another problem is left out.
    """
    kinds = schema.document_faults(source.data, rules.schema)
    inside = [
        fault
        for template in templates
        for fault in kubernetes.template_faults(source.data, template.path, rules.version)
        if not (template.restarts_beside and _is_exit_code(source, template, fault))
    ]
    own = {id(fault) for fault in kinds}
    faults = _apart(without_echoes([*kinds, *inside]))
    found = [
        schema.diagnostic(source, fault)
        if id(fault) in own
        else kubernetes.diagnostic(source, fault, rules.version)
        for fault in faults[:MOST_FAULTS]
    ]
    if max(len(kinds), len(faults)) > MOST_FAULTS:
        found.append(_more(source))
    taken = {whole_path(fault) for fault in faults[:MOST_FAULTS]}
    found += (
        diagnostic
        for path, diagnostic in _by_rules(source, templates, rules)
        if not _within(path, taken)
    )
    return found


def _is_exit_code(source: Source, template: Template, fault: Fault) -> bool:
    """Whether a fault is about a restartPolicy that only the replicas around a template have."""
    place = (*template.path, "spec", "restartPolicy")
    return whole_path(fault) == place and value_at(source.data, place) == "ExitCode"


def _apart(faults: Sequence[Fault]) -> list[Fault]:
    """Faults without those that another schema has found in the same place, or above it.

    The schema of a kind says no more of a Pod template than Kubernetes' own does, in fewer words;
    but it is the one that knows the kind.
    """
    kept: dict[tuple[ValuePath, str], Fault] = {}
    for fault in faults:
        key = (whole_path(fault), "" if fault.problem != "form" else str(fault.at_key))
        kept.setdefault(key, fault)
    wrong = {whole_path(fault) for fault in kept.values() if fault.problem == "type"}
    return [fault for fault in kept.values() if not _within(whole_path(fault)[:-1], wrong)]


def _by_rules(
    source: Source, templates: Sequence[Template], rules: Rules
) -> Iterator[tuple[ValuePath, Diagnostic]]:
    """What no schema says. Each rule asks the source for the place of what it is about."""
    asked = _Asked(source)
    told: list[Diagnostic] = []
    for template in templates:
        told += pods.check_pod_template(
            asked,
            template.path,
            rules.version,
            known_volumes=rules.volumes,
            partial=template.partial,
        )
        told += pods.check_images(asked, template.path)
    told += counts.check_counts(asked, rules.pod_counts, [template.path for template in templates])
    for diagnostic in told:
        yield asked.path_of(diagnostic.location), diagnostic


class _Asked(Struct):
    """A source that remembers for which paths it was asked."""

    source: Source
    places: dict[int, tuple[Location, ValuePath]] = field(default_factory=dict)

    @property
    def data(self) -> Any:
        return self.source.data

    @property
    def relative(self) -> str:
        return self.source.relative

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        # A place may be kept and given again: this one must be nobody else's.
        place = structs.replace(self.source.locate(path, key=key))
        self.places[id(place)] = (place, path)
        return place

    def path_of(self, place: Location | None) -> ValuePath:
        """The path for which a place was the answer; that of the whole document for any other."""
        known = self.places.get(id(place))
        return known[1] if known else ()


def whole_path(fault: Fault) -> ValuePath:
    """The path of what is wrong: of a field that is missing, the one that it would have."""
    if fault.problem == "missing":
        return (*fault.path, fault.fields[0] if fault.fields else fault.facts["field"])
    return fault.path


def _within(path: ValuePath, paths: set[ValuePath]) -> bool:
    """Whether a path is one of these or leads through one of them."""
    return any(path[:length] in paths for length in range(len(path), 0, -1))


def _more(source: Source) -> Diagnostic:
    kind = source.data.get("kind") if isinstance(source.data, dict) else None
    facts = {"what": f"this {kind}" if isinstance(kind, str) else "this document"}
    place = source.locate(("kind",))
    return diagnose(codes.MORE_PROBLEMS, place, **facts, limit=MOST_FAULTS)
