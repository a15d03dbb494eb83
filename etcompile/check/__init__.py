"""Check documents and objects.

Frontends read valid documents only, so they need not check them again.
"""
