"""Whether documents and objects are what they should be.

Frontends need not look twice: they read valid documents only.
"""
