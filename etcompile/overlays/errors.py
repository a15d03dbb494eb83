"""What stops a patch, at the place in the overlay that is to blame.

Apart from the two kinds of patch, which both raise it and otherwise do not meet.
"""

from etcompile.overlays.traced import Traced


class PatchError(Exception):
    """A patch cannot be applied.

    Args:
        problem: What is wrong, to be put after the name of what was patched.
        place: The part of the patch that is wrong.
        advice: What to do.
    """

    def __init__(self, problem: str, place: Traced, advice: str = "") -> None:
        super().__init__(problem)
        self.problem, self.place, self.advice = problem, place, advice
