"""One change of a YAML text, and not a character besides.

A text is edited where the entry stands, by its position; nothing is parsed and printed again, so
that comments, order, quotes, blank lines and line breaks are left as they are. A scalar is replaced
by one that means the same wherever it stands. Whatever moves lines is read again and compared with
what was meant: an edit that says anything else is not made.
"""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode

from etcompile.diagnostics import Location
from etcompile.diagnostics.fix import Change, Move, Quote, Rename, Replace
from etcompile.fixes.nodes import Entry, Path, composed, end_of, entry_at, entry_of, plain

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*")
_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INDENT = 2


def lines_of(text: str) -> list[str]:
    """The lines of a text, as patches count them, each with its end.

    Python breaks lines at other characters as well, which may stand in a text.
    """
    return _LINE.findall(text)


class Step(Struct, frozen=True):
    """A change whose place was found in the text as it was read.

    Args:
        change: What to do.
        path: The entry that it is about.
    """

    change: Change
    path: Path


def steps(content: str, changes: Sequence[Change]) -> list[Step] | None:
    """Where changes are to be made; None if one of their places is not there.

    Args:
        content: The text for which they were made.
        changes: What is to be done, in any order.
    """
    documents = composed(content)
    if documents is None:
        return None
    starts = [0, *(found.end() for found in _BREAK.finditer(content))]
    found: list[Step] = []
    for change in changes:
        offset = _offset(change.at, starts)
        at_key = isinstance(change, Rename | Move)
        entry = None if offset is None else entry_of(documents, offset, key=at_key)
        if entry is None:
            return None
        found.append(Step(change, entry.path))
    # What stands inside comes before what is around it, whose name may change.
    return sorted(found, key=lambda step: -len(step.path))


def edited(content: str, todo: Sequence[Step]) -> str | None:
    """The text with all of these changes; None if it cannot be had.

    Args:
        content: The text.
        todo: The changes, what is inside before what is around it.
    """
    scalars = [step for step in todo if not isinstance(step.change, Move)]
    made = _with_scalars(content, scalars) if scalars else content
    for step in todo:
        if made is not None and isinstance(step.change, Move):
            made = _with_move(made, step)
    return made


def _with_scalars(content: str, todo: Sequence[Step]) -> str | None:
    """The text with other keys and scalars, each written so that it stands for itself anywhere."""
    documents = composed(content)
    if documents is None:
        return None
    spans: list[tuple[int, int, str]] = []
    for step in todo:
        entry = entry_at(documents, step.path)
        match step.change:
            case Rename(name=name):
                made = _renamed(content, entry, name) if entry is not None else None
            case Quote():
                made = _quoted(content, entry) if entry is not None else None
            case Replace(value=value):
                made = _replaced(content, entry, value) if entry is not None else None
            case _:
                made = None
        if made is None:
            return None
        spans.append(made)
    spans.sort(reverse=True)
    if any(later[0] < earlier[1] for later, earlier in itertools.pairwise(spans)):
        return None  # two changes of one scalar
    for start, end, text in spans:
        content = f"{content[:start]}{text}{content[end:]}"
    return content


def _with_move(content: str, step: Step) -> str | None:
    """The text with a field elsewhere, read again and compared with what was meant."""
    documents = composed(content)
    entry = entry_at(documents, step.path) if documents is not None else None
    if documents is None or entry is None or not isinstance(step.change, Move):
        return None
    made, meant = _moved(content, documents, entry, step.change)
    if made is None:
        return None
    expected = [plain(document) for document in documents]
    meant(expected)
    again = composed(made)
    if again is None or [plain(document) for document in again] != expected:
        return None
    return made


_Made = tuple[str | None, Callable[[Any], None]]
"""The text, and what the change does to the values of its documents."""
_NOTHING: _Made = (None, lambda _: None)


def _offset(place: Location, starts: Sequence[int]) -> int | None:
    if place.line is None or place.column is None or place.line > len(starts):
        return None
    return starts[place.line - 1] + place.column - 1


