"""The stages of the pipeline, a module each; `etcompile.compiler` strings them together.

Each turns values into values and says what is wrong as diagnostics. They join packages that
know nothing of each other: what a stage does is done there, and what it does in which order
here.
"""

from etcompile.stages.advice import Advice, advice, unheard
from etcompile.stages.choices import impossible_choices
from etcompile.stages.encryption import KeySource, key_source
from etcompile.stages.environment import Environment, environment
from etcompile.stages.inputs import loaded, patched
from etcompile.stages.jobs import JobObjects, job_objects, neighbour_objects, texts_of
from etcompile.stages.library import library
from etcompile.stages.lowering import LoweredDocuments, lowered
from etcompile.stages.reporting import (
    credential_notes,
    divided,
    ignored_problems,
    in_order,
    selected_problems,
)

__all__ = [
    "Advice",
    "Environment",
    "JobObjects",
    "KeySource",
    "LoweredDocuments",
    "advice",
    "credential_notes",
    "divided",
    "environment",
    "ignored_problems",
    "impossible_choices",
    "in_order",
    "job_objects",
    "key_source",
    "library",
    "loaded",
    "lowered",
    "neighbour_objects",
    "patched",
    "selected_problems",
    "texts_of",
    "unheard",
]
