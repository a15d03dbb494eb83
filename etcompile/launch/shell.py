"""A container's command line to the simple commands that it runs, scripts of `sh -c` included.

A reader of POSIX shell grammar that executes nothing: what only the shell knows (variables,
substitutions, branches) is marked as not known, so that a rule can say nothing instead of guessing.
Apart from what the commands mean, which `launchers` and `commands` know.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})

_MOST_DIGITS = 18
_DEEPEST = 4
"""Scripts within scripts that are read, and brackets within brackets."""


def _balanced(opening: str, closing: str) -> str:
    """A pattern of what stands between a pair of brackets, with pairs inside it."""
    plain = rf"[^{opening}{closing}'\\]|'[^']*'|\\."
    pattern = rf"\{opening}(?:{plain})*+\{closing}"
    for _ in range(_DEEPEST):
        pattern = rf"\{opening}(?:{plain}|{pattern})*+\{closing}"
    return pattern


_COMMAND = _balanced("(", ")")
_EXPANSION = (
    rf"(?>\$(?:{_COMMAND}|{_balanced('{', '}')}|'[^']*'|\w+|[@*#?$!-])|`[^`]*`|\$(?![({{]))"
)
_BLANK = r"(?:[ \t\r]|\\\n|#[^\n]*)+"
_REDIRECT = r"(?:&>>?|[0-9]*(?:<<<|<<-?|<>|<&|>>|>&|>\||[<>](?!\()))[ \t]*"
_OPERATOR = r"&&|\|\||;;|\|&|[;|&()\n]"
_PART = (
    rf"""(?as)(?P<plain>[^ \t\r\n;&|()<>'"\\$`*?{{]+)|'(?P<single>[^']*)'|\\(?P<escaped>.?)"""
    rf"""|"(?P<double>(?:[^"\\$`]|\\.|{_EXPANSION})*+)"|(?P<expansion>{_EXPANSION}|[<>]{_COMMAND})"""
    r"|(?P<pattern>[*?{])"
)
# Texts, which `re` compiles and keeps for the few jobs with a script.

_OPENING = frozenset({"if", "while", "until", "for", "case", "select", "function"})
_CLOSING = frozenset({"fi", "done", "esac"})
_CLAUSES = frozenset({"then", "else", "elif", "do", "{", "}", "!"})
_HEADERS = frozenset({"for", "case", "select", "function"})
"""Reserved words whose line is no command."""
_TESTS = frozenset({"[", "[[", "test", "grep", "command", "which", "type", "!"})
"""Commands that decide whether what stands behind `&&` runs."""

_WRAPPERS: Mapping[str, tuple[frozenset[str], int]] = {
    # Program: its options with a value of their own, and its arguments before the command.
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "exec": (frozenset({"-a"}), 0),
    "time": (frozenset({"-f", "-o", "--format", "--output"}), 0),
    "nohup": (frozenset(), 0),
    "setsid": (frozenset(), 0),
    "command": (frozenset(), 0),
    "builtin": (frozenset(), 0),
    "unbuffer": (frozenset(), 0),
    "catchsegv": (frozenset(), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "nice": (frozenset({"-n", "--adjustment"}), 0),
    "ionice": (frozenset({"-c", "-n", "--class", "--classdata"}), 0),
    "sudo": (frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group"}), 0),
    "timeout": (frozenset({"-k", "-s", "--kill-after", "--signal"}), 1),
    "tini": (frozenset({"-p", "-e"}), 0),
    "docker-init": (frozenset({"-p", "-e"}), 0),
    "dumb-init": (frozenset({"-r", "--rewrite"}), 0),
    "gosu": (frozenset(), 1),
    "su-exec": (frozenset(), 1),
    "numactl": (frozenset({"-i", "-m", "-N", "-C", "-p"}), 0),
    "xvfb-run": (frozenset({"-n", "-e", "-f", "-s", "-w", "-p"}), 0),
}
_LOOKS_UP = {"command": ("-v", "-V"), "env": ("-S", "--split-string")}
"""Options with which a wrapper runs no command that could be read."""


def whole_number(text: str) -> int | None:
    """The number that decimal digits spell; None for any other text, and for endless digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


class Word(Struct, frozen=True):
    """A word of a command line.

    Args:
        text: The word without its quotes; expansions stand in it as they are written.
        literal: Whether the program gets exactly this text.
        quoted: Whether any of it stands in quotes, so that it is no reserved word.
    """

    text: str
    literal: bool = True
    quoted: bool = False


class Command(Struct, frozen=True):
    """A simple command.

    Args:
        words: The program and its arguments, behind wrappers such as `env` and `timeout`.
        sure: Whether it runs whatever happens: not in a branch, a loop or a function.
    """

    words: tuple[Word, ...]
    sure: bool = True

    @property
    def program(self) -> str:
        """The program's file name."""
        return file_name(self.words[0].text)


def file_name(path: str) -> str:
    """The last part of a program's path."""
    return path if path.isalnum() else PurePosixPath(path).name


def command_line(container: Mapping[str, Any]) -> list[str]:
    """The words of a container's command and arguments, as the kubelet runs them."""
    return [*container.get("command", ()), *container.get("args", ())]


def commands(container: Mapping[str, Any]) -> tuple[Command, ...]:
    """The simple commands that a container runs, in the order of the text.

    Returns:
        The commands; none of a script that cannot be read.
    """
    # The kubelet puts variables into $(NAME) before anything runs.
    words = tuple(Word(text, "$(" not in text) for text in command_line(container))
    return tuple(_unwrapped(Command(words), _DEEPEST)) if words else ()


def script_of(words: Sequence[str]) -> str | None:
    """The script in `bash -euo pipefail -c SCRIPT` or the like; None for any other command line."""
    if not words or file_name(words[0]) not in SHELLS:
        return None
    has_script = False
    rest = iter(words[1:])
    for word in rest:
        if word == "--" or not word.startswith(("-", "+")):
            script = next(rest, None) if word == "--" else word
            return script if has_script else None
        if not word.startswith("--"):
            has_script = has_script or "c" in word
            if word.endswith(("o", "O")):
                next(rest, None)
    return None


def script_commands(script: str, depth: int = _DEEPEST) -> Iterator[Command]:
    """The simple commands of a shell script; none if its quotes do not match."""
    for command in _simple_commands(_tokens(script)):
        yield from _unwrapped(command, depth)


# Wrappers ---------------------------------------------------------------------------------------


def _unwrapped(command: Command, depth: int) -> Iterator[Command]:
    """The command behind its wrappers; where it is a shell with a script, the script's."""
    words = command.words
    while words and words[0].literal:
        name = file_name(words[0].text)
        if name not in _WRAPPERS:
            break
        behind = _behind(name, words[1:])
        if behind is None:
            break
        words = behind
    if not words:
        return
    script = _nested(words) if depth else None
    if script is None:
        yield Command(words, command.sure)
        return
    for inner in script_commands(script.text, depth - 1):
        yield Command(inner.words, command.sure and inner.sure and script.literal)


def _nested(words: Sequence[Word]) -> Word | None:
    """The script that a command hands to a shell."""
    texts = [word.text for word in words]
    name = file_name(texts[0])
    if name == "eval":
        return Word(" ".join(texts[1:]), all(word.literal for word in words))
    if name == "su" and "-c" in texts[:-1]:
        return words[texts.index("-c") + 1]
    script = script_of(texts)
    return next((word for word in words if word.text == script), None)


def _behind(wrapper: str, words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """What a wrapper runs; None if it runs nothing that can be read."""
    valued, arguments = _WRAPPERS[wrapper]
    place = 0
    while place < len(words) and words[place].text.startswith("-"):
        text = words[place].text
        if text in _LOOKS_UP.get(wrapper, ()):
            return None
        place += 2 if text in valued else 1
        if text == "--":
            break
    place += arguments
    while place < len(words) and wrapper in ("env", "sudo") and _is_assignment(words[place].text):
        place += 1
    return words[place:]


def _is_assignment(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()


# Grammar ----------------------------------------------------------------------------------------


def _simple_commands(tokens: Sequence[Word | str]) -> Iterator[Command]:
    """The commands between the operators of a script."""
    depth, doubtful = 0, False
    words: list[Word] = []
    for operator in (*tokens, "\n"):
        if isinstance(operator, Word):
            words.append(operator)
            continue
        tests = False
        is_header = False
        while words and not words[0].quoted and not is_header:
            first = words[0].text
            if first in _OPENING:
                depth += 1
                is_header = first in _HEADERS
            elif first in _CLOSING:
                depth = max(depth - 1, 0)
            elif first not in _CLAUSES and not _is_assignment(first):
                break
            tests = tests or first == "!"
            del words[0]
        if words and not is_header:
            yield Command(tuple(words), sure=depth == 0 and not doubtful)
            tests = tests or file_name(words[0].text) in _TESTS
        words = []
        if operator in ("(", ")"):  # a subshell, a function, a pattern of `case`
            depth += 1
        # Whether the command behind this operator may not run.
        doubtful = operator in ("||", "(", ")") or (
            operator in ("&&", "|", "|&") and (doubtful or (operator == "&&" and tests))
        )


def _tokens(script: str) -> list[Word | str]:
    """The words and operators of a script, without redirections and comments.

    There are none if a quote or a bracket is never closed.
    """
    blanks, redirects, operators = map(re.compile, (_BLANK, _REDIRECT, _OPERATOR))
    tokens: list[Word | str] = []
    here_documents: list[str] = []
    at = 0
    while at < len(script):
        if blank := blanks.match(script, at):
            at = blank.end()
        elif redirect := redirects.match(script, at):
            target, at = _word(script, redirect.end())
            if target and redirect[0].strip() in ("<<", "<<-"):
                here_documents.append(target.text)
        elif operator := operators.match(script, at):
            tokens.append(operator[0])
            at = operator.end()
            while operator[0] == "\n" and here_documents:
                last = rf"(?m)^[ \t\r]*{re.escape(here_documents.pop(0))}[ \t\r]*$"
                end = re.compile(last).search(script, at)
                at = end.end() + 1 if end else len(script)
        else:
            word, at = _word(script, at)
            if word is None:
                return []
            tokens.append(word)
    return tokens


def _word(script: str, at: int) -> tuple[Word | None, int]:
    """The word that begins at a place, if one does, and the place where it ends."""
    texts: list[str] = []
    literal, quoted = True, False
    parts = re.compile(_PART)
    while part := parts.match(script, at):
        at = part.end()
        sort = str(part.lastgroup)
        text = part[sort]
        if sort == "double":
            literal = literal and re.search(_EXPANSION, text) is None
            text = re.sub(r'\\([$`"\\])|\\\n', r"\1", text)
        elif sort == "escaped":
            text = text.strip("\n")
        elif sort == "expansion" or (sort == "pattern" and (text != "{" or texts)):
            literal = False
        quoted = quoted or sort in ("single", "double")
        texts.append(text)
    return Word("".join(texts), literal, quoted) if texts else None, at
