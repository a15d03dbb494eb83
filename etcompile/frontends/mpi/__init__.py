"""Read the kind of the MPI Operator."""
