"""The name that was probably meant by a misspelt one, for hints of frontends and intents."""

from collections.abc import Collection


def probably(name: str, known: Collection[str]) -> str | None:
    """The known name nearest to a name; None if none is near."""
    import difflib  # noqa: PLC0415 - only a complaint needs it

    return next(iter(difflib.get_close_matches(name, known, n=1)), None)
