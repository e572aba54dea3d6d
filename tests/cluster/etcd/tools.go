//go:build tools

// Package etcd pins the store below kube-apiserver.
package etcd

import _ "go.etcd.io/etcd/server/v3"
