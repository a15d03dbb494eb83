"""A kit for controllers, in the terms of client-go: it knows objects and keys, but no jobs."""
