"""Accept one value where programs may pass several; a text is one name, not many letters."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, structs


def several(value: Any) -> Any:
    """Wrap one text, path or mapping in a tuple, and anything else as it is."""
    return (value,) if isinstance(value, str | os.PathLike | Mapping) else value


def gather(struct: Struct, *names: str, kind: Callable[[Iterable[Any]], Any] = tuple) -> None:
    """Put single values of these fields of a frozen struct into collections, when it is created."""
    for name in names:
        value = getattr(struct, name)
        if (collected := several(value)) is not value:
            structs.force_setattr(struct, name, kind(collected))
