"""What a frontend has to say about a kind so that the pipeline can read it.

Apart from the frontends, so that they share one shape and the pipeline needs no other.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Source, ValuePath
from etcompile.model import Intent, Job


class Lowered(Struct, frozen=True):
    """What a document became.

    Args:
        value: A job or a scale intent; None if the document cannot be one.
        diagnostics: What is wrong with it, or worth knowing.
    """

    value: Job | Intent | None
    diagnostics: tuple[Diagnostic, ...] = ()


class Kind(Struct, frozen=True):
    """A kind of document that etcompile compiles.

    Args:
        api_version: `group/version`.
        name: The kind.
        schema: Its JSON Schema: a file name in `schemas/`, or a path.
        lower: Turns a document that its schema accepts into a job or an intent.
        summary: One line for `etcompile kinds`.
        pod_templates: Where its Pod templates stand.
        volumes: Volumes that the compiled Pods have besides the template's own, so that a
            template may mount them.
    """

    api_version: str
    name: str
    schema: str | Path
    lower: Callable[[Source], Lowered]
    summary: str
    pod_templates: tuple[ValuePath, ...] = ()
    volumes: tuple[str, ...] = ()
