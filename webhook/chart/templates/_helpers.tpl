{{- define "gpulint.labels" -}}
app.kubernetes.io/name: gpulint
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gpulint.meta" -}}
name: {{ .Release.Name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "gpulint.labels" . | nindent 2 }}
{{- end }}

{{/* The rules of a webhook configuration, one per API group; with `mutated` only resources that have fixes. */}}
{{- define "gpulint.rules" -}}
{{- $excluded := .root.Values.excludeKinds -}}
{{- $mutated := .mutated -}}
{{- range (.root.Files.Get "files/kinds.yaml" | fromYaml).groups }}
{{- $resources := list }}
{{- range .judged }}
{{- if and (not (has .kind $excluded)) (or (not $mutated) .mutated) }}
{{- $resources = append $resources .resource }}
{{- end }}
{{- end }}
{{- if $resources }}
- operations: [CREATE, UPDATE]
  apiGroups: [{{ .group | quote }}]
  apiVersions: ["*"]
  resources: {{ $resources | sortAlpha | toJson }}
  scope: "*"
{{- end }}
{{- end }}
{{- end }}

{{/* Fails for values that could block the creation of nodes, or that no webhook configuration can have. */}}
{{- define "gpulint.check" -}}
{{- if not (has .Values.failurePolicy (list "Ignore" "Fail")) }}
{{- fail "failurePolicy is Ignore or Fail" }}
{{- end }}
{{- if or (lt (int .Values.timeoutSeconds) 1) (gt (int .Values.timeoutSeconds) 10) }}
{{- fail "timeoutSeconds is 1 to 10" }}
{{- end }}
{{- $kinds := .Files.Get "files/kinds.yaml" | fromYaml }}
{{- $known := list }}
{{- range $kinds.groups }}{{ range .judged }}{{ $known = append $known .kind }}{{ end }}{{ end }}
{{- range .Values.excludeKinds }}
{{- if not (has . $known) }}
{{- fail (printf "excludeKinds: no rule is asked about the kind %s" .) }}
{{- end }}
{{- end }}
{{- $blocking := list }}
{{- range $kinds.nodeBlocking }}
{{- if not (has . $.Values.excludeKinds) }}{{ $blocking = append $blocking . }}{{ end }}
{{- end }}
{{- if and (eq .Values.failurePolicy "Fail") $blocking }}
{{- fail (printf "failurePolicy Fail could keep nodes from being made: add %s to excludeKinds, or stay with Ignore" (join ", " $blocking)) }}
{{- end }}
{{- end }}
