# One image, four commands: web, worker, watcher, migrate. x86-64 and aarch64.
FROM debian:trixie-slim AS front-end
RUN apt-get update && apt-get install -y --no-install-recommends npm && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --omit=dev

FROM debian:trixie-slim AS python
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/venv
# A mirror of the package index, where the machine that builds needs one.
ARG PIP_INDEX_URL
ARG PIP_TRUSTED_HOST
COPY requirements.txt ./
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements.txt

FROM debian:trixie-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 inferdash \
    && install -d -m 0700 -o inferdash -g inferdash /data
COPY --from=python /opt/venv /opt/venv
WORKDIR /app
COPY --from=front-end /src/node_modules ./node_modules
COPY manage.py pyproject.toml ./
COPY inferdash ./inferdash
COPY servers ./servers
COPY templates ./templates
COPY static ./static
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 INFERDASH_DATA=/data
USER inferdash
VOLUME /data
EXPOSE 8470
CMD ["uvicorn", "inferdash.asgi:application", "--host", "127.0.0.1", "--port", "8470", "--no-access-log"]
