{{- define "serving.labels" -}}
app: {{ .Chart.Name }}
{{- end }}

{{- define "serving.batch" -}}
{{ mul .Values.replicas 2 }}
{{- end }}