# Scalars ------------------------------------------------------------------------------------------


_Splice = tuple[int, int, str]
"""The first character of a part, the one after its last, and what is to stand there."""


def _renamed(content: str, entry: Entry, name: str) -> _Splice | None:
    key = entry.key
    if key is None or content[key.start_mark.index] in "&!*?" or name in _keys(entry.holder):
        return None
    return key.start_mark.index, key.end_mark.index, _written(name, key.style)


def _keys(node: Node | None) -> list[str]:
    return [key.value for key, _ in node.value] if isinstance(node, MappingNode) else []


def _quoted(content: str, entry: Entry) -> _Splice | None:
    node = entry.value
    start, end = node.start_mark.index, node.end_mark.index
    text = content[start:end]
    if not isinstance(node, ScalarNode) or node.style or not text or text[0] in "&!*":
        return None
    return None if _BREAK.search(text) else (start, end, json.dumps(text, ensure_ascii=False))


def _replaced(content: str, entry: Entry, value: str | float) -> _Splice | None:
    node = entry.value
    start, end = node.start_mark.index, node.end_mark.index
    old = content[start:end]
    if not isinstance(node, ScalarNode) or not old or old[0] in "&!*|>" or _BREAK.search(old):
        return None
    return start, end, _written(value, node.style) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> ScalarNode | None:
    """What a text is read as by itself, if that is a scalar."""
    found = composed(text) or []
    return found[0] if len(found) == 1 and isinstance(found[0], ScalarNode) else None


def _written(text: str, style: str | None) -> str:
    """A text as a scalar, in the quotes that stood there before."""
    if style == "'":
        return "'" + text.replace("'", "''") + "'"
    if style != '"' and _PLAIN.fullmatch(text):
        node = _scalar(text)
        if node is not None and node.tag == "tag:yaml.org,2002:str":
            return text
    return json.dumps(text, ensure_ascii=False)


# Whole fields -------------------------------------------------------------------------------------


class _Lines(Struct, frozen=True):
    """The lines of a field, and of the comments that stand right above it.

    Args:
        start: Offset of their first character.
        end: Offset after the break of their last line, if it has one.
        column: How far the field is indented.
    """

    start: int
    end: int
    column: int


def _lines(content: str, entry: Entry) -> _Lines | None:
    """The lines that a field has for itself; None if it shares one."""
    key = entry.key
    if key is None or not isinstance(entry.holder, MappingNode) or entry.holder.flow_style:
        return None
    start = content.rfind("\n", 0, key.start_mark.index) + 1
    if content[start : key.start_mark.index].strip(" "):
        return None  # the first field of an item stands after the dash
    column = key.start_mark.index - start
    while start > 0:
        above = content.rfind("\n", 0, start - 1) + 1
        line = content[above:start]
        if not re.match(rf" {{{column}}}#", line):
            break
        start = above
    end = max(end_of(entry.value), key.end_mark.index + 1)
    end = len(content[:end].rstrip())
    line_end = content.find("\n", end)
    return _Lines(start, len(content) if line_end < 0 else line_end + 1, column)


