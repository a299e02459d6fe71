#!/bin/sh
# Builds the image that a release would publish. TAG: its name (inferdash:latest); BASE: another
# base image; PLATFORMS: other ones; PUSH=1: to the registry of TAG, which is where an image for
# several processors can lie. Without PUSH it is kept as dist/inferdash-image.tar, or, for one
# processor, in Docker.
set -eu
cd "$(dirname "$0")/../.."
tag=${TAG:-inferdash:latest}
set -- --tag "$tag"
[ -z "${BASE:-}" ] || set -- "$@" --build-arg "BASE=$BASE"
for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST NPM_CONFIG_REGISTRY EXTRA_CA; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || set -- "$@" --build-arg "$name"
done
[ -z "${BUILD_NETWORK:-}" ] || set -- "$@" --network "$BUILD_NETWORK"

if docker buildx version >/dev/null 2>&1; then
    if [ "${PUSH:-}" = 1 ]; then
        set -- "$@" --push
    else
        mkdir -p dist
        set -- "$@" --output "type=oci,dest=dist/inferdash-image.tar"
    fi
    exec docker buildx build --platform "${PLATFORMS:-linux/amd64,linux/arm64}" "$@" .
fi
echo "inferdash: no docker buildx here, so the image is for this machine's processor alone" >&2
docker build "$@" .
[ "${PUSH:-}" != 1 ] || docker push "$tag"
