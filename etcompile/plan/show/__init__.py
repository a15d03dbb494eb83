"""A plan to what people read: text, Markdown, or a page.

A module per form, each one function from a plan to its text. All of them show the same groups of
alike steps (`groups`) and the same lines of a change (`lines`).
"""
