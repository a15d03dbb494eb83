"""What a YAML parser could not read, in words for people.

libyaml names the rule of its grammar that failed, and often where it noticed rather than where
the mistake is. This module turns its phrases into what is usually wrong and what to do, with the
place to look at; it is apart because it is a table of experience, not part of reading.
"""

import re

from msgspec import Struct
from yaml.error import MarkedYAMLError

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.load.text import Text

_NO_SPACE = re.compile(r"\s*(?:- +)*([A-Za-z_][\w./-]*):(?!//)[^\s:]")
_KEY_ONLY = "one of the lines above may lack its closing quote or bracket"


class SyntaxProblem(Struct, frozen=True):
    """A reworded parser error.

    Args:
        start: Offset to point at.
        problem: What is wrong, in one line.
        advice: What to do.
    """

    start: int
    problem: str
    advice: str


def syntax_problem(text: Text, error: Exception) -> tuple[int, Diagnostic]:
    """ET1005 for an error of the YAML parser.

    Args:
        text: The text it read.
        error: What it raised.

    Returns:
        The offset at which the parser gave up, and the diagnostic.
    """
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        at = error.problem_mark.index
        context = error.context_mark.index if error.context_mark else at
        problem = _as_libyaml(error.problem or "", error.context or "")
        found = _reworded(text, problem, context, at)
    else:
        # An escape in a tag that is not UTF-8 reaches Python without a place.
        at = max(text.content.find("!"), 0)
        found = SyntaxProblem(at, "this tag cannot be read", "put the whole value in quotes")
    location = text.location(found.start)
    facts = {"problem": found.problem, "advice": found.advice}
    return at, diagnose(codes.YAML_SYNTAX, location, **facts)


def nested_too_deep(error: Exception) -> int | None:
    """The offset of a bracket that libyaml, from 0.2.6 on, refuses as nested 1,000 levels deep.

    It reads a line ahead of the events it gives, so that it can come to its own limit before the
    reader of the events comes to the lower one that holds here.
    """
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return None
    if error.problem != "exceeded maximum nesting depth":
        return None
    return int(error.problem_mark.index)


def _as_libyaml(problem: str, context: str) -> str:
    """The problem in libyaml's words, where PyYAML's own parser has others."""
    if problem.startswith("expected <block end>"):
        lacking = "key" if context.endswith("mapping") else "'-' indicator"
        return f"did not find expected {lacking}"
    if found := re.match(r"expected ',' or '.'", problem):
        return f"did not find {found[0]}"
    return problem


def _reworded(text: Text, problem: str, context: int, at: int) -> SyntaxProblem:
    """The parser's `problem` at offset `at`, inside what began at offset `context`."""
    content = text.content
    here = content[at : at + 1]
    unreadable = "cannot start any token" in problem or "node content" in problem
    if unreadable and re.search(r"\{[{%]", _line(text, at)):
        return SyntaxProblem(
            at,
            "this looks like a template",
            "render the template first, and compile what it gives",
        )
    if "tab character" in problem or (here == "\t" and "cannot start" in problem):
        return SyntaxProblem(
            at, "a tab cannot indent", "indent with spaces; most editors can convert tabs"
        )
    if "cannot start any token" in problem:
        return SyntaxProblem(
            at, f"a value cannot begin with '{here}'", "put the whole value in quotes"
        )
    if problem.startswith("mapping values are not allowed"):
        return _unexpected_colon(text, at)
    if problem == "could not find expected ':'":
        return _without_colon(text, context)
    if problem.startswith(("found unexpected end of stream", "found unexpected document")):
        return SyntaxProblem(
            context, "this quote is never closed", f"add the closing {content[context]}"
        )
    if problem in ("did not find expected ',' or ']'", "did not find expected ',' or '}'"):
        return _flow(text, context, at)
    if problem in ("did not find expected key", "did not find expected '-' indicator"):
        return _misplaced(text, problem, context, at)
    return _rare(problem, context, at, here)


def _unexpected_colon(text: Text, at: int) -> SyntaxProblem:
    line = _line(text, at)
    if line[: text.location(at).column or 1].count(": ") or ":" in line[: _column(text, at)]:
        return SyntaxProblem(
            at,
            "a second ':' on this line",
            "put the value in quotes if the ':' belongs to it; else begin a new line",
        )
    start = at - len(line[: _column(text, at)].lstrip())
    above = _line_above(text, at)
    if found := _NO_SPACE.match(above):
        return SyntaxProblem(
            start,
            "this key continues the text of the line above",
            f"put a space after the colon of '{found[1]}:' on the line above",
        )
    if _indentation(line) <= _indentation(above):
        return SyntaxProblem(
            start,
            "this key continues the text of the line above",
            "add the ':' that the line above lacks, or put its text in quotes",
        )
    return SyntaxProblem(
        start,
        "this key is indented as if it belonged to the value above",
        "indent it like its siblings; text over several lines needs quotes or '|'",
    )


