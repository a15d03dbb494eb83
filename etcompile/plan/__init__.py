"""Decide what to do about objects that exist, from the desired and the live ones.

Pure: nothing here reads a file or talks to a cluster, so each rule can be tested with two values.
"""
