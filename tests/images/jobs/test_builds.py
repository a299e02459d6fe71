"""Images built from the Dockerfile that a profile keeps."""

import io
import uuid
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from docker import APIClient

from servers.host.docker.containers import DockerContainers
from servers.host.images.images import DockerStream
from servers.launch.engines.launch import Launch
from servers.lifecycle.images import inventory, work
from servers.lifecycle.jobs import commands
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.starts import SecretsError
from servers.models import (
    Box,
    ImageJob,
    JobLog,
    Server,
    StoredImage,
)
from servers.models.runs.run import RunState
from tests import factories, jobs
from tests.base_images import BASE
from tests.hostile_server import hostile_server
from tests.images.jobs.steps import done, look
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


TOKEN = "hf_" + "aB3" * 12


def patched(box: Box, text: str, **files: str) -> Server:
    name = f"patched-{uuid.uuid4().hex[:8]}"
    named = {each.replace("_", "."): said for each, said in files.items()}
    return factories.server(
        box, name, model="minimax-m2.7", dockerfile=text, build_files=named, image="x/y:1"
    )


def build(server: Server) -> ImageJob:
    version = server.profile.current
    assert version is not None
    tag = inventory.name_build(server.profile.slug, server.profile.launch)
    return done(work.ask_to_build(server.box, tag, version, by=factories.person()))


def test_a_patched_image_is_built_from_the_profiles_dockerfile(
    box: Box, docker: DockerContainers
) -> None:
    server = patched(
        box, f"FROM {BASE}\nCOPY fix.sh /fix.sh\nRUN /fix.sh {TOKEN}\n",
        fix_sh="#!/bin/sh\necho patched $1 > /patched\ncat /patched\n",
    )  # fmt: skip
    job = build(server)
    assert job.state == "done", job.said
    assert job.percent == 100
    log = "\n".join(JobLog.objects.filter(job=job).values_list("text", flat=True))
    assert "Step 2/5 : COPY fix.sh /fix.sh" in log
    assert "patched" in log
    assert TOKEN not in log
    assert log.count("\n") + 1 == job.lines
    image = docker.image(job.reference)
    assert image is not None
    # A label that containers inherit must not make them ours.
    assert "inferdash.install" not in image.labels
    look(box, docker)
    stored = StoredImage.objects.get(image_id=job.image_id)
    assert stored.built_for == server.profile.slug
    assert stored.engine == "vllm"  # its profile's
    assert [each.may_go for each in inventory.fates(box) if each.image == stored] == [True]

    launch = replace(server.profile.launch, image=job.reference)
    server.profile.save_version(launch, by=None)
    assert [each.may_go for each in inventory.fates(box) if each.image == stored] == [False]
    docker.drop_image(job.image_id)


def test_a_build_that_fails_says_where(box: Box) -> None:
    job = build(patched(box, f"FROM {BASE}\nRUN echo about to fail && exit 7\n"))
    assert job.state == "failed"
    assert job.said.startswith("Step 2 of 4 failed: its command ended with exit code 7.")
    log = "\n".join(JobLog.objects.filter(job=job).values_list("text", flat=True))
    assert "about to fail" in log

    missing = build(patched(box, "FROM 127.0.0.1:1/nobody:1\n"))
    assert "The build failed. The registry cannot be reached" in missing.said
    refused = build(patched(box, "FROM x\nADD http://169.254.169.254/ /x\n"))
    assert "ADD is not taken" in refused.said


def test_what_a_base_image_adds_to_a_build_is_read_before_it(
    box: Box, docker: DockerContainers
) -> None:
    """Its ONBUILD would have the daemon fetch from the box's own network."""
    name = f"onbuild-{uuid.uuid4().hex[:8]}:1"
    with hostile_server() as inside, closing(APIClient(docker.host, version="auto")) as client:
        inside.otherwise = lambda talk: talk.send("200 OK", b"LOOPBACK-SECRET")
        text = f"FROM {BASE}\nONBUILD ADD {inside.url}/meta /stolen\nONBUILD RUN cat /stolen\n"
        for _line in client.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True):
            pass
        try:
            for dockerfile in (
                f"FROM {name}\nRUN true\n",
                f"ARG B={name}\nFROM ${{B}}\n",
                f"FROM scratch AS a\nFROM {name} AS b\nFROM {BASE}\n",
            ):
                job = build(patched(box, dockerfile))
                assert job.state == "failed"
                assert f"{name} adds to every build" in job.said
                assert "ADD is not taken" in job.said
        finally:
            client.remove_image(name, force=True)
    assert not inside.asked


