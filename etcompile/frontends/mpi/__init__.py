"""The kind of the MPI Operator."""
