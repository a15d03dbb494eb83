"""The stages of the compiler, a module each; `pipeline.py` calls them in order."""

from etcompile.compiler.build import JobObjects
from etcompile.compiler.choices import Options
from etcompile.compiler.load import loaded
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004

__all__ = ["Compilation", "JobObjects", "Options", "compile", "loaded"]
