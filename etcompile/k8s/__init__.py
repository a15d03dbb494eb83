"""Kubernetes objects as values: what the API server demands of them, without asking it.

At the bottom, because readers, compiler and planner all need it. Nothing here does I/O.
"""
