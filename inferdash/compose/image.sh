#!/bin/sh
# Builds the image that a release would publish. TAG: its name (inferdash:latest); BASE: another
# base image; PLATFORMS: for which processors; PUSH=1: to the registry of TAG. It is kept in Docker,
# for this machine's processor; where buildx can build for both, both are in
# dist/inferdash-image.tar, too.
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

# Docker's own builder makes one image for one processor, unless it keeps images as containerd does.
can_build_for_several() {
    described=$(docker buildx inspect --bootstrap 2>/dev/null) || return 1
    for platform in linux/amd64 linux/arm64; do
        case $described in *"$platform"*) ;; *) return 1 ;; esac
    done
    [ "$(echo "$described" | sed -n 's/^Driver: *//p')" = docker ] || return 0
    docker info --format '{{.DriverStatus}}' | grep -q io.containerd.snapshotter
}

if [ "${PUSH:-}" = 1 ] && docker buildx version >/dev/null 2>&1; then
    exec docker buildx build --platform "${PLATFORMS:-linux/amd64,linux/arm64}" "$@" --push .
fi
if [ -n "${PLATFORMS:-}" ] || can_build_for_several; then
    mkdir -p dist
    docker buildx build --platform "${PLATFORMS:-linux/amd64,linux/arm64}" "$@" \
        --output "type=oci,dest=dist/inferdash-image.tar" .
    echo "inferdash: for ${PLATFORMS:-linux/amd64,linux/arm64}: dist/inferdash-image.tar" >&2
else
    echo "inferdash: this Docker builds for one processor, so the image is for this machine's" \
        "alone, $(uname -m). Both need buildx with a builder of its own:" \
        "docker buildx create --use" >&2
fi
docker build "$@" .
[ "${PUSH:-}" != 1 ] || docker push "$tag"
echo "inferdash: built $tag. The demo in it:" \
    "docker run --rm -p 127.0.0.1:8470:8470 -e HOST=0.0.0.0 $tag python -m inferdash.demo" >&2
