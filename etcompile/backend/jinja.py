"""Render the user's templates with Jinja2, in its sandbox and within bounds.

`texts` imports this module only when it needs it. A template is a program, and its author is not
always the user who renders it. Jinja2's immutable sandbox restricts it to its values. The bounds
here, on steps, memory and the length of its text, stop it if it does not end by itself.
"""

import contextlib
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

_STEPS = 2_000_000
"""Lines of Python that a template may execute: a few seconds. Ours need some thousands."""
_MEMORY = 192 * 1024 * 1024
"""Bytes that a template may use in addition to the process's."""
_LONGEST = 4 * 1024 * 1024
"""Characters of a rendered text; a ConfigMap holds a quarter of that."""
_UNNAMED = "<template>"
"""Jinja2's name for the file of a template that came as text."""
_MOST_BITS = 4096
"""Bits of a power or a product."""


class RenderError(ValueError):
    """A template that does not render.

    Args:
        line: The line of the template; None if it is unknown, or one of another template.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class _TooMuchError(Exception):
    """A template that exceeds a bound."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2's sandbox, with a limit on powers and products."""

    intercepted_binops = frozenset({"**", "*"})

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any
    ) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length()
            if (bits * abs(right) if operator == "**" else bits + right.bit_length()) > _MOST_BITS:
                raise _TooMuchError(f"a number has more than {_MOST_BITS} bits")
        return super().call_binop(context, operator, left, right)


def environment(
    folder: Path, overrides: Callable[[str], bytes] | None = None
) -> ImmutableSandboxedEnvironment:
    """Return where templates come from and how they are read.

    Undefined variables are errors: a script with a gap would only fail in the cluster.

    Args:
        overrides: Returns the content of a user's template, which replaces ours; raises OSError.
    """

    def text(name: str) -> str | None:
        try:
            return overrides(name).decode() if overrides else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ValueError(f"'{name}' cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"'{name}' is not UTF-8") from error

    return _Sandbox(
        loader=jinja2.ChoiceLoader(
            [jinja2.FunctionLoader(text), jinja2.FileSystemLoader(folder)],
        ),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def render(where: jinja2.Environment, file: str, values: Mapping[str, Any]) -> str:
    """Return the text of one template.

    Raises:
        RenderError: It does not exist, is no template, uses an unknown variable, does what the
            sandbox forbids, or exceeds a bound.
    """
    try:
        with _bounded():
            pieces, left = [], _LONGEST
            for piece in where.get_template(file).generate(values):
                left -= len(piece)
                if left < 0:
                    raise _TooMuchError(f"its text is longer than {_LONGEST >> 20} MiB")
                pieces.append(piece)
            text = "".join(pieces)
            text.encode()  # fails on half a surrogate pair, which cannot be written
            return text
    except jinja2.TemplateSyntaxError as error:
        line = error.lineno if error.name in (file, None) else None
        raise RenderError(f"line {error.lineno}: {error.message}", line) from error
    except jinja2.exceptions.SecurityError as error:
        raise RenderError(f"the sandbox does not allow it: {error}", _line(error)) from error
    except MemoryError as error:
        raise RenderError(f"it needs more than {_MEMORY >> 20} MiB of memory") from error
    except RecursionError as error:
        raise RenderError("it calls itself too often") from error
    except Exception as error:  # a template is a program: it may fail in any way
        raise RenderError(str(error) or type(error).__name__, _line(error)) from error


def _line(error: BaseException) -> int | None:
    """Return the line of the outermost template at which rendering failed."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == _UNNAMED:
            return frame.tb_lineno
        frame = frame.tb_next
    return None


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Limit steps and memory of the code inside.

    Steps instead of seconds: a template is refused on every machine, or on none.
    """
    steps = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ARG001
        nonlocal steps
        steps += 1
        if steps > _STEPS:
            raise _TooMuchError(f"it does not end within {_STEPS:,} steps")
        return step

    before, limits = sys.gettrace(), resource.getrlimit(resource.RLIMIT_AS)
    # The limit is relative to the current size, if the system reports that.
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        wanted = pages * resource.getpagesize() + _MEMORY
        known = [limit for limit in limits if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_AS, (min([wanted, *known]), limits[1]))
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)
        resource.setrlimit(resource.RLIMIT_AS, limits)
