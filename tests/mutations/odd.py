"""Values that nobody expects where they stand, and where to put them."""

import random
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    *(None, 5, -1, 1.5, True, "", "x", "é\ud83d", "../../x", [], {}, [1], [None], [[]], [{}]),
    *({"a": 1}, {"a": None}, "[" * 100_000, 10**400, 2**63),
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, part in steps:
        yield (*at, step)
        if isinstance(part, dict | list):
            yield from paths(part, (*at, step))


def put(value: Any, path: tuple[Any, ...], odd: Any) -> None:
    """Puts a value to where another one is."""
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = odd


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Bytes with one stretch of them taken out, doubled, or made of something else."""
    at, length = chance.randrange(len(data) + 1), chance.choice((0, 1, 1, 5, 200))
    middle = data[at : at + length]
    new = chance.choice(
        (b"", middle * 2, b"\x00", b"\xff", b"{", b"]", b"'", b"\n", b"\n---\n", b"&a", b"*a",
         b"\t", b": ", b"<<<<<<< HEAD\n", b"9" * 400, chance.randbytes(4))
    )  # fmt: skip
    return data[:at] + new + data[at + length :]
