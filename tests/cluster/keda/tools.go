//go:build tools

// Package keda pins KEDA's admission webhooks; its CRDs are taken from the same module.
package keda

import _ "github.com/kedacore/keda/v2/cmd/webhooks"
