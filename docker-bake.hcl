# docker buildx bake             the images, for this machine's platform
# docker buildx bake release     for all platforms, with lists of components and provenance

variable "REGISTRY" {
  default = "ghcr.io/etcompile"
}

# The version without a "v", as in etcompile/_version.py.
variable "VERSION" {
  default = "dev"
}

variable "REVISION" {
  default = ""
}

group "default" {
  targets = ["etcompile", "argocd", "krm"]
}

target "image" {
  labels = {
    "org.opencontainers.image.source"   = "https://github.com/etcompile/etcompile"
    "org.opencontainers.image.licenses" = "Apache-2.0"
    "org.opencontainers.image.vendor"   = "The etcompile authors"
    "org.opencontainers.image.version"  = VERSION
    "org.opencontainers.image.revision" = REVISION
  }
}

target "etcompile" {
  inherits = ["image"]
  target   = "etcompile"
  tags     = ["${REGISTRY}/etcompile:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "etcompile"
    "org.opencontainers.image.description" = "Compiles training jobs to Kubernetes manifests, and watches over them"
  }
}

target "argocd" {
  inherits = ["image"]
  target   = "argocd"
  tags     = ["${REGISTRY}/etcompile-argocd:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "etcompile-argocd"
    "org.opencontainers.image.description" = "The sidecar of Argo CD's repo server that compiles training jobs"
  }
}

target "krm" {
  inherits = ["image"]
  target   = "krm"
  tags     = ["${REGISTRY}/etcompile-krm:${VERSION}"]
  labels = {
    "org.opencontainers.image.title"       = "etcompile-krm"
    "org.opencontainers.image.description" = "The KRM function that compiles training jobs, for kustomize and kpt"
  }
}

# `bake release` makes release-etcompile, release-argocd and release-krm.
target "release" {
  name      = "release-${image}"
  matrix    = { image = ["etcompile", "argocd", "krm"] }
  inherits  = [image]
  platforms = ["linux/amd64", "linux/arm64"]
  attest    = ["type=provenance,mode=max", "type=sbom"]
}
