"""Compile documents in stages, one module each, which `pipeline.py` calls in order."""

from etcompile.compiler.build import JobObjects
from etcompile.compiler.choices import Options
from etcompile.compiler.load import loaded
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004

__all__ = ["Compilation", "JobObjects", "Options", "compile", "loaded"]
