# ruff: noqa: E501 - a row a problem
"""Explain syntax errors of a YAML parser to people.

libyaml names the rule of its grammar that failed, and often the place where it noticed rather than
the place of the mistake. From experience, this module maps its phrases to the usual mistake, its
place, and advice.
"""

import re

from yaml.error import MarkedYAMLError

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.load.access import Limits
from etcompile.load.source_text import Text

_NO_SPACE = re.compile(r"\s*(?:- +)*([A-Za-z_][\w./-]*):(?!//)[^\s:]")
_CONFLICT = r"^(?:<{7} |={7}\r?$|>{7} )"
_UNCLOSED = "one of the lines above may lack its closing quote or bracket"
_QUOTE_VALUE = "put the whole value in quotes"

_Problem = tuple[int, str, str]  # the offset to point at, the problem, and advice

_RARE = (
    # words of the parser, whether to point at the start of the context, problem, advice
    ("sequence entries are not", False, "a list item '- ' cannot begin here", "begin the list on a line of its own"),
    ("mapping keys are not allowed", False, "a '? ' key cannot begin here", "quote the '?'"),
    ("alphabetic or numeric", True, "'*' and '&' begin an alias or an anchor, and no name follows", _QUOTE_VALUE),
    ("unknown escape", False, "unknown escape in double quotes", "use single quotes, or double the backslash"),
    ("escape code", False, "unknown escape in double quotes", "use single quotes, or double the backslash"),
    ("hexdecimal", False, "unknown escape in double quotes", "use single quotes, or double the backslash"),
    ("undefined tag handle", False, "a value cannot begin with '!' unless it is a tag", _QUOTE_VALUE),
    ("comment or line break", True, "text after '|' or '>' on the same line", "begin the text on the next line"),
    ("chomping", True, "text after '|' or '>' on the same line", "begin the text on the next line"),
    ("<document start>", False, "text after the end of the document", "begin a new document with a line '---'"),
    ("incompatible YAML", False, "another version of YAML than 1.1 and 1.2", "remove this line"),
)  # fmt: skip


def syntax_problem(text: Text, error: Exception, limits: Limits) -> Diagnostic:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        at = error.problem_mark.index
        if error.problem == "exceeded maximum nesting depth":
            # libyaml, from 0.2.6 on, reads a line ahead of its events, so it may reach its limit of
            # 1,000 levels before the reader of the events reaches the lower one.
            return diagnose(codes.NESTING_TOO_DEEP, text.location(at), limit=limits.depth)
        context = error.context_mark.index if error.context_mark else at
        words = error.problem or ""
        # PyYAML's parser says otherwise what libyaml says.
        if words.startswith("expected <block end>"):
            lacking = "key" if (error.context or "").endswith("mapping") else "'-' indicator"
            words = f"did not find expected {lacking}"
        elif match := re.match(r"expected ',' or '.'", words):
            words = f"did not find {match[0]}"
        start, problem, advice = _reworded(text, words, context, at)
    else:
        # An escape in a tag that is not UTF-8 reaches Python without a place.
        start = max(text.content.find("!"), 0)
        problem, advice = "this tag cannot be read", _QUOTE_VALUE
    return diagnose(codes.YAML_SYNTAX, text.location(start), problem=problem, advice=advice)


def merge_conflict(text: Text) -> Diagnostic | None:
    if (marker := re.search(_CONFLICT, text.content, re.MULTILINE)) is None:
        return None
    problem = "a merge conflict is not resolved"
    advice = "keep one of the two sides, and remove the lines <<<<<<<, ======= and >>>>>>>"
    place = text.location(marker.start())
    return diagnose(codes.YAML_SYNTAX, place, problem=problem, advice=advice)


