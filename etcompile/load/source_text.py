"""Decode a file's text, and convert character offsets to lines and columns.

Readers report character offsets, which cost nothing. This module computes the line and column that
an editor shows when a diagnostic needs them. It also decodes, because an invalid byte has a
position too.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from msgspec import Struct, field

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose

_LINE_BREAK = re.compile("\r\n|\r|\n")
_NAMES = {"\x00": "NUL", "\x08": "BS", "\x0c": "FF", "\x1b": "ESC", "\x7f": "DEL"}
_LONGEST_SHOWN_LINE = 1000
# Patterns as texts, which `re` compiles when a line is shown, or a character is not printable.
_DOCUMENT_END = r"(?:\A|(?<=[\r\n]))---(?=\s)|\Z"
_OF_SECRETS = r"""\bkind["']?[ \t]*:\s*["']?Secret(?![\w-])"""
_SURROGATE = "[\ud800-\udfff]"
_NOT_ALLOWED_ASCII = "[^\t\n\r\x20-\x7e]"
_NOT_ALLOWED = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
"""What YAML 1.1 does not call printable (5.1 Character Set).

This includes a byte order mark inside the text, and surrogates in texts of Python code.
"""


class Text(Struct, eq=False):
    """The text of one file."""

    file: str
    content: str
    _line_starts: list[int] = field(default_factory=list)
    _secrets: tuple[list[int], list[int]] | None = field(default=None)

    def line(self, offset: int) -> int:
        if not self._line_starts:
            breaks = _LINE_BREAK.finditer(self.content)
            self._line_starts.extend([0, *(match.end() for match in breaks)])
        return bisect_right(self._line_starts, offset)

    def line_start(self, line: int) -> int:
        return self._line_starts[line - 1] if self.line(0) else 0

    def location(self, start: int, end: int | None = None) -> Location:
        """Locate the characters from `start` to `end`, the offset after the last one.

        The caret stays on the line of `start`. A line is not shown if it is too long to print, or
        holds a credential or a part of a private key.
        """
        line = self.line(start)
        begin = self.line_start(line)
        rest = self._line_starts[line] if line < len(self._line_starts) else len(self.content)
        end_of_line = rest - sum(c in "\r\n" for c in self.content[max(begin, rest - 2) : rest])
        if self._secrets is None:
            from etcompile.diagnostics.redaction import secret_spans  # noqa: PLC0415 - few need it

            spans = sorted((*secret_spans(self.content), *_secret_documents(self.content)))
            furthest = itertools.accumulate((end for _, end in spans), max)
            self._secrets = [start for start, _ in spans], list(furthest)
        starts, ends = self._secrets
        last = bisect_left(starts, rest) - 1
        hidden = last >= 0 and begin < ends[last]
        stop = min(start if end is None else end, end_of_line)
        shown = not hidden and end_of_line - begin <= _LONGEST_SHOWN_LINE
        return Location(
            file=self.file,
            line=line,
            column=start - begin + 1,
            text=self.content[begin:end_of_line] if shown else None,
            width=max(stop - start, 1),
            hidden=hidden,
        )


def _secret_documents(content: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of documents of kind Secret, all of whose values are secret."""
    if "Secret" not in content:
        return
    start = 0
    for marker in re.finditer(_DOCUMENT_END, content):
        if re.search(_OF_SECRETS, content[start : marker.start()]):
            yield start, marker.start()
        start = marker.end()


def decoded(data: bytes, file: str) -> Text | Diagnostic:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return Text(file, data.decode())
    except UnicodeDecodeError as error:
        # Every invalid byte becomes one character, so that the column is right.
        readable = Text(file, data.decode(errors="replace"))
        place = readable.location(len(data[: error.start].decode()))
        return diagnose(codes.NOT_UTF8, place, byte=data[error.start])


def control_character(text: Text) -> Diagnostic | None:
    """Return ET1004 at the first character that YAML does not allow, if there is one."""
    # YAML allows all characters that Python calls printable, and most texts have no others.
    if text.content.replace("\n", "").replace("\r", "").replace("\t", "").isprintable():
        return None
    if text.content.isascii():
        match = re.search(_NOT_ALLOWED_ASCII, text.content)
    else:
        match = re.search(_NOT_ALLOWED, text.content)
    if match is None:
        return None
    code = f"U+{ord(match[0]):04X}"
    name = _NAMES.get(match[0])
    place = text.location(match.start())
    if re.search(_SURROGATE, place.text or ""):
        # A line with a surrogate cannot be printed.
        place = Location(place.file, place.line, place.column)
    return diagnose(codes.CONTROL_CHARACTER, place, character=f"{name} ({code})" if name else code)
