"""Words from files that nobody has checked, made safe for what they are written to.

A message quotes its input: names, values, lines. Shared by the forms, each of which is harmed
by other characters.
"""


def printable(words: str, *, keep: str = "") -> str:
    """The words without anything that a terminal would act on, but for what is to be kept."""
    return "".join(
        c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in words
    )


def well_formed(words: str) -> str:
    """The words as Unicode text: half a surrogate pair, which no encoding can hold, replaced."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
