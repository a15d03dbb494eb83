"""Parse a container's command line, and scripts of `sh -c`, into the simple commands that it runs.

The parser knows POSIX shell grammar and executes nothing. What only the shell can know (variables,
substitutions, branches) is marked as unknown, so that rules need not guess. `launchers` and
`commands` know what the commands mean.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})

_MOST_DIGITS = 18
_DEEPEST = 4  # how deep scripts within scripts are read

_OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;|&()\n]")
_REDIRECT = re.compile(r"(?![<>]\()(?:&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)")
_ORDINARY = re.compile(r"[^ \t\r\n;&|()<>'\"\\$`*?{]+")
"""Characters of a word that have no special meaning to the shell."""
_OPENING = frozenset({"if", "while", "until", "for", "case", "select", "function"})
_CLOSING = frozenset({"fi", "done", "esac"})
_CLAUSES = frozenset({"then", "else", "elif", "do", "{", "}", "!"})
_HEADERS = frozenset({"for", "case", "select", "function"})
"""Reserved words that begin a line without a command."""
_TESTS = frozenset({"[", "[[", "test", "grep", "command", "which", "type", "!"})
"""Commands that decide whether the one after `&&` runs."""

_WRAPPERS = {
    # Program: its options with a separate value.
    "env": "-u --unset -C --chdir",
    "exec": "-a",
    "time": "-f -o --format --output",
    "stdbuf": "-i -o -e",
    "nice": "-n --adjustment",
    "ionice": "-c -n --class --classdata",
    "sudo": "-u -g -h -p -C -D -R -T --user --group",
    "timeout": "-k -s --kill-after --signal",
    "tini": "-p -e",
    "docker-init": "-p -e",
    "dumb-init": "-r --rewrite",
    "numactl": "-i -m -N -C -p",
    "xvfb-run": "-n -e -f -s -w -p",
    **dict.fromkeys(("nohup", "setsid", "command", "builtin", "unbuffer", "catchsegv"), ""),
    **dict.fromkeys(("gosu", "su-exec"), ""),
}
_ARGUMENTS = {"timeout": 1, "gosu": 1, "su-exec": 1}
"""How many arguments a wrapper takes before the command."""
_NOT_RUNNING = {"command": ("-v", "-V"), "env": ("-S", "--split-string")}
"""Options with which a wrapper runs no command, or one in a single word."""


def whole_number(text: str) -> int | None:
    """Return the number in decimal digits; None for any other text, or too many digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


class Word(Struct, frozen=True):
    """A word of a command line.

    Args:
        text: The word without its quotes; expansions are unchanged.
        literal: The program gets exactly this text.
    """

    text: str
    literal: bool = True


class Command(Struct, frozen=True):
    """A simple command.

    Args:
        words: The program and its arguments, without wrappers such as `env` and `timeout`.
        sure: It runs in any case: it is not in a branch, a loop or a function.
    """

    words: tuple[Word, ...]
    sure: bool = True

    @property
    def program(self) -> str:
        return file_name(self.words[0].text)


class _Token(Struct, frozen=True):
    text: str
    is_word: bool
    literal: bool = True
    quoted: bool = False


def file_name(path: str) -> str:
    return path if path.isalnum() else PurePosixPath(path).name


def command_line(container: Mapping[str, Any]) -> list[str]:
    return [*container.get("command", ()), *container.get("args", ())]


def commands(container: Mapping[str, Any]) -> tuple[Command, ...]:
    """Return the simple commands that a container runs, in order; none if it cannot be parsed."""
    # The kubelet replaces $(NAME) by variables before the command runs.
    words = tuple(Word(text, "$(" not in text) for text in command_line(container))
    return tuple(_unwrapped(Command(words), _DEEPEST)) if words else ()


def script_of(words: Sequence[str]) -> str | None:
    """Return the script of `bash -euo pipefail -c SCRIPT`; None for any other command line."""
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


