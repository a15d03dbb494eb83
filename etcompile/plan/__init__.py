"""Decisions about objects that exist: desired and live ones in, what to do about them out.

Pure: nothing here reads a file or talks to a cluster, so each rule can be tested with two values.
"""
