"""Replace the jobs of a ResourceList by the objects that they compile to.

If the compiler refuses anything, the list stays as it was, with the reasons as results: a pipeline
that went on with half of a job would apply half of it.

The configuration of the function is a job, or one of our two kinds: a generator names files, a
transformer compiles the jobs among the items. Both say how to compile with the fields of an overlay
(docs/overlays.md).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import emit, frontends
from etcompile.check.document_rules import check_schema
from etcompile.compiler.choices import Options
from etcompile.compiler.lower import unknown_version
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004
from etcompile.diagnostics import RULES, Diagnostic, codes, diagnose, has_errors
from etcompile.diagnostics.redaction import without_private_keys
from etcompile.diagnostics.suppression import codes_of
from etcompile.frontends.trainer.runtimes import is_runtime, named_runtimes
from etcompile.integrations.krm.resource_list import (
    INDEXES,
    NAME,
    PATHS,
    Item,
    ItemLocation,
    ResourceList,
    annotations,
    document,
    file_of,
    metadata,
    resource_list,
    written,
)
from etcompile.k8s.objects import Object, annotations_of, with_metadata
from etcompile.k8s.path import dotted
from etcompile.load import Document, Input

_FILES = (*PATHS, "internal.config.kubernetes.io/package-path")

API_VERSION = "etcompile.dev/v1alpha1"
GENERATOR, TRANSFORMER = CONFIG_KINDS = ("EtcompileGenerator", "EtcompileTransformer")
"""The kinds of configuration."""

SCHEMAS = {kind: f"etcompile/{kind}.json" for kind in CONFIG_KINDS}


class Answer(Struct, frozen=True):
    """The result of a run of the function.

    Args:
        texts: Creates the ResourceList, in pieces; none if the input was no ResourceList.
        refused: Whether the list is as it was.
    """

    texts: Callable[[], Iterator[str]]
    diagnostics: tuple[Diagnostic, ...]
    refused: bool


def answer(data: bytes, options: Options, *, strict: bool = False) -> Answer:
    listed = resource_list(data, options.limits)
    if not isinstance(listed, ResourceList):
        return Answer(lambda: iter(()), listed, refused=True)
    todo = work(listed.config, options)
    sources: dict[int, Document] = {}
    runtimes: dict[int, Document] = {}
    for number, item in enumerate(listed.items):
        source = structs.replace(document(item.value), relative=f"items[{number}]")
        if _is_job(source) and not item.is_local:
            sources[number] = source
        if is_runtime(source):
            runtimes[number] = source
    diagnostics: tuple[Diagnostic, ...] = todo.diagnostics
    compilation = Compilation((), ())
    if not has_errors(diagnostics) and (todo.inputs or sources):
        known = (*runtimes.values(), *todo.options.runtimes)
        how = structs.replace(todo.options, runtimes=known)
        compilation = compile((*sources.values(), *todo.inputs), how)
        # A list with skipped jobs only passes unchanged.
        expected = {codes.NOTHING_RENDERED} if compilation.skipped else ()
        diagnostics += tuple(d for d in compilation.diagnostics if d.code not in expected)
    refused = has_errors(diagnostics) or ((strict or todo.strict) and bool(diagnostics))

    def texts() -> Iterator[str]:
        items = listed.items if refused else _items(listed, sources, runtimes, compilation)
        pieces = written(listed.version, items, listed.config, results(diagnostics))
        # The pipeline stops here, so a refused list may be incomplete.
        return map(without_private_keys, pieces) if refused else pieces

    return Answer(texts, diagnostics, refused=refused)


def _is_job(source: Document) -> bool:
    """Return True if the compiler reads it as a job or intent, or refuses its API version."""
    version, name = source.api_version or "", source.kind or ""
    if source.is_rendered or frontends.find(version, name) is not None:
        return not source.is_rendered
    is_older = any(row.version == version for row in frontends.older_versions(name))
    return is_older or (frontends.is_known(name) and bool(unknown_version(source)))


def _items(
    listed: ResourceList,
    sources: Mapping[int, Document],
    runtimes: Mapping[int, Document],
    compilation: Compilation,
) -> Iterator[Item | Object]:
    """Yield the items of the answer: each job's objects in its place, others at the end.

    A runtime becomes part of the jobs that name it and stops being an object. If no job names it,
    it belongs to somebody else and stays, as does a job that is skipped.
    """
    places = {source.relative: number for number, source in sources.items()}
    objects: dict[int | None, list[emit.Packed]] = {}
    merged: set[str] = set()
    for group in compilation.groups:
        merged |= {*group.sources}
        place = next((places[name] for name in group.sources if name in places), None)
        objects.setdefault(place, []).append(group.objects)
    skipped = {document.relative for document in compilation.skipped}
    needed = named_runtimes(compilation.skipped)
    for number, item in enumerate(listed.items):
        runtime = runtimes.get(number)
        if runtime is not None and runtime.relative in merged and runtime.name not in needed:
            if item.is_local:
                yield item
        elif number in sources and sources[number].relative not in skipped:
            # The pipeline's annotations name the file of an object: that of its job.
            notes = {name: note for name in _FILES if (note := annotations(item.value).get(name))}
            for value in itertools.chain.from_iterable(objects.get(number, ())):
                noted = {**annotations_of(value), **notes}
                yield with_metadata(value, annotations=noted) if notes else value
        elif not listed.is_echo(item):
            yield item
    yield from emit.merged(objects.get(None, ()))


# The configuration --------------------------------------------------------------------------------


class Work(Struct, frozen=True):
    """What a run of the function compiles, and how.

    Args:
        inputs: What is compiled besides the items: files, or the configuration itself.
        strict: Refuse warnings, too.
    """

    inputs: tuple[Input, ...]
    options: Options
    strict: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


def work(config: Mapping[str, Any] | None, options: Options) -> Work:
    """Read the configuration of the function; options of the command line take precedence."""
    if config is None:
        return Work((), options)
    source = document(config, in_file=False)
    if _is_job(source):
        return Work((source,), options)
    if source.api_version != API_VERSION or source.kind not in CONFIG_KINDS:
        place = source.locate(("kind",))
        named = f"{source.kind or 'nothing'} ({source.api_version})"
        facts = {"found": named, "known": " or ".join(CONFIG_KINDS), "version": API_VERSION}
        return Work((), options, diagnostics=(diagnose(codes.FUNCTION_CONFIG, place, **facts),))
    problems = check_schema(source, SCHEMAS[source.kind])
    if has_errors(problems):
        return Work((), options, diagnostics=tuple(problems))
    spec = source.data.get("spec") or {}
    overlays = [*(spec.get("overlays") or ())]
    if settings := spec.get("settings"):
        # Last, as a separate overlay: the configuration is about this run alone.
        data = {"apiVersion": API_VERSION, "kind": "Overlay", "settings": settings}
        overlays.append(structs.replace(source, data=data, path=("spec",)))
    templates = spec.get("templates")
    chosen = structs.replace(
        options,
        namespace=options.namespace or spec.get("namespace"),
        overlays=(*overlays, *options.overlays),
        runtimes=(*(spec.get("runtimes") or ()), *options.runtimes),
        templates=options.templates or (Path(templates) if templates else None),
        ignore_managed_by=options.ignore_managed_by or bool(spec.get("ignoreManagedBy")),
        skip_managed_by=options.skip_managed_by or bool(spec.get("skipManagedBy")),
        allow_plain_secrets=options.allow_plain_secrets or bool(spec.get("allowPlainSecrets")),
        dlrover_version=options.dlrover_version or spec.get("dlroverVersion"),
        ignore=(*codes_of(options.ignore), *codes_of(spec.get("ignore") or ())),
    )
    return Work(
        inputs=tuple(spec.get("inputs") or ()),
        options=chosen,
        strict=bool(spec.get("strict")),
        diagnostics=tuple(problems),
    )


# The results --------------------------------------------------------------------------------------


def results(diagnostics: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Convert diagnostics to results (reference/gitops.md 6.2), with their codes among the tags."""
    listed = []
    for diagnostic in diagnostics:
        result: dict[str, Any] = {
            "message": diagnostic.text,
            "severity": diagnostic.severity.value,
            "tags": {"code": diagnostic.code, "name": RULES[diagnostic.code].name},
        }
        place = diagnostic.location
        if isinstance(place, ItemLocation):
            item = place.places.item
            names = {"apiVersion": item.get("apiVersion"), "kind": item.get("kind")}
            names |= {field: metadata(item).get(field) for field in ("name", "namespace")}
            result["resourceRef"] = {k: v for k, v in names.items() if v and isinstance(v, str)}
            if place.path:
                result["field"] = {"path": dotted(place.path)}
            if file := file_of(item):
                indexes = (annotations(item).get(name) for name in INDEXES)
                index = next((index for index in indexes if index), "")
                is_number = isinstance(index, str) and index.isdecimal()
                result["file"] = {"path": file, **({"index": int(index)} if is_number else {})}
        elif place is not None and place.file != NAME:
            result["file"] = {"path": place.file}
            numbers = {"line": place.line, "column": place.column}
            result["tags"] |= {name: str(number) for name, number in numbers.items() if number}
        listed.append(result)
    return listed
