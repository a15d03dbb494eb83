"""What a plan may do: the choices of whoever asks for it."""

from msgspec import Struct

from etcompile.model.protocol import MANAGER
from etcompile.plan.ignore_differences import Ignored


class Rights(Struct, frozen=True):
    """What a plan may do.

    Args:
        replace: Delete and create anew what cannot be changed.
        replace_data: Objects that hold data and are replaced nevertheless: `NAME`, `KIND/NAME` or
            `NAMESPACE/KIND/NAME`; `*` for any.
        adopt: Take over objects that somebody else made: people, Argo CD, Flux, another ApplySet.
        prune: Delete what is in an inventory and no longer declared.
        take_ownership: Managers whose fields may be changed; `*` for any.
        ignored: Fields that stay as they are.
        manager: Our field manager.
        whole: Live objects are declarations too, such as those of a folder: all of their fields
            count, and what is not declared any more is deleted.
    """

    replace: bool = False
    replace_data: frozenset[str] = frozenset()
    adopt: bool = False
    prune: bool = False
    take_ownership: frozenset[str] = frozenset()
    ignored: tuple[Ignored, ...] = ()
    manager: str = MANAGER
    whole: bool = False
