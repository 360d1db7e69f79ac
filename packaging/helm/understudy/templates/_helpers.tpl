{{- define "understudy.name" -}}
{{- if contains "understudy" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-understudy" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "understudy.selector" -}}
app.kubernetes.io/name: understudy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "understudy.labels" -}}
{{ include "understudy.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "understudy.image" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "understudy.closed" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "understudy.environment" -}}
- name: CODEX_HOME
  value: /var/lib/understudy
- name: HOME
  value: /var/lib/understudy/user
- name: UNDERSTUDY_STORE_URL_FILE
  value: /var/lib/understudy/keys/url
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end -}}

{{/* A server reads keys only from files that are its own and nobody else's, which those of a Secret are not: so they are copied. */}}
{{- define "understudy.prepare" -}}
- name: keys
  {{- include "understudy.image" . | nindent 2 }}
  command: [sh, -euc]
  args:
    - |
      umask 077
      cd /var/lib/understudy
      rm -rf keys user/.ssh
      mkdir -p understudy keys user/.ssh
      install -m 0600 /given/config/config.toml config.toml
      install -m 0600 /given/store/url /given/keys/audit.key keys/
      for name in tokens.toml token serve.key; do
        rm -f "understudy/$name"
        if [ -f "/given/keys/$name" ]; then install -m 0600 "/given/keys/$name" "understudy/$name"; fi
      done
      if [ -d /given/git ]; then install -m 0600 /given/git/* user/.ssh/; fi
  securityContext:
    {{- include "understudy.closed" . | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - name: state
      mountPath: /var/lib/understudy
      subPath: state
    - name: config
      mountPath: /given/config
      readOnly: true
    - name: store
      mountPath: /given/store
      readOnly: true
    - name: keys
      mountPath: /given/keys
      readOnly: true
{{- end -}}

{{- define "understudy.given" -}}
- name: config
  configMap:
    name: {{ include "understudy.name" . }}
- name: store
  secret:
    secretName: {{ required "store.existingSecret is needed: a secret with the key url" .Values.store.existingSecret }}
    defaultMode: 0440
- name: keys
  secret:
    secretName: {{ required "keys.existingSecret is needed: see docs/many-machines.md" .Values.keys.existingSecret }}
    defaultMode: 0440
- name: tmp
  emptyDir: {}
{{- end -}}

{{- define "understudy.probes" -}}
startupProbe:
  exec:
    command: {{ include "understudy.look" "healthz" }}
  failureThreshold: 30
  periodSeconds: 2
  timeoutSeconds: 5
readinessProbe:
  exec:
    command: {{ include "understudy.look" "readyz" }}
  periodSeconds: 10
  timeoutSeconds: 5
livenessProbe:
  exec:
    command: {{ include "understudy.look" "healthz" }}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end -}}

{{- define "understudy.look" -}}
[python3, -c, "import urllib.request as r; r.urlopen('http://127.0.0.1:8722/{{ . }}', timeout=4)"]
{{- end -}}
