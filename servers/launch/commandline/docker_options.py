"""The options of `docker run`, `podman run` and `nerdctl run`: names, and which take a value.

Source: `docker run --help` of Docker 28; podman-run(1) 5; nerdctl's command reference 2.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Option:
    name: str  # its long form, without dashes
    takes_value: bool


_DOCKER_VALUES = """
add-host annotation attach blkio-weight blkio-weight-device cap-add cap-drop cgroup-parent cgroupns
cidfile cpu-count cpu-percent cpu-period cpu-quota cpu-rt-period cpu-rt-runtime cpu-shares cpus
cpuset-cpus cpuset-mems detach-keys device device-cgroup-rule device-read-bps device-read-iops
device-write-bps device-write-iops dns dns-opt dns-option dns-search domainname entrypoint env
env-file expose gpus group-add health-cmd health-interval health-retries health-start-interval
health-start-period health-timeout hostname io-maxbandwidth io-maxiops ip ip6 ipc isolation
kernel-memory label label-file link link-local-ip log-driver log-opt mac-address memory
memory-reservation memory-swap memory-swappiness mount name net net-alias network network-alias
oom-score-adj pid pids-limit platform publish pull restart runtime security-opt shm-size
stop-signal stop-timeout storage-opt sysctl tmpfs ulimit user userns uts volume volume-driver
volumes-from workdir
"""
_DOCKER_SWITCHES = """
detach disable-content-trust help init interactive no-healthcheck oom-kill-disable privileged
publish-all quiet read-only rm sig-proxy tty use-api-socket
"""
_PODMAN_VALUES = """
arch authfile blkio-weight-device cdi-spec-dir cert-dir chrootdirs conmon-pidfile creds decryption-key env-merge
gidmap group-entry health-log-destination health-max-log-count health-max-log-size
health-on-failure health-startup-cmd health-startup-interval health-startup-retries
health-startup-success health-startup-timeout hooks-dir hosts-file image-volume init-path
init-ctr os passwd-entry personality pidfile pod pod-id-file preserve-fd preserve-fds requires
retry retry-delay rdt-class sdnotify seccomp-policy secret shm-size-systemd subgidname subuidname
systemd timeout tz uidmap umask unsetenv variant
"""
_PODMAN_SWITCHES = """
env-host http-proxy no-hostname no-hosts passwd read-only-tmpfs replace rmi rootfs tls-verify
unsetenv-all
"""
_NERDCTL_VALUES = """
cgroup-conf cosign-certificate-identity cosign-key ipfs-address label-file notation-key rdt-class
snapshotter umask verify
"""
_NERDCTL_SWITCHES = "insecure-registry systemd-cgroup"

_SHORT = {
    "a": "attach",
    "c": "cpu-shares",
    "d": "detach",
    "e": "env",
    "h": "hostname",
    "i": "interactive",
    "l": "label",
    "m": "memory",
    "p": "publish",
    "P": "publish-all",
    "q": "quiet",
    "t": "tty",
    "u": "user",
    "v": "volume",
    "w": "workdir",
}
_SAME = {"net": "network", "dns-opt": "dns-option", "net-alias": "network-alias"}


def _table(values: str, switches: str) -> dict[str, Option]:
    found = {name: Option(name=_SAME.get(name, name), takes_value=True) for name in values.split()}
    found |= {name: Option(name=name, takes_value=False) for name in switches.split()}
    return found


_DOCKER = _table(_DOCKER_VALUES, _DOCKER_SWITCHES)
_BY_TOOL = {
    "docker": _DOCKER,
    "podman": _DOCKER | _table(_PODMAN_VALUES, _PODMAN_SWITCHES),
    "nerdctl": _DOCKER | _table(_NERDCTL_VALUES, _NERDCTL_SWITCHES),
}
TOOLS = {**{name: name for name in _BY_TOOL}, "nvidia-docker": "docker", "docker.exe": "docker"}

# Between the tool's name and "run".
_GLOBAL_VALUES = (
    "--config -c --context -H --host -l --log-level --tlscacert --tlscert --tlskey "
    "-n --namespace -a --address --snapshotter --data-root --root --runroot --storage-driver "
    "--storage-opt --url --connection --identity --cgroup-manager --runtime --log-driver"
)
GLOBAL_VALUES = frozenset(_GLOBAL_VALUES.split())


def option(tool: str, name: str) -> Option | None:
    """The option of this tool with a name as typed, without dashes; None if it has none such."""
    return _BY_TOOL[tool].get(_SHORT.get(name, name) if len(name) == 1 else name)


def names(tool: str) -> tuple[str, ...]:
    """All long names of a tool's options, to propose the nearest."""
    return tuple(_BY_TOOL[tool])
