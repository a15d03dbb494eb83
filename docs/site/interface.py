"""The page of the Python API: every public name, with its docstring.

`autodoc` reads the docstrings. It is told the names one by one, because the package imports them
only when somebody asks for them.
"""

import importlib
import inspect
from collections.abc import Iterator

_MODULES = ("etcompile", "etcompile.operations")


def page() -> str:
    """Return the text of the page."""
    return "\n".join(["# Python API", "", _introduction(), "", *_entries()])


def _introduction() -> str:
    return (
        "What a program may import. [Python programs](python.md) shows how the parts are used "
        "together. What is not on this page may change with any version."
    )


def _entries() -> Iterator[str]:
    for name in _MODULES:
        module = importlib.import_module(name)
        yield f"## {name}\n"
        yield f"```{{eval-rst}}\n.. module:: {name}\n```\n"
        yield f"{inspect.getdoc(module) or ''}\n".partition("\n")[0] + "\n"
        for public in module.__all__:
            if public.startswith("__"):
                continue
            yield f"### {public}\n"
            value = getattr(module, public)
            if inspect.isclass(value):
                directive, options = "autoclass", "   :members:\n"
            elif callable(value):
                directive, options = "autofunction", ""
            else:
                directive, options = "autodata", ""
            yield f"```{{eval-rst}}\n.. {directive}:: {name}.{public}\n{options}```\n"
