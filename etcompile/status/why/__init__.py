"""Why a job is as it is: what its run died of first, or what keeps it from starting.

`explanation` finds it, and is pure; `text`, `markdown` and `documents` are the words for it.
"""

from etcompile.status.why.explanation import Explanation, explanations

__all__ = ["Explanation", "explanations"]
