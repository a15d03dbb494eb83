"""Check whether jobs fit a cluster: free nodes, rules of placement, and quotas.

Everything here is pure. A `Snapshot` describes a cluster; `answers.fit` compares a job's Pods with
it, by the rules of the filter plugins of kube-scheduler 1.34.
"""
