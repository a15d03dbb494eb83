"""Editor support for job files: diagnostics as you type, their corrections, and what a job becomes.

`server` speaks the Language Server Protocol; `workspace` knows texts and positions only.
"""
