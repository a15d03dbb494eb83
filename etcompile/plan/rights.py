"""What a plan may do: the choices of whoever asks for it."""

from msgspec import Struct


class Rights(Struct, frozen=True):
    """What a plan may do.

    Args:
        replace: Delete and create anew what cannot be changed.
        adopt: Take over objects that Argo CD, Flux or another ApplySet looks after.
        prune: Delete what is in an inventory and no longer declared.
        take_ownership: Managers whose fields may be changed; `*` for any.
        manager: Our field manager.
        whole: Live objects are declarations too, such as those of a folder: all of their fields
            count, and what is not declared any more is deleted.
    """

    replace: bool = False
    adopt: bool = False
    prune: bool = False
    take_ownership: frozenset[str] = frozenset()
    manager: str = "etcompile"
    whole: bool = False
