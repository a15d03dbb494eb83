"""Editor support for job files: diagnostics, completion, explanations and fixes.

`server` speaks the Language Server Protocol; the other modules know texts and positions only.
"""
