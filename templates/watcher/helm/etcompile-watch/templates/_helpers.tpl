{{/* The name of the application, as in the label app.kubernetes.io/name. */}}
{{- define "etcompile-watch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimAll "-." }}
{{- end }}

{{/* The name of the objects in the release's namespace, and of the Lease: that of the release, and
of the chart unless the release is called like it. */}}
{{- define "etcompile-watch.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimAll "-." }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- $full | trunc 63 | trimAll "-." }}
{{- end }}
{{- end }}

{{/* The name of what stands outside of the release's namespace. No namespace has a dot in its name,
so no other release has the same. */}}
{{- define "etcompile-watch.globalName" -}}
{{- printf "%s.%s" .Release.Namespace (include "etcompile-watch.fullname" .) }}
{{- end }}

{{- define "etcompile-watch.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "etcompile-watch.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* By these its Pods are known; they never change, because a Deployment's selector cannot. */}}
{{- define "etcompile-watch.selectorLabels" -}}
app.kubernetes.io/name: {{ include "etcompile-watch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The labels of an object: (list $ MORE), where MORE are those of this object alone. */}}
{{- define "etcompile-watch.labels" -}}
{{- $top := first . -}}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" | trunc 63 | trimAll "-." | quote }}
{{ include "etcompile-watch.selectorLabels" $top }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: etcompile
app.kubernetes.io/managed-by: {{ $top.Release.Service | quote }}
{{- with mergeOverwrite dict $top.Values.commonLabels (last .) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "etcompile-watch.image" -}}
{{- $image := .Values.image }}
{{- if kindIs "float64" $image.tag }}
{{- fail "image.tag: quote it in a file of values, where 1.10 is the number 1.1" }}
{{- end }}
{{- $tag := toString $image.tag }}
{{- if $image.digest }}
{{- $image.repository }}{{ with $tag }}:{{ . }}{{ end }}@{{ $image.digest }}
{{- else }}
{{- $released := contains "dev" .Chart.AppVersion | ternary "" .Chart.AppVersion }}
{{- $missing := printf "image.tag: etcompile %s is not a release, and only releases have images: build one with 'docker buildx bake' and set image.repository and image.tag (docs/install.md, Building images)" .Chart.AppVersion }}
{{- printf "%s:%s" $image.repository (default $released $tag | required $missing) }}
{{- end }}
{{- end }}

{{/* The namespaces whose jobs it looks after, as JSON: {"of": [...]}; empty for all. */}}
{{- define "etcompile-watch.namespaces" -}}
{{- if and .Values.allNamespaces .Values.namespaces }}
{{- fail "allNamespaces and namespaces cannot be combined: leave one of them out" }}
{{- end }}
{{- $of := .Values.namespaces }}
{{- if not (or .Values.allNamespaces $of) }}
{{- $of = list .Release.Namespace }}
{{- end }}
{{- dict "of" $of | toJson }}
{{- end }}

{{/* The ServiceAccount, as a subject of a binding. */}}
{{- define "etcompile-watch.subjects" -}}
- kind: ServiceAccount
  name: {{ include "etcompile-watch.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* What it may do in each namespace that it watches. */}}
{{- define "etcompile-watch.rules" -}}
# list, watch: to follow them. create, delete: to replace them. patch: to touch them, so that the
# kubelet brings host lists at once. get: to see who has the name of a Pod to be created.
- apiGroups: [""]
  resources: [pods]
  verbs: [create, delete, get, list, patch, watch]
# list, watch: to find jobs. create, patch: the host lists and the record of a run.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, list, patch, watch]
# Launchers that are Jobs of Kubernetes, which make their Pod.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
# A job's ssh key pair. It may not read one.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- if .Values.readLogs }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- if .Values.removeFinished }}
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [delete, list]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings, roles]
  verbs: [delete, list]
# By name and label, without reading it.
- apiGroups: [""]
  resources: [secrets]
  verbs: [deletecollection]
{{- end }}
{{- if .Values.removePodGroups }}
- apiGroups: [scheduling.k8s.io, scheduling.sigs.k8s.io, scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [delete, list]
{{- end }}
{{- end }}
