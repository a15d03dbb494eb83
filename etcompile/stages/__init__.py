"""The stages of the pipeline, a module each; `etcompile.compiler` strings them together.

Each turns values into values and says what is wrong as diagnostics. They join packages that
know nothing of each other: what a stage does is done there, and what it does in which order
here.
"""

from etcompile.stages.advice import unheard
from etcompile.stages.choices import impossible_choices
from etcompile.stages.environment import Environment, environment
from etcompile.stages.folding import FoldedJob, fold, folded
from etcompile.stages.inputs import Sources, library, loaded, read, texts_of
from etcompile.stages.jobs import JobObjects, built, job_objects
from etcompile.stages.lowering import LoweredDocuments, lowered
from etcompile.stages.patching import patched
from etcompile.stages.reporting import divided, in_order

__all__ = [
    "Environment",
    "FoldedJob",
    "JobObjects",
    "LoweredDocuments",
    "Sources",
    "built",
    "divided",
    "environment",
    "fold",
    "folded",
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
