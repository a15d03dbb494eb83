"""Support editors of job files: diagnostics as you type, corrections, rendered jobs.

`server` speaks the Language Server Protocol; `workspace` knows texts and positions only.
"""
