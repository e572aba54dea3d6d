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

{{/* Namespaces that are not asked about: those of the values and the exact names of the configuration, whose globs the API server does not know. */}}
{{- define "gpulint.exemptNamespaces" -}}
{{- $names := append .Values.exemptNamespaces .Release.Namespace }}
{{- $webhook := get (fromYaml .Values.config) "webhook" | default dict }}
{{- range get $webhook "exempt-namespaces" | default list }}
{{- if regexMatch "^[a-z0-9-]+$" . }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- $names | uniq | sortAlpha | toJson }}
{{- end }}

{{/* The rules of a webhook, one per API group: for what is guarded or for all else; with `mutated` only resources that have fixes. */}}
{{- define "gpulint.rules" -}}
{{- $values := .root.Values -}}
{{- $mutated := .mutated -}}
{{- $guarded := .guarded -}}
{{- range (.root.Files.Get "files/kinds.yaml" | fromYaml).groups }}
{{- $resources := list }}
{{- range .checked }}
{{- $asked := and (not (has .kind $values.excludeKinds)) (or (not .onRequest) (has .kind $values.includeKinds)) }}
{{- if and $asked (eq .guarded $guarded) (or (not $mutated) .mutated) }}
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

{{/* The rules of the ClusterRole for the kinds that are watched: those that a rule reads which the configuration does not turn off for everything. */}}
{{- define "gpulint.watched" -}}
{{- $config := fromYaml .Values.config }}
{{- $off := list }}
{{- if not (get $config "overrides") }}
{{- range $rule, $setting := get $config "rules" | default dict }}
{{- if has (toString $setting) (list "off" "false") }}{{ $off = append $off $rule }}{{ end }}
{{- end }}
{{- end }}
{{- range (.Files.Get "files/kinds.yaml" | fromYaml).watched }}
{{- $resources := list }}
{{- range .kinds }}
{{- $needed := not .rules }}
{{- range .rules }}
{{- if not (has . $off) }}{{ $needed = true }}{{ end }}
{{- end }}
{{- if $needed }}{{ $resources = append $resources .resource }}{{ end }}
{{- end }}
{{- if $resources }}
- apiGroups: [{{ .group | quote }}]
  resources: {{ $resources | sortAlpha | toJson }}
  verbs: [get, list, watch]
{{- end }}
{{- end }}
{{- end }}

{{/* Fails for values that no webhook configuration can have. */}}
{{- define "gpulint.check" -}}
{{- if not (has .Values.failurePolicy (list "Ignore" "Fail")) }}
{{- fail "failurePolicy is Ignore or Fail" }}
{{- end }}
{{- if or (lt (int .Values.timeoutSeconds) 1) (gt (int .Values.timeoutSeconds) 10) }}
{{- fail "timeoutSeconds is 1 to 10" }}
{{- end }}
{{- $config := fromYaml .Values.config }}
{{- if hasKey $config "Error" }}
{{- fail (printf "config is not a YAML mapping: %s" (get $config "Error")) }}
{{- end }}
{{- $keys := .Files.Get "files/config.yaml" | fromYaml }}
{{- range $key, $value := $config }}
{{- if not (has $key $keys.config) }}
{{- fail (printf "config: unknown key %s; `gpulint schema config` says what can be set" $key) }}
{{- end }}
{{- end }}
{{- $webhook := get $config "webhook" | default dict }}
{{- if not (kindIs "map" $webhook) }}
{{- fail "config: webhook is a mapping" }}
{{- end }}
{{- range $key, $value := $webhook }}
{{- if not (has $key $keys.webhook) }}
{{- fail (printf "config: unknown key %s of webhook; `gpulint schema config` says what can be set" $key) }}
{{- end }}
{{- end }}
{{- $known := list }}
{{- $onRequest := list }}
{{- range (.Files.Get "files/kinds.yaml" | fromYaml).groups }}
{{- range .checked }}
{{- $known = append $known .kind }}
{{- if .onRequest }}{{ $onRequest = append $onRequest .kind }}{{ end }}
{{- end }}
{{- end }}
{{- range .Values.excludeKinds }}
{{- if not (has . $known) }}
{{- fail (printf "excludeKinds: no rule is asked about the kind %s" .) }}
{{- end }}
{{- end }}
{{- range .Values.includeKinds }}
{{- if not (has . $onRequest) }}
{{- fail (printf "includeKinds: %s is not one of %s" . (join ", " $onRequest)) }}
{{- end }}
{{- end }}
{{- end }}
