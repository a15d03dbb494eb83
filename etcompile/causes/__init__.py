"""Explain why runs fail and how long they train; both records outlive the Pods."""
