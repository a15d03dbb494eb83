"""The rules of the API server, row by row."""
