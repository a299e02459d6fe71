from servers.host.docker.containers import DockerContainers, Spec
from tests.base_images import BASE, ENGINE


def spec(docker: DockerContainers, name: str = "one", **fields: object) -> Spec:
    values: dict[str, object] = {
        "image": ENGINE,
        "name": f"inferdash-{docker.install[:8]}-{name}",
        "labels": {"inferdash.install": docker.install, "inferdash.run": "1"},
        **fields,
    }
    return Spec(**values)  # type: ignore[arg-type]


def shell(docker: DockerContainers, script: str, name: str = "one", **fields: object) -> Spec:
    return spec(docker, name, image=BASE, entrypoint=("/bin/sh", "-c"), command=(script,), **fields)


def wait_for_end(docker: DockerContainers, container_id: str) -> None:
    for _line in docker.logs(container_id, follow=True):
        pass
