//go:build tools

// Package kustomize pins what builds kustomizations.
package kustomize

import _ "sigs.k8s.io/kustomize/kustomize/v5"