def _without_colon(text: Text, context: int) -> SyntaxProblem:
    if found := _NO_SPACE.match(_line(text, context)):
        return SyntaxProblem(
            context, f"no space after '{found[1]}:'", "put a space after the colon"
        )
    return SyntaxProblem(
        context,
        "this line is neither 'key: value' nor '- item'",
        "add the colon, or put text over several lines in quotes",
    )


def _flow(text: Text, context: int, at: int) -> SyntaxProblem:
    opening = text.content[context : context + 1]
    closing = "]" if opening == "[" else "}"
    line = text.line(context)
    if at >= len(text.content.rstrip()) or text.line(at) != line:
        return SyntaxProblem(
            context, f"this '{opening}' is never closed", f"add the closing '{closing}'"
        )
    return SyntaxProblem(
        at, f"expected ',' or '{closing}' here", f"separate the items with ', ' or add '{closing}'"
    )


def _misplaced(text: Text, problem: str, context: int, at: int) -> SyntaxProblem:
    begin = text.location(context)
    before = _line(text, at)[: _column(text, at)]
    if before.strip():
        return SyntaxProblem(
            at,
            "more text after a value that had ended",
            "a quote inside quotes is doubled ('' or \\\"); otherwise begin a new line",
        )
    if problem.endswith("key") and text.content[at : at + 1] in ("]", "}"):
        return SyntaxProblem(
            at, "a closing bracket without its opening one", "remove it, or add the opening one"
        )
    if text.location(at).column != begin.column:
        return SyntaxProblem(
            at,
            "this line is indented like no line above that it could belong to",
            f"align it with the line above, or begin it in column {begin.column} like line"
            f" {begin.line}",
        )
    if problem.endswith("key"):
        return SyntaxProblem(
            at,
            f"no key of the mapping that begins on line {begin.line}",
            "write 'key: value' here, or indent a list under its key",
        )
    return SyntaxProblem(
        at,
        f"no item of the list that begins on line {begin.line}",
        "begin it with '- ', or indent it under its item",
    )


def _rare(problem: str, context: int, at: int, here: str) -> SyntaxProblem:
    if "sequence entries are not" in problem:
        return SyntaxProblem(
            at, "a list item '- ' cannot begin here", "begin the list on a line of its own"
        )
    if "mapping keys are not allowed" in problem:
        return SyntaxProblem(at, "a '? ' key cannot begin here", "quote the '?'")
    if "alphabetic or numeric" in problem:
        return SyntaxProblem(
            context,
            "'*' and '&' begin an alias or an anchor, and no name follows",
            "put the whole value in quotes",
        )
    if "unknown escape" in problem or "escape code" in problem or "hexdecimal" in problem:
        return SyntaxProblem(
            at, "unknown escape in double quotes", "use single quotes, or double the backslash"
        )
    if "undefined tag handle" in problem:
        return SyntaxProblem(
            at, "a value cannot begin with '!' unless it is a tag", "put the whole value in quotes"
        )
    if "comment or line break" in problem or "chomping" in problem:
        return SyntaxProblem(
            context, "text after '|' or '>' on the same line", "begin the text on the next line"
        )
    if "node content" in problem and here:
        return SyntaxProblem(at, f"a value cannot begin with '{here}'", "quote it, or remove it")
    if "<document start>" in problem:
        return SyntaxProblem(
            at, "text after the end of the document", "begin a new document with a line '---'"
        )
    if "incompatible YAML" in problem:
        return SyntaxProblem(at, "another version of YAML than 1.1 and 1.2", "remove this line")
    if not here:
        return SyntaxProblem(at, "the text ends where a value should be", _KEY_ONLY)
    words = problem.replace("hexdecimal", "hexadecimal")
    return SyntaxProblem(at, words or "it breaks off here", _KEY_ONLY)


def _line(text: Text, offset: int) -> str:
    content = text.content
    end = content.find("\n", offset)
    return content[content.rfind("\n", 0, offset) + 1 : len(content) if end < 0 else end]


def _line_above(text: Text, offset: int) -> str:
    begin = text.content.rfind("\n", 0, offset)
    above = text.content[: max(begin, 0)].rstrip()
    return above[above.rfind("\n") + 1 :]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _column(text: Text, offset: int) -> int:
    """How many characters stand before `offset` on its line."""
    return offset - (text.content.rfind("\n", 0, offset) + 1)
