"""Kubernetes objects as values: how they are written, what their status means, what is valid.

At the bottom, because readers, compiler and planner all need it. Nothing here does I/O.
"""
