"""Serve other tools: a package for each tool or format."""