def script_words(script: str) -> list[str]:
    return [token.text for token in _tokens(script) or () if token.is_word]


def script_commands(script: str, depth: int = _DEEPEST) -> Iterator[Command]:
    """Yield the simple commands of a shell script; none if its quotes do not match."""
    nesting, doubtful = 0, False
    line: list[_Token] = []
    for token in (*(_tokens(script) or ()), _Token("\n", is_word=False)):
        if token.is_word:
            line.append(token)
            continue
        place, tests, is_header = 0, False, False
        while place < len(line) and not line[place].quoted and not is_header:
            first = line[place].text
            if first in _OPENING:
                nesting += 1
                is_header = first in _HEADERS
            elif first in _CLOSING:
                nesting = max(nesting - 1, 0)
            elif first not in _CLAUSES:
                break
            tests = tests or first == "!"
            place += 1
        while place < len(line) and not line[place].quoted and _is_assignment(line[place].text):
            place += 1
        words, line = line[place:], []
        if words and not is_header:
            plain = tuple(Word(word.text, word.literal) for word in words)
            yield from _unwrapped(Command(plain, sure=nesting == 0 and not doubtful), depth)
            tests = tests or file_name(words[0].text) in _TESTS
        operator = token.text
        if operator in ("(", ")"):  # a subshell, a function, a pattern of `case`
            nesting += 1
        # The command after this operator may not run.
        doubtful = operator in ("||", "(", ")") or (
            operator in ("&&", "|", "|&") and (doubtful or (operator == "&&" and tests))
        )


# Wrappers ---------------------------------------------------------------------------------------


def _unwrapped(command: Command, depth: int) -> Iterator[Command]:
    """Yield the command without its wrappers, or the commands of its script if it is a shell."""
    place, words = 0, command.words
    while place < len(words) and words[place].literal:
        name = file_name(words[place].text)
        behind = _start_of_wrapped(name, words, place + 1) if name in _WRAPPERS else None
        if behind is None:
            break
        place = behind
    words = words[place:]
    if not words:
        return
    texts = [word.text for word in words]
    name = file_name(texts[0])
    if name == "eval":
        script: Word | None = Word(" ".join(texts[1:]), all(word.literal for word in words))
    elif name == "su" and "-c" in texts[:-1]:
        script = words[texts.index("-c") + 1]
    else:
        of_shell = script_of(texts)
        script = next((word for word in words if word.text == of_shell), None)
    if script is None or not depth:
        yield Command(words, command.sure)
        return
    for inner in script_commands(script.text, depth - 1):
        yield Command(inner.words, command.sure and inner.sure and script.literal)


def _start_of_wrapped(wrapper: str, words: tuple[Word, ...], place: int) -> int | None:
    """Return where the command of a wrapper begins; None if it runs none that can be parsed."""
    while place < len(words) and words[place].text.startswith("-"):
        text = words[place].text
        if text in _NOT_RUNNING.get(wrapper, ()):
            return None
        place += 2 if text in _WRAPPERS[wrapper].split() else 1
        if text == "--":
            break
    place += _ARGUMENTS.get(wrapper, 0)
    while place < len(words) and wrapper in ("env", "sudo") and _is_assignment(words[place].text):
        place += 1
    return place


