"""Treat Kubernetes objects as values: paths, names, quantities, status, validation.

Readers, compiler and planner need it, so it stands below all of them. Nothing here does I/O.
"""
