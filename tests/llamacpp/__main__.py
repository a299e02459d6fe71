from tests import docker_engine
from tests.llamacpp import provide

if __name__ == "__main__":
    with docker_engine.lease() as docker_host:
        provide(docker_host)
