# One image for web, worker, watcher and migrate. x86-64 and aarch64.
# make compose-pin puts its digest here.
ARG BASE=debian:trixie-20260918-slim
FROM $BASE AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# How the machine that builds reaches its packages, where that is not the usual way. Nothing of
# it gets into the image: this stage is left behind.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ARG NPM_CONFIG_REGISTRY
# Certificates (PEM) of a proxy that looks into TLS.
ARG EXTRA_CA
RUN printf '%s\n' "$EXTRA_CA" >> /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
WORKDIR /app
COPY requirements.txt ./
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
COPY inferdash/up/node-requirements.txt package.json package-lock.json ./
RUN python3 -m venv /opt/node \
    && /opt/node/bin/pip install --no-cache-dir --require-hashes -r node-requirements.txt \
    && PATH=/opt/node/bin:$PATH npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM $BASE
# OpenSSH carries the links of several boxes; its host keys would be the same for everybody.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 \
        openssh-client openssh-server \
    && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*
# The person whose folders profiles mount: who may not look into a home cannot check its mounts.
ARG UID=10001
RUN useradd --create-home --uid "$UID" inferdash \
    && install -d -m 0700 -o inferdash -g inferdash /data /limits /own-tls \
    && install -d -m 0755 -o inferdash -g inferdash /database
WORKDIR /app
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app/node_modules ./node_modules
COPY manage.py ./
COPY inferdash ./inferdash
COPY servers ./servers
COPY templates ./templates
COPY static ./static
RUN python3 -m compileall -q inferdash servers
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=inferdash.settings INFERDASH_DATA=/data
USER inferdash
VOLUME /data
EXPOSE 8470
CMD ["python", "-m", "inferdash.up.web"]
