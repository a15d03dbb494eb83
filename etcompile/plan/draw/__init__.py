"""A graph to text: for a terminal or for Mermaid.

A module per form, each one function from a graph to its text. All of them draw the same
thing: jobs, in them waves, in these objects, and what each of them needs.
"""

from etcompile.plan.draw.mermaid import mermaid
from etcompile.plan.draw.tree import tree

FORMS = {"tree": tree, "mermaid": mermaid}
"""The forms by name."""

__all__ = ["FORMS", "mermaid", "tree"]
