# The sidecar of Argo CD's repo server that runs etcompile's plugin: from a checkout,
#     docker build -f docs/argocd.Dockerfile -t etcompile-argocd:0.2.0 .
FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/etcompile && /opt/etcompile/bin/pip install --no-cache-dir /src

FROM python:3.13-slim
COPY --from=build /opt/etcompile /opt/etcompile
ENV PATH=/opt/etcompile/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# The paths and the user are Argo CD's.
RUN mkdir -p /home/argocd/cmp-server/config \
 && etcompile argocd plugin > /home/argocd/cmp-server/config/plugin.yaml
USER 999
# Put there by an init container of the repo server: see `etcompile argocd sidecar`.
ENTRYPOINT ["/var/run/argocd/argocd-cmp-server"]
