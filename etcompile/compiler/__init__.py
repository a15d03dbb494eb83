"""The pipeline and its stages, a module each; `pipeline.py` strings them together.

Each turns values into values and says what is wrong as diagnostics. They join packages that
know nothing of each other: what a stage does is done there, and what it does in which order
here.
"""

from etcompile.compiler.build import JobObjects
from etcompile.compiler.choices import Input, Options, OverlayInput
from etcompile.compiler.load import loaded
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004

__all__ = ["Compilation", "Input", "JobObjects", "Options", "OverlayInput", "compile", "loaded"]
