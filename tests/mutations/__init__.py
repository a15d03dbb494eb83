"""Accepted inputs, changed a little at random, held against a real API server."""