def _moved(content: str, documents: Sequence[Node], entry: Entry, move: Move) -> _Made:
    target: Path = (*entry.path[: -move.up], *move.down)
    if move.up >= len(entry.path) or entry_at(documents, target) is not None:
        return _NOTHING
    # The innermost mapping on the way that is there, and the keys of those that are not.
    depth = len(target) - 1
    while (home := entry_at(documents, target[:depth])) is None:
        depth -= 1
    missing = [str(key) for key in target[depth:-1]]
    if _is_in_brackets(entry.holder) or _is_in_brackets(home.value):
        made = _moved_in_brackets(content, home, entry, missing)
        return made, _meaning(entry.path, target, depth, [])
    lines = _lines(content, entry)
    if lines is None:
        return _NOTHING
    block = content[lines.start : lines.end]
    rest = _without(content, documents, entry, lines)
    if rest is None:
        return _NOTHING
    text, gone = rest
    step = _indentation(documents, entry)
    room = _room(content, home, entry, lines, step)
    if room is None:
        return _NOTHING
    at, column = room
    newline = "\r\n" if "\r\n" in content else "\n"
    inner = column + step * len(missing)
    made = _indented(block, lines.column, inner)
    if made is None:
        return _NOTHING
    heads = (f"{' ' * (column + step * n)}{key}:" for n, key in enumerate(missing))
    inserted = "".join(f"{head}{newline}" for head in heads)
    inserted += made if made.endswith("\n") else f"{made}{newline}"
    if at > lines.start:
        at -= len(content) - len(text)
    if at > 0 and text[at - 1] != "\n":
        inserted = newline + inserted.removesuffix(newline)
    return f"{text[:at]}{inserted}{text[at:]}", _meaning(entry.path, target, depth, gone)


def _meaning(source: Path, target: Path, depth: int, gone: Sequence[Path]) -> Callable[[Any], None]:
    """What a move does to the values of the documents.

    Args:
        source: Where the field stands.
        target: Where it is to stand.
        depth: How much of the way to there is a mapping already.
        gone: The mappings that are left empty by that, and go away.
    """

    def meant(documents: Any) -> None:
        value = _at(documents, source[:-1]).pop(source[-1])
        for path in gone:
            _at(documents, path[:-1]).pop(path[-1])
        holder = _at(documents, target[:depth])
        if not isinstance(holder, dict):
            _at(documents, target[: depth - 1])[target[depth - 1]] = holder = {}
        for key in target[depth:-1]:
            holder[key] = holder = {}
        holder[target[-1]] = value

    return meant


def _is_in_brackets(node: Node | None) -> bool:
    """Whether a mapping is written as `{a: 1}`, as all of JSON is."""
    return isinstance(node, MappingNode) and bool(node.flow_style)


def _moved_in_brackets(
    content: str, home: Entry, entry: Entry, missing: Sequence[str]
) -> str | None:
    """The text with a field in another mapping, where one of the two is written in brackets.

    Args:
        content: The text.
        home: The mapping to put it into, or to put those into that are missing.
        entry: The field.
        missing: The keys of the mappings between `home` and the field.
    """
    key, holder = entry.key, entry.holder
    if key is None or not isinstance(holder, MappingNode):
        return None
    start, end = key.start_mark.index, entry.value.end_mark.index
    field = content[start:end]
    if _is_in_brackets(holder) and home.value is holder:
        # It gets mappings around it where it stands.
        heads = "".join(f"{_written(name, key.style)}: {{" for name in missing)
        return _spliced(content, (start, end), f"{heads}{field}{'}' * len(missing)}")
    gone = _brackets_span(content, entry) if _is_in_brackets(holder) else _line_span(content, entry)
    node = home.value
    if gone is None or missing or not isinstance(node, MappingNode) or not node.flow_style:
        return None
    if node.value:
        first, last = node.value[0][0], node.value[-1]
        at = last[1].end_mark.index
        is_spread = last[0].start_mark.line > node.start_mark.line
        lead = _line_start(content, first) if is_spread else " "
        added = (at, at, f",{lead}{field}")
    else:
        at = node.start_mark.index + 1
        added = (at, at, field)
    for begin, after, text in sorted((added, (*gone, "")), reverse=True):
        content = _spliced(content, (begin, after), text)
    return content


def _line_start(content: str, node: Node) -> str:
    """The break and the blanks before what stands first on its line; a blank if it does not."""
    index = int(node.start_mark.index)
    found = re.search(r"(?:\r\n|\n|\r)[ \t]*\Z", content[:index])
    return found[0] if found else " "