def _is_assignment(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()


# Grammar ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)  # several rules read the same script
def _tokens(script: str) -> tuple[_Token, ...] | None:
    lexer = _Lexer(script)
    tokens: list[_Token] = []
    try:
        while lexer.at < len(script):
            lexer.token(tokens)
    except (IndexError, ValueError):  # the script ends inside of quotes
        return None
    return tuple(tokens)


class _Lexer:
    """Splits a script into words and operators, in one pass."""

    def __init__(self, script: str) -> None:
        self._text = script
        self.at = 0
        self._here_documents: list[str] = []

    def token(self, tokens: list[_Token]) -> None:
        """Append the next token, unless it is a redirection or a comment."""
        text, at = self._text, self.at
        if text.startswith("\\\n", at):
            self.at += 2
        elif text[at] in " \t\r":
            self.at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            self.at = len(text) if end < 0 else end
        elif redirect := _REDIRECT.match(text, at):
            self.at = redirect.end()
            # Skip its target, and store the delimiter of a here-document.
            while text[self.at : self.at + 1] in (" ", "\t"):
                self.at += 1
            if self.at < len(text) and not _OPERATOR.match(text, self.at):
                word = self._word()
                if redirect[0] in ("<<", "<<-"):
                    self._here_documents.append(word.text)
        elif operator := _OPERATOR.match(text, at):
            self.at = operator.end()
            for delimiter in self._here_documents if operator[0] == "\n" else ():
                while self.at < len(text):
                    end = text.find("\n", self.at)
                    end = len(text) if end < 0 else end
                    line = text[self.at : end].strip()
                    self.at = end + 1
                    if line == delimiter:
                        break
            if operator[0] == "\n":
                self._here_documents = []
            tokens.append(_Token(operator[0], is_word=False))
        else:
            tokens.append(self._word())
            # In `2> file` the number is the redirection's.
            after = text[self.at : self.at + 1]
            if after in ("<", ">") and tokens[-1].text.isdecimal() and not tokens[-1].quoted:
                tokens.pop()

    def _word(self) -> _Token:
        parts: list[str] = []
        literal, quoted = True, False
        text = self._text
        while self.at < len(text):
            char = text[self.at]
            if ordinary := _ORDINARY.match(text, self.at):
                part, known = ordinary[0], True
                self.at = ordinary.end()
            elif char in "'\"":
                quoted = True
                if char == "'":
                    end = text.index("'", self.at + 1)
                    part, known, self.at = text[self.at + 1 : end], True, end + 1
                else:
                    part, known = self._double()
            elif char == "\\":
                part, known = text[self.at + 1 : self.at + 2], True
                part = "" if part == "\n" else part
                self.at += 2
            elif char in "$`" or text.startswith(("<(", ">("), self.at):
                part, known = self._expansion(), False
            elif char in " \t\r\n;&|()<>":
                break
            else:
                part, known = char, char not in "*?" and not (char == "{" and bool(parts))
                self.at += 1
            parts.append(part)
            literal = literal and known
        return _Token("".join(parts), is_word=True, literal=literal, quoted=quoted)

    def _double(self) -> tuple[str, bool]:
        parts: list[str] = []
        known = True
        self.at += 1
        while (char := self._text[self.at]) != '"':
            if char == "\\" and self._text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\"):
                parts.append(self._text[self.at + 1])
                self.at += 2
            elif self._text.startswith("\\\n", self.at):
                self.at += 2
            elif char in "$`":
                parts.append(self._expansion())
                known = known and parts[-1] == "$"
            else:
                parts.append(char)
                self.at += 1
        self.at += 1
        return "".join(parts), known

    def _expansion(self) -> str:
        """Return the text of `$NAME`, `${...}`, `$(...)` or backquotes."""
        start, text = self.at, self._text
        after = text[start + 1 : start + 2]
        if text[start] == "`":
            self.at = text.index("`", start + 1) + 1
        elif after in ("(", "{") or text[start] in "<>":
            self.at += 1
            depth, closing = 0, {"(": ")", "{": "}"}[after]
            while True:
                char = text[self.at]
                self.at += 1
                if char == "\\":
                    self.at += 1
                elif char == "'":
                    self.at = text.index("'", self.at) + 1
                elif char in (after, closing):
                    depth += 1 if char == after else -1
                    if depth == 0:
                        break
        elif after == "'":
            self.at = text.index("'", start + 2) + 1
        else:
            self.at += 1
            while self.at < len(text) and (text[self.at].isalnum() or text[self.at] == "_"):
                self.at += 1
            if self.at == start + 1 and after and after in "@*#?-$!":
                self.at += 1
        return text[start : self.at]
