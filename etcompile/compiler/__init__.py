"""The pipeline and its stages, a module each; `pipeline.py` strings them together.

Each turns values into values and says what is wrong as diagnostics. They join packages that
know nothing of each other: what a stage does is done there, and what it does in which order
here.
"""

from etcompile.compiler.advice import unheard
from etcompile.compiler.choices import impossible_choices
from etcompile.compiler.environment import Environment, environment
from etcompile.compiler.fold import FoldedJob, fold_job
from etcompile.compiler.inputs import Sources, library, loaded, read, texts_of
from etcompile.compiler.jobs import JobObjects, built, job_objects
from etcompile.compiler.lowering import LoweredDocuments, lowered
from etcompile.compiler.options import Input, Options, OverlayInput
from etcompile.compiler.patching import patched
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004
from etcompile.compiler.reporting import divided, in_order

__all__ = [
    "Compilation",
    "Environment",
    "FoldedJob",
    "Input",
    "JobObjects",
    "LoweredDocuments",
    "Options",
    "OverlayInput",
    "Sources",
    "built",
    "compile",
    "divided",
    "environment",
    "fold_job",
    "impossible_choices",
    "in_order",
    "job_objects",
    "library",
    "loaded",
    "lowered",
    "patched",
    "read",
    "texts_of",
    "unheard",
]