def _brackets_span(content: str, entry: Entry) -> tuple[int, int] | None:
    """Where a field of a mapping in brackets stands, with the comma that is its own."""
    holder, key = entry.holder, entry.key
    if not isinstance(holder, MappingNode) or key is None or len(holder.value) == 1:
        return None
    number = next(n for n, pair in enumerate(holder.value) if pair[0] is key)
    start, end = int(key.start_mark.index), int(entry.value.end_mark.index)
    if number + 1 < len(holder.value):
        end, between = int(holder.value[number + 1][0].start_mark.index), end
        gap = content[between:end]
    else:
        start, between = int(holder.value[number - 1][1].end_mark.index), start
        gap = content[start:between]
    return (start, end) if re.fullmatch(r"\s*,\s*", gap) else None


def _line_span(content: str, entry: Entry) -> tuple[int, int] | None:
    """The line of a field that has one for itself, and no comment that would be lost."""
    lines, key = _lines(content, entry), entry.key
    if lines is None or key is None or not isinstance(entry.holder, MappingNode):
        return None
    text = content[lines.start : lines.end]
    alone = content[key.start_mark.index : entry.value.end_mark.index]
    is_text = isinstance(entry.value, ScalarNode) and entry.value.style in ("|", ">")
    if text.strip() != alone or _BREAK.search(alone) or is_text or len(entry.holder.value) == 1:
        return None
    return lines.start, lines.end


def _without(
    content: str, documents: Sequence[Node], entry: Entry, lines: _Lines
) -> tuple[str, list[Path]] | None:
    """The text without a field, and without the mappings that are left empty by that."""
    gone: list[Path] = []
    span = lines.start, lines.end
    path = entry.path
    while True:
        holder = entry_at(documents, path[:-1])
        if holder is None or not isinstance(holder.value, MappingNode):
            return None
        if len(holder.value.value) > 1:
            return _spliced(content, span, ""), gone
        outer = _lines(content, holder)
        if outer is None:
            return None
        if content[outer.start : span[0]].count("\n") > 1 or content[span[1] : outer.end].strip():
            return None  # comments stand between
        gone.append(holder.path)
        span, path = (outer.start, outer.end), holder.path


def _indentation(documents: Sequence[Node], entry: Entry) -> int:
    """By how much a document indents its mappings, such as that which holds a field."""
    key, above = entry.key, entry_at(documents, entry.path[:-1])
    if key is None or above is None or above.key is None:
        return _INDENT
    return max(int(key.start_mark.column - above.key.start_mark.column), 1)


def _room(
    content: str, home: Entry, entry: Entry, lines: _Lines, step: int
) -> tuple[int, int] | None:
    """Where the lines of another field of a mapping go, and how far they are indented."""
    node = home.value
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        if node is entry.holder:
            return lines.start, lines.column  # it gets a mapping around it where it stands
        last_key, last = node.value[-1]
        begin = int(node.value[0][0].start_mark.index)
        column = begin - (content.rfind("\n", 0, begin) + 1)
        end = max(end_of(last), int(last_key.end_mark.index) + 1)
        line_end = content.find("\n", len(content[:end].rstrip()))
        return (len(content) if line_end < 0 else line_end + 1), column
    written = content[node.start_mark.index : node.end_mark.index]
    own = _lines(content, home)
    if own is None or written or not isinstance(node, ScalarNode):
        return None
    return own.end, own.column + step


def _indented(block: str, before: int, after: int) -> str | None:
    """Lines that were indented so far, indented otherwise; None if one stands further left."""
    made = []
    for line in lines_of(block):
        if not line.strip():
            made.append(line)
        elif line.startswith(" " * before):
            made.append(" " * after + line[before:])
        else:
            return None
    return "".join(made)


def _spliced(content: str, span: tuple[int, int], text: str) -> str:
    return f"{content[: span[0]]}{text}{content[span[1] :]}"


def _at(documents: Any, path: Path) -> Any:
    value = documents
    for step in path:
        value = value[step]
    return value
