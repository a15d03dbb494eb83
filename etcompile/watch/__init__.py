"""The watcher: what cannot be decided before a job runs, and nothing else.

`core` replaces lost replicas and writes host lists. `listeners` are the optional features: the core
knows their interface (`core/listener.py`), and none of their names.
"""
