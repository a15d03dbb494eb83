"""A YAML mistake is told where it is, in words, with what to do."""

import pytest

from etcompile.load import parse

MISTAKES = [
    # text, place, what the message says, what the hint says
    ("a:\n\tb: 1\n", "2:1", "a tab cannot indent", "spaces"),
    ("a: |\n x\n\ty\n", "3:1", "a tab cannot indent", "spaces"),
    ("a: 1\nname:foo\nb: 2\n", "2:1", "no space after 'name:'", "space after the colon"),
    ("replicas:2\nx: 1\n", "2:1", "continues", "after the colon of 'replicas:'"),
    ("a: 1\nword\nb: 2\n", "2:1", "neither 'key: value' nor '- item'", "add the colon"),
    ("word\nb: 2\n", "2:1", "continues", "the ':' that the line above lacks"),
    ("a: b: c\n", "1:5", "a second ':'", "quotes"),
    ("command: echo hi: there\n", "1:17", "a second ':'", "quotes"),
    ("a: 1\n  b: 2\n", "2:3", "indented as if it belonged", "siblings"),
    ("a:\n  b: 1\n c: 2\n", "3:2", "indentation of this line matches no line above", "line 1"),
    ("a:\n  - 1\n - 2\n", "3:2", "indentation of this line matches no line above", "align"),
    ("a: 1\n- b\n", "2:1", "no key of the mapping that begins on line 1", "indent a list"),
    ("- a\nb: 1\n", "2:1", "no item of the list that begins on line 1", "'- '"),
    ("a: 'x\nb: 2\n", "1:4", "this quote is never closed", "closing '"),
    ('a: "x\nb: 2\n', "1:4", "this quote is never closed", 'closing "'),
    ("a: 'it's'\n", "1:4", "closed by the next one, and more text follows", "double it"),
    ('a: "x\nb: "y"\n', "1:4", "closed by the next one, and more text follows", 'closing "'),
    ('a: ["x, "y"]\n', "1:5", "closed by the next one, and more text follows", 'closing "'),
    ("a: [x] y\n", "1:8", "more text after a value", "new line"),
    ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> x\n", "2:1", "merge conflict", "sides"),
    ('{"a": 1,\n<<<<<<< HEAD\n"b": 2\n=======\n"b": 3}\n', "2:1", "merge conflict", "sides"),
    ("a: |\n  x\n=======\n  y\n", "3:1", "merge conflict", "sides"),
    ("a: [1,\nb: 2\n", "1:4", "this '[' is never closed", "']'"),
    ("a: {b: 1\nc: 2\n", "1:4", "this '{' is never closed", "'}'"),
    ("a: {b: 1 c: 2}\n", "1:11", "expected ',' or '}' here", "', '"),
    ("a: 1\n}\n", "2:1", "a closing bracket without its opening one", "remove"),
    ("a: @x\n", "1:4", "cannot begin with '@'", "quotes"),
    ("a: `x`\n", "1:4", "cannot begin with '`'", "quotes"),
    ("a: %x\n", "1:4", "cannot begin with '%'", "quotes"),
    ("a: *.yaml\n", "1:4", "begin an alias or an anchor", "quotes"),
    ("a: !x!y 1\n", "1:4", "cannot begin with '!'", "quotes"),
    ("a: !%ED%A0%80 x\n", "1:4", "this tag cannot be read", "quotes"),
    ('a: "\\d"\n', "1:5", "unknown escape", "single quotes"),
    ("a: - 1\n", "1:4", "a list item '- ' cannot begin here", "line of its own"),
    ("a: >x\n b\n", "1:4", "text after '|' or '>'", "next line"),
    ("a: &x &y z\n", "1:4", "", ""),
    ("{{- if .x }}\na: 1\n", "1:3", "looks like a template", "render it first with the program"),
    ("a: {{- .x }}\n", "1:6", "looks like a template", "placeholder"),
    ("%YAML 2.0\n---\na: 1\n", "1:1", "another version of YAML", "remove"),
]


@pytest.mark.parametrize(("text", "place", "message", "hint"), MISTAKES)
def test_a_syntax_error_says_what_is_wrong_where_and_what_to_do(text, place, message, hint):
    loaded = parse(text)
    (problem,) = loaded.diagnostics
    line, column = map(int, place.split(":"))
    assert problem.code == "ET1005"
    assert message in problem.message
    assert hint in problem.hint
    assert problem.location.line == line
    assert problem.location.text == text.splitlines()[line - 1]
    if message:
        assert problem.location.column == column
    assert loaded.documents == ()


def test_a_template_that_is_yaml_by_accident_is_called_a_template():
    (problem,) = parse("apiVersion: v1\nkind: A\na: {{ .Values.x }}\n").diagnostics
    assert (problem.code, problem.location.line, problem.location.column) == ("ET1015", 3, 4)
    assert "template" in problem.message


def test_a_mistake_in_a_later_document_has_the_line_of_the_file():
    (problem,) = parse("apiVersion: v1\nkind: A\n---\nb: 'x\n").diagnostics
    assert str(problem.location) == "-:4:4"
