//go:build tools

// Package helm pins what renders the Helm chart.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
