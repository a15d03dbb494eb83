"""A real etcd and kube-apiserver on loopback, for tests that must not be fooled by a fake one."""