def inspected(client: APIClient, name: str) -> tuple[str, list[str]]:
    """The image's id and its layers."""
    said = client.inspect_image(name)  # type: ignore[no-untyped-call]
    return said["Id"], said["RootFS"]["Layers"]


def test_a_build_begins_with_the_very_image_that_was_looked_at(
    box: Box, docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is moved in between, to one whose ONBUILD would be refused."""
    moved = f"moved-{uuid.uuid4().hex[:8]}"
    name = f"{moved}:1"
    building = DockerContainers.begin_build
    with hostile_server() as inside, closing(APIClient(docker.host, version="auto")) as client:
        inside.otherwise = lambda talk: talk.send("200 OK", b"LOOPBACK-SECRET")
        text = f"FROM {BASE}\nONBUILD ADD {inside.url}/meta /stolen\n"
        for _line in client.build(fileobj=io.BytesIO(text.encode()), tag=f"other-{name}", rm=True):
            pass
        client.tag(BASE, moved, "1")
        looked_at, layers = inspected(client, BASE)

        def after_a_move(self: DockerContainers, *args: Any, **more: Any) -> DockerStream:
            client.tag(f"other-{name}", moved, "1")
            return building(self, *args, **more)

        monkeypatch.setattr(DockerContainers, "begin_build", after_a_move)
        try:
            job = build(patched(box, f"ARG B={name}\nFROM $B AS a\nFROM a\nRUN : {name}\n"))
            assert job.state == "done", job.said
            assert inspected(client, name)[0] != looked_at
            assert inspected(client, job.image_id)[1][: len(layers)] == layers
            log = "\n".join(JobLog.objects.filter(job=job).values_list("text", flat=True))
            assert f"{name} is {looked_at}" in log
            docker.drop_image(job.image_id)
        finally:
            client.remove_image(name, force=True)
            client.remove_image(f"other-{name}", force=True)
    assert not inside.asked


def test_a_build_is_cancelled(box: Box, docker: DockerContainers) -> None:
    # Unlike any before it: what Docker has in its cache is not built again.
    server = patched(
        box,
        f"FROM {BASE}\nRUN echo {uuid.uuid4()} > /first\nRUN echo it waits && sleep 600\n",
    )
    version = server.profile.current
    assert version is not None
    tag = inventory.name_build(server.profile.slug, server.profile.launch)
    job = work.ask_to_build(box, tag, version, by=factories.person())
    assert job is not None
    runner = jobs.runner(box)
    runner.step()
    said = JobLog.objects.filter(job=job, text__regex="(?m)^it waits$")
    wait_until(said.exists, "it was said")
    commands.cancel(job, by=factories.person())
    runner.step()
    runner.wait()
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert "build again, and it goes on from there" in job.said
    assert docker.image(tag) is None

    # Docker removes the container of the step a moment later.
    wait_until(lambda: job.image_id not in {e.image_id for e in docker.uses()}, "it is removed")
    look(box, docker)
    [left] = [each for each in inventory.fates(box) if each.image.image_id == job.image_id]
    assert (left.may_go, left.is_ours) == (True, True)
    docker.drop_image(job.image_id)


def test_a_profile_whose_image_was_not_built_does_not_ask_a_registry(box: Box) -> None:
    server = patched(box, f"FROM {BASE}\n")
    launch: Launch = server.profile.launch
    tag = inventory.name_build(server.profile.slug, launch)
    server.profile.save_version(replace(launch, image=tag), by=None)
    server.profile.refresh_from_db()
    run = factories.run(server, RunState.QUEUED)
    with pytest.raises(SecretsError, match="Build it on the page of"):
        creation.image(run)
