"""A follower as a process of its own, so that tests can kill it.

python -m tests.log_follower RUN CONTAINER INSTALL DOCKER_HOST [SECRET ...]
"""

import sys

import django


def main() -> None:
    django.setup()
    from servers.host.docker.containers import DockerContainers
    from servers.watcher.logs.follower import Follower

    run, container, install, host, *secrets = sys.argv[1:]
    Follower(int(run), container, masks=secrets, docker=DockerContainers(install, host)).run()


if __name__ == "__main__":
    main()
