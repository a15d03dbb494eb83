"""What serves another tool: a package for each tool or format."""
