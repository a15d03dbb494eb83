# The images of etcompile: the program with nothing around it but Python, and no shell.
#
#     docker build --target etcompile -t etcompile .     from a checkout; the watcher runs this one, too
#     docker buildx bake                                 all of them (docker-bake.hcl)
#
# A package index of your own: --secret id=pip.conf,src=pip.conf, and --secret id=ca.crt,src=ca.crt
# where it has a certificate of your own.

# Everything is made on the machine that builds, for the one that will run it: no emulation.
FROM --platform=$BUILDPLATFORM debian:trixie-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-pip
COPY LICENSE README.md pyproject.toml /src/
COPY etcompile /src/etcompile
COPY examples /src/examples
COPY overlays /src/overlays
COPY schemas /src/schemas
COPY templates /src/templates
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/etc/ssl/certs/ca-certificates.crt \
    pip wheel --quiet --no-cache-dir --no-deps --wheel-dir /wheel /src


# Debian's Python, and the libraries that it and the packages are linked to.
FROM build AS system
ARG TARGETARCH
WORKDIR /debs
RUN <<download
  set -eu
  dpkg --add-architecture "$TARGETARCH"
  apt-get update
  apt-get download netbase $(printf "%s:$TARGETARCH " \
    base-files libc6 libgcc-s1 libbz2-1.0 libexpat1 libffi8 liblzma5 libssl3t64 libuuid1 libzstd1 \
    zlib1g libpython3.13-minimal libpython3.13-stdlib python3.13-minimal)
download
RUN <<unpack
  set -eu
  mkdir -p /system/var/lib/dpkg/status.d
  for deb in *.deb; do
    dpkg-deb --extract "$deb" /system
    # Where scanners for vulnerabilities look in images without a package manager.
    name=$(dpkg-deb --field "$deb" Package)
    dpkg-deb --field "$deb" >"/system/var/lib/dpkg/status.d/$name"
    dpkg-deb --info "$deb" md5sums >"/system/var/lib/dpkg/status.d/$name.md5sums"
  done
  cd /system
  ln -s python3.13 usr/bin/python3
  cp --parents /etc/ssl/certs/ca-certificates.crt .
  echo 'hosts: files dns' >etc/nsswitch.conf
  printf '%s\n' 'root:x:0:0:root:/root:/sbin/nologin' \
    'argocd:x:999:999:argocd:/home/argocd:/sbin/nologin' \
    'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >etc/passwd
  printf '%s\n' 'root:x:0:' 'argocd:x:999:' 'nonroot:x:65532:' >etc/group
  install -d -o 65532 -g 65532 home/nonroot
  # What a container never reads: manuals, character sets other than UTF-8, and modules of Python
  # whose libraries are left out, since they need a terminal or a database. Licences stay.
  find usr/share/doc -type f ! -name copyright -delete
  rm -r usr/lib/*-linux-*/gconv usr/lib/*-linux-*/libmvec.so.1 \
    usr/share/man usr/share/lintian usr/share/base-files
  cd usr/lib/python3.13
  rm -r _pyrepl curses dbm pydoc_data sqlite3 \
    lib-dynload/_curses* lib-dynload/_dbm* lib-dynload/_sqlite3* lib-dynload/readline*
  # The root is read-only, so byte code is made here. Of the standard library it is all there is,
  # which saves 9 MB; of everything else the source stays, for tracebacks.
  python3 -m compileall -q -b -j 0 --invalidation-mode unchecked-hash -s /system -p / .
  find . -name '*.py' -delete
unpack


# What pip installs, of the wheels for the machine that will run them.
FROM build AS packages
ARG TARGETARCH
ENV LIBRARY=/usr/local/lib/python3.13/dist-packages
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/etc/ssl/certs/ca-certificates.crt <<install
  set -eu
  case $TARGETARCH in
    amd64) machine=x86_64 binutils=binutils-x86-64-linux-gnu ;;
    arm64) machine=aarch64 binutils=binutils-aarch64-linux-gnu ;;
    *) echo "no wheels are built for $TARGETARCH" >&2; exit 1 ;;
  esac
  apt-get install -y --no-install-recommends $binutils
  pip install --quiet --no-cache-dir --no-compile --only-binary :all: --target /all \
    --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
    "$(echo /wheel/*.whl)[sops]"
  cd /all
  # Of cffi, cryptography needs the compiled half only.
  rm -r cffi* pycparser*
  find . -name '*.so' -exec $machine-linux-gnu-strip --strip-unneeded {} +
  mkdir -p /dependencies$LIBRARY /program$LIBRARY /program/usr/local/bin
  mv etcompile* /program$LIBRARY
  mv bin/etcompile* /program/usr/local/bin
  rm -r bin
  mv * /dependencies$LIBRARY
  ln -s $LIBRARY/etcompile/_data/examples /program/examples
  python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /dependencies -p / /dependencies
  python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /program -p / /program
install


# The sidecar's plugin.yaml, written by etcompile itself.
FROM build AS plugin
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/etc/ssl/certs/ca-certificates.crt <<write
  set -eu
  pip install --quiet --no-cache-dir --target /installed /wheel/*.whl
  mkdir -p /plugin/home/argocd/cmp-server/config /plugin/home/argocd/cmp-server/plugins
  PYTHONPATH=/installed /installed/bin/etcompile argocd plugin >/plugin/home/argocd/cmp-server/config/plugin.yaml
write


FROM scratch AS base
COPY --from=system /system /
COPY --from=packages /dependencies /
COPY --from=packages /program /
ENV PATH=/usr/local/bin:/usr/bin LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1


# The sidecar of Argo CD's repo server. The paths and the user are Argo CD's, and so is the program,
# which the repo server's init container puts there: see `etcompile argocd sidecar`.
FROM base AS argocd
COPY --from=plugin /plugin /
USER 999:999
WORKDIR /home/argocd
ENTRYPOINT ["/var/run/argocd/argocd-cmp-server"]


# A KRM function, for kustomize and kpt: objects on standard input and output.
FROM base AS krm
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/etcompile-krm"]


# The command line, and the watcher: `etcompile watch --manifests` writes its Deployment.
FROM base AS etcompile
USER 65532:65532
WORKDIR /work
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/etcompile"]
CMD ["--help"]
