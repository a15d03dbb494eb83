"""Why a job is as it is: what its run died of first, or what keeps it from starting.

`explanation` finds it, and is pure; `text` is the words for it, and `page` shows
them as a page.
"""

from etcompile.status.why.explanation import Explanation, explanations

__all__ = ["Explanation", "explanations"]
