"""Warn of credentials in plain text in a document.

Private keys are refused elsewhere. Here a warning must do, because a text that looks like a
password may be none, and a job that runs with one today must not break. No value is shown.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.diagnostics.credentials import credential_spans, form_of, is_credential

_ENCRYPTED = ("Secret", "SealedSecret", "SecretProviderClass")
"""Kinds that have separate rules, or hold ciphertext."""
_OPTION = re.compile(r"--?[\w-]+")
_BY_NAME = "a credential, by its name"
_KEYED = ("annotations", "data")
"""Mappings whose keys are names of values."""


def check_credentials(sources: Iterable[Source]) -> Iterator[Diagnostic]:
    search = _Search()
    for source in sources:
        if source.data.get("kind") in _ENCRYPTED or "sops" in source.data:
            continue
        for path, where, what, advice in search.credentials((), source.data):
            place = structs.replace(source.locate(path), text=None, hidden=True)
            yield diagnose(codes.PLAIN_CREDENTIAL, place, where=where, what=what, advice=advice)


class _Search:
    """A search that caches results, because the Pods of a role repeat their texts."""

    def __init__(self) -> None:
        self._form_of = functools.cache(form_of)
        self._spans = functools.cache(credential_spans)

    def credentials(self, path: ValuePath, value: Any) -> Iterator[tuple[ValuePath, str, str, str]]:
        """Yield the credentials in a value at a path.

        Yields:
            The path of a credential, that place in words, what it is, and what to do about it.
        """
        if isinstance(value, Mapping):
            name, text = value.get("name"), value.get("value")
            is_variable = isinstance(name, str) and isinstance(text, str)
            if isinstance(name, str) and isinstance(text, str):
                what = self._form_of(text) or (_BY_NAME if is_credential(name, text) else None)
                if what:
                    advice = _ENV.format(name=name)
                    yield (*path, "value"), f"the environment variable '{name}'", what, advice
            for key, inner in value.items():
                here = (*path, key)
                if is_variable and key == "value":
                    continue
                keyed = path and path[-1] in _KEYED and isinstance(inner, str)
                if keyed and not self._form_of(inner) and is_credential(key, inner):
                    yield here, _where(here), _BY_NAME, _OTHER
                else:
                    yield from self.credentials(here, inner)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                option: Any = value[index - 1] if index else None
                named = isinstance(option, str) and isinstance(item, str)
                if named and _OPTION.fullmatch(option) and is_credential(option, item):
                    what = f"a credential, by the name of {option}"
                    yield (*path, index), _where(path), what, _ARGS
                else:
                    yield from self.credentials((*path, index), item)
        elif isinstance(value, str):
            what = self._form_of(value) or (_BY_NAME if self._spans(value) else None)
            if what:
                is_command = "args" in path or "command" in path
                yield path, _where(path), what, _ARGS if is_command else _OTHER


def _where(path: ValuePath) -> str:
    names = [step for step in path if isinstance(step, str)]
    if len(names) > 1 and names[-2] in _KEYED:
        return f"'{names[-1]}' in {names[-2]}"
    return names[-1] if names else "this document"


_ENV = (
    "keep it in a Secret and refer to it: replace value by"
    " valueFrom: {{secretKeyRef: {{name: SECRET, key: {name}}}}}"
)
_ARGS = (
    "keep it in a Secret, give the container a variable by valueFrom.secretKeyRef, and write"
    " $(VARIABLE) here"
)
_OTHER = "keep it in a Secret, and refer to that by secretKeyRef or mount it"
