# The image that `etcompile watch --manifests` runs: from a checkout,
#     docker build -f docs/watch.Dockerfile -t etcompile:0.2.0 .
FROM python:3.13-slim AS build
COPY . /src
RUN python -m venv /opt/etcompile && /opt/etcompile/bin/pip install --no-cache-dir /src

FROM python:3.13-slim
COPY --from=build /opt/etcompile /opt/etcompile
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/opt/etcompile/bin/etcompile"]
CMD ["watch"]
