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

{{/* The API groups with the resources that the webhooks match; `mutated` asks for those that have fixes alone. */}}
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

{{/* What both webhooks have in common. */}}
{{- define "gpulint.webhook" -}}
{{- $root := .root -}}
- name: {{ .path }}.gpulint.dev
  clientConfig:
    service:
      name: {{ $root.Release.Name }}
      namespace: {{ $root.Release.Namespace }}
      path: /{{ .path }}
      port: 443
  failurePolicy: {{ .policy }}
  sideEffects: None
  timeoutSeconds: {{ $root.Values.timeoutSeconds }}
  admissionReviewVersions: [v1]
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: {{ append $root.Values.exemptNamespaces $root.Release.Namespace | uniq | sortAlpha | toJson }}
  matchConditions:
    {{- $root.Files.Get "files/conditions.yaml" | nindent 4 }}
  rules:
    {{- include "gpulint.rules" . | nindent 4 }}
{{- end }}

{{/* Refuses values that could take a cluster down. */}}
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
