"""What runs fail of: what Pods say of it, what it means, and what is kept of it when they go."""
