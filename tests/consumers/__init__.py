"""Programs of others that read what we write, and where tests find them."""
