"""A function's configuration to what is compiled, and how.

The configuration is a job, or one of our two kinds: a generator names files, a transformer compiles
the jobs among the items. Both say how to compile with the fields of an overlay (docs/overlays.md).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.check.document_rules import check_schema
from etcompile.compiler.options import Input, Options
from etcompile.diagnostics import Diagnostic, codes, diagnose, has_errors
from etcompile.diagnostics.suppression import codes_of
from etcompile.integrations.krm.places import document
from etcompile.load import Document

API_VERSION = "etcompile.dev/v1alpha1"
GENERATOR, TRANSFORMER = CONFIG_KINDS = ("EtcompileGenerator", "EtcompileTransformer")
"""The kinds of configuration."""

SCHEMAS = {kind: f"etcompile/{kind}.json" for kind in CONFIG_KINDS}


class Work(Struct, frozen=True):
    """What a run of the function does.

    Args:
        inputs: What is compiled besides the items: files, or the configuration itself.
        options: How to compile.
        strict: Warnings are refused too.
        diagnostics: What is wrong with the configuration.
    """

    inputs: tuple[Input, ...]
    options: Options
    strict: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


def work(config: Mapping[str, Any] | None, options: Options) -> Work:
    """What a function with this configuration does.

    Args:
        config: The `functionConfig`; None for a transformer that has none.
        options: How to compile as the command line says, which wins.
    """
    if config is None:
        return Work((), options)
    source = document(config, in_file=False)
    if frontends.find(source.api_version, source.kind) is not None:
        return Work((source,), options)
    if source.api_version != API_VERSION or source.kind not in CONFIG_KINDS:
        place = source.locate(("kind",))
        found = f"{source.kind or 'nothing'} ({source.api_version})"
        facts = {"found": found, "known": " or ".join(CONFIG_KINDS), "version": API_VERSION}
        return Work((), options, diagnostics=(diagnose(codes.FUNCTION_CONFIG, place, **facts),))
    problems = check_schema(source, SCHEMAS[source.kind])
    if has_errors(problems):
        return Work((), options, diagnostics=tuple(problems))
    spec = source.data.get("spec") or {}
    return Work(
        inputs=tuple(spec.get("inputs") or ()),
        options=_options(source, spec, options),
        strict=bool(spec.get("strict")),
        diagnostics=tuple(problems),
    )


def _options(source: Document, spec: Mapping[str, Any], given: Options) -> Options:
    """The options of a specification; those that are given win."""
    templates = spec.get("templates")
    return structs.replace(
        given,
        namespace=given.namespace or spec.get("namespace"),
        # The settings last: they stand in the one file that is about this very run.
        overlays=(*(spec.get("overlays") or ()), *_settings(source, spec), *given.overlays),
        runtimes=(*(spec.get("runtimes") or ()), *given.runtimes),
        templates=given.templates or (Path(templates) if templates else None),
        ignore_managed_by=given.ignore_managed_by or bool(spec.get("ignoreManagedBy")),
        skip_managed_by=given.skip_managed_by or bool(spec.get("skipManagedBy")),
        allow_plain_secrets=given.allow_plain_secrets or bool(spec.get("allowPlainSecrets")),
        dlrover_version=given.dlrover_version or spec.get("dlroverVersion"),
        ignore=(*codes_of(given.ignore), *codes_of(spec.get("ignore") or ())),
    )


def _settings(source: Document, spec: Mapping[str, Any]) -> tuple[Document, ...]:
    """The settings as the overlay that they would be in a file."""
    if not (settings := spec.get("settings")):
        return ()
    data = {"apiVersion": API_VERSION, "kind": "Overlay", "settings": settings}
    return (structs.replace(source, data=data, path=("spec",)),)
