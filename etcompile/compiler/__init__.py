"""Compile documents in stages, one module each, which `pipeline.py` calls in order."""
