//go:build tools

// Package apiserver pins the kube-apiserver that judges gpulint's refusals.
package apiserver

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