def _reworded(text: Text, problem: str, context: int, at: int) -> _Problem:
    """Explain the parser's `problem` at offset `at`, in a node that began at offset `context`."""
    content = text.content
    here = content[at : at + 1]
    no_token = "cannot start any token" in problem
    if (no_token or "node content" in problem) and re.search(r"\{[{%]", _line(text, at)):
        advice = "render the template first, and compile what it gives"
        return at, "this looks like a template", advice
    if "tab character" in problem or (here == "\t" and "cannot start" in problem):
        return at, "a tab cannot indent", "indent with spaces; most editors can convert tabs"
    if no_token:
        return at, f"a value cannot begin with '{here}'", _QUOTE_VALUE
    if problem.startswith("mapping values are not allowed"):
        return _unexpected_colon(text, at)
    quote = content[at - 1 : at]
    if problem.startswith("did not find") and quote in ("'", '"') and here not in "]},:#":
        wrong = "this quote is closed by the next one, and more text follows"
        advice = f"add the closing {quote} where it belongs; inside quotes, double it ('' or \\\")"
        return content.rfind(quote, 0, at - 1), wrong, advice
    if problem == "could not find expected ':'":
        if match := _NO_SPACE.match(_line(text, context)):
            return context, f"no space after '{match[1]}:'", "put a space after the colon"
        advice = "add the colon, or put text over several lines in quotes"
        return context, "this line is neither 'key: value' nor '- item'", advice
    if problem.startswith(("found unexpected end of stream", "found unexpected document")):
        return context, "this quote is never closed", f"add the closing {content[context]}"
    if problem in ("did not find expected ',' or ']'", "did not find expected ',' or '}'"):
        opening = content[context : context + 1]
        closing = "]" if opening == "[" else "}"
        if at >= len(content.rstrip()) or text.line(at) != text.line(context):
            return context, f"this '{opening}' is never closed", f"add the closing '{closing}'"
        advice = f"separate the items with ', ' or add '{closing}'"
        return at, f"expected ',' or '{closing}' here", advice
    if problem in ("did not find expected key", "did not find expected '-' indicator"):
        return _misplaced(text, problem, context, at)
    for words, at_context, wrong, advice in _RARE:
        if words in problem:
            return context if at_context else at, wrong, advice
    if "node content" in problem and here:
        return at, f"a value cannot begin with '{here}'", "quote it, or remove it"
    if not here:
        return at, "the text ends where a value should be", _UNCLOSED
    return at, problem or "it breaks off here", _UNCLOSED


def _unexpected_colon(text: Text, at: int) -> _Problem:
    line = _line(text, at)
    column = at - (text.content.rfind("\n", 0, at) + 1)
    before = line[:column]
    if line[: column + 1].count(": ") or ":" in before:
        advice = "put the value in quotes if the ':' belongs to it; else begin a new line"
        return at, "a second ':' on this line", advice
    start = at - len(before.lstrip())
    begin = text.content.rfind("\n", 0, at)
    above = text.content[: max(begin, 0)].rstrip().rpartition("\n")[2]
    if match := _NO_SPACE.match(above):
        advice = f"put a space after the colon of '{match[1]}:' on the line above"
        return start, "this key continues the text of the line above", advice
    indent, indent_above = (len(each) - len(each.lstrip(" ")) for each in (line, above))
    if indent <= indent_above:
        advice = "add the ':' that the line above lacks, or put its text in quotes"
        return start, "this key continues the text of the line above", advice
    advice = "indent it like its siblings; text over several lines needs quotes or '|'"
    return start, "this key is indented as if it belonged to the value above", advice


def _misplaced(text: Text, problem: str, context: int, at: int) -> _Problem:
    begin = text.location(context)
    if text.content[text.content.rfind("\n", 0, at) + 1 : at].strip():
        advice = "begin a new line, or put all of it in quotes"
        return at, "more text after a value that had ended", advice
    is_key = problem.endswith("key")
    if is_key and text.content[at : at + 1] in ("]", "}"):
        advice = "remove it, or add the opening one"
        return at, "a closing bracket without its opening one", advice
    if text.location(at).column != begin.column:
        wrong = "the indentation of this line matches no line above"
        advice = (
            f"align it with the line above, or begin it in column {begin.column} like line"
            f" {begin.line}"
        )
        return at, wrong, advice
    if is_key:
        wrong = f"no key of the mapping that begins on line {begin.line}"
        return at, wrong, "write 'key: value' here, or indent a list under its key"
    wrong = f"no item of the list that begins on line {begin.line}"
    return at, wrong, "begin it with '- ', or indent it under its item"


def _line(text: Text, offset: int) -> str:
    content = text.content
    end = content.find("\n", offset)
    return content[content.rfind("\n", 0, offset) + 1 : len(content) if end < 0 else end]
