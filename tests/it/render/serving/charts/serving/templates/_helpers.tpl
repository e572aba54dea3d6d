{{- define "serving.labels" -}}
app: {{ .Chart.Name }}
{{- end }}

{{- define "serving.batch" -}}
{{ mul .Values.replicas 2 }}
{{- end }}

{{- define "serving.available" -}}
{{ add .Values.replicas 0 }}
{{- end }}
