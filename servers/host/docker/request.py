"""A spec as Docker's API wants it."""

from typing import Any

from servers.launch.spec import Port, Spec


def creation(spec: Spec) -> dict[str, Any]:
    """What docker-py's create_container() takes."""
    return {
        "image": spec.image,
        "command": list(spec.command),
        "name": spec.name or None,
        "hostname": spec.hostname or None,
        "entrypoint": list(spec.entrypoint) if spec.entrypoint else None,
        "environment": spec.env,
        "labels": spec.labels,
        "ports": [port.container_port for port in spec.ports],
        "user": spec.user or None,
        "working_dir": spec.workdir or None,
        "stop_signal": spec.stop_signal or None,
        "host_config": _host_config(spec),
    }


def _host_config(spec: Spec) -> dict[str, Any]:
    """Binds go as mounts: Docker then refuses a source that is missing, and creates none."""
    return {
        "PortBindings": _bindings(spec.ports),
        "Mounts": [
            {
                "Type": mount.kind,
                "Source": mount.source,
                "Target": mount.target,
                "ReadOnly": mount.read_only,
            }
            for mount in spec.mounts
        ],
        "NetworkMode": spec.network,
        "IpcMode": spec.ipc,
        "PidMode": spec.pid,
        "ShmSize": spec.shm_size or 0,
        "Memory": spec.memory or 0,
        "PidsLimit": spec.pids_limit,
        "Ulimits": [{"Name": name, "Soft": n, "Hard": n} for name, n in spec.ulimits.items()],
        "DeviceRequests": _gpus(spec),
        "Runtime": spec.runtime,
        "CapAdd": list(spec.cap_add),
        "CapDrop": list(spec.cap_drop),
        "Privileged": spec.privileged,
        "CpusetCpus": spec.cpuset_cpus,
        "Devices": [_device(text) for text in spec.devices],
        "SecurityOpt": list(spec.security_opt),
        "GroupAdd": list(spec.group_add),
        "ExtraHosts": list(spec.extra_hosts),
        "Tmpfs": dict(folder.partition(":")[::2] for folder in spec.tmpfs),
        "Init": spec.init,
        "RestartPolicy": {"Name": spec.restart},
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": spec.log_max_size, "max-file": str(spec.log_max_files)},
        },
    }


def _bindings(ports: tuple[Port, ...]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for port in ports:
        address = {"HostIp": port.host_ip, "HostPort": str(port.host_port or "")}
        found.setdefault(f"{port.container_port}/tcp", []).append(address)
    return found


def _gpus(spec: Spec) -> list[dict[str, Any]]:
    if spec.gpus == "none":
        return []
    request: dict[str, Any] = {"Capabilities": [list(spec.gpu_capabilities)]}
    if spec.gpus == "all":
        return [request | {"Count": -1}]
    if spec.gpu_count:
        return [request | {"Count": spec.gpu_count}]
    return [request | {"DeviceIDs": spec.gpus.split(",")}]


def _device(text: str) -> dict[str, str]:
    """host[:container[:permissions]], as `docker run --device` takes it."""
    host, _, rest = text.partition(":")
    container, _, permissions = rest.partition(":")
    return {
        "PathOnHost": host,
        "PathInContainer": container or host,
        "CgroupPermissions": permissions or "rwm",
    }
