"""A simulated container: an engine with processes that can be killed, a log and memory of GPUs.

Each process of an engine is a real one that does nothing (`cat`), so that real signals reach it. It
ends when the simulation does, because its input is closed then.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from inferdash.demo import script
from inferdash.demo.box import Held, SimulatedBox
from inferdash.demo.engine import Listening, SimulatedEngine, read_settings, serve
from inferdash.demo.script import Exit, Load, LogLine, ScriptPause, Settings

# Whose last worker outlives its container, as happens after a crash in NCCL.
LEAVES_A_WORKER = "zai-org/GLM-4.5-Air-FP8"
# Seconds that starts take: real ones take minutes, which nobody wants to wait here.
QUICK = float(os.environ.get("INFERDASH_DEMO_SECONDS") or 13)
SLOW = 240.0
SLOWLY = "Qwen/Qwen3-Coder-30B-A3B-Instruct"
# Ports of running containers: they listen on them only when they are ready.
_taken: set[int] = set()
SHIM = 2211  # containerd's process, whose children containers are
_NEVER = "0001-01-01T00:00:00Z"


def timestamp(at: float | None = None) -> str:
    """RFC 3339 with nanoseconds, as Docker writes it."""
    now = time.time() if at is None else at
    whole = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{int(now % 1 * 1e9):09d}Z"


@dataclass(kw_only=True)
class ContainerProcess:
    process: asyncio.subprocess.Process
    held: Held | None = None
    card: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass(kw_only=True)
class SimulatedContainer:
    box: SimulatedBox
    name: str
    config: dict[str, Any]  # as it was asked for
    image_id: str
    env: dict[str, str]
    id: str = ""
    state: str = "created"
    created: float = field(default_factory=time.time)
    started_at: str = _NEVER
    finished_at: str = _NEVER
    exit_code: int = 0
    lines: list[tuple[float, str, bytes]] = field(default_factory=list)
    processes: list[ContainerProcess] = field(default_factory=list)
    engine: SimulatedEngine | None = None
    effort: float = 0.0

    def __post_init__(self) -> None:
        self.id = hashlib.sha256(f"{self.name}{self.created}".encode()).hexdigest()
        self.changed = asyncio.Condition()
        self._server: Listening | None = None
        self._life: asyncio.Task[None] | None = None
        self._last = 0.0
        self._port = 0

    @property
    def words(self) -> list[str]:
        return [*(self.config.get("Entrypoint") or []), *(self.config.get("Cmd") or [])]

    @property
    def labels(self) -> dict[str, str]:
        return self.config.get("Labels") or {}

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def settings(self) -> Settings | None:
        return read_settings(str(self.config.get("Image")), self.words, self.env)

    @property
    def cards(self) -> list[int]:
        """Indices of the GPUs that it was given."""
        everything = list(range(len(self.box.cards)))
        found: list[int] = []
        for request in self.config.get("HostConfig", {}).get("DeviceRequests") or []:
            if named := request.get("DeviceIDs"):
                uuids = {card.facts["uuid"]: n for n, card in enumerate(self.box.cards)}
                found += [int(each) if each.isdigit() else uuids.get(each, -1) for each in named]
            else:
                count = request.get("Count") or 0
                found += everything if count < 0 else everything[:count]
        return [index for index in found if index in everything]

    def list_published(self) -> dict[str, list[dict[str, str]]]:
        return self.config.get("HostConfig", {}).get("PortBindings") or {}

    def bind(self, settings: Settings) -> socket.socket:
        """Where its engine will listen. Raises OSError where somebody else does."""
        bindings = self.list_published().get(f"{settings.port}/tcp") or []
        port = int(bindings[0].get("HostPort") or 0) if bindings else settings.port
        if port in _taken:
            raise OSError(f"port {port} is another container's")
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError:
            listening.close()
            raise
        self._port = listening.getsockname()[1]
        _taken.add(self._port)
        if bindings:
            bindings[0]["HostPort"] = str(self._port)
        return listening

    async def start(self) -> None:
        settings = self.settings
        listening = self.bind(settings) if settings else None
        self.state, self.started_at = "running", timestamp()
        await self._begin(" ".join(self.words[:3]) or "sh", card=None)
        self._life = asyncio.create_task(self._live(settings, listening))

    async def _live(self, settings: Settings | None, listening: socket.socket | None) -> None:
        if settings is None or listening is None:
            await asyncio.Event().wait()
            return
        seed = sum(map(ord, settings.model)) + len(self.labels)
        rate = script.find_model(settings.model).rate
        self.engine = SimulatedEngine(settings, rate=rate, seed=seed)
        cards = self.cards[: max(1, settings.ranks)]
        title = "VLLM::EngineCore" if len(cards) == 1 else "VLLM::Worker_TP{rank}"
        title = title if settings.engine == "vllm" else f"{settings.engine}::scheduler_TP{{rank}}"
        for rank, card in enumerate(cards):
            await self._begin(title.format(rank=rank), card=card)
        memory = self.box.cards[cards[0]].facts.get("total") if cards else None
        seconds = SLOW if settings.model == SLOWLY else QUICK
        for step in script.play_start(settings, memory or self.box.memory, seconds=seconds):
            match step:
                case LogLine():
                    await self.log(step.text, step.stream)
                case ScriptPause():
                    await asyncio.sleep(step.seconds)
                case Load():
                    for each in self.processes:
                        if each.held:
                            each.held.size = step.size
                case Exit():
                    listening.close()
                    await self.end(step.code)
                    return
        self._server = serve(self.engine.answer, listening)
        self.engine.is_ready = True

    async def _begin(self, title: str, *, card: int | None) -> None:
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        mine = ContainerProcess(process=process)
        parent = self.processes[0].pid if self.processes else SHIM
        self.box.begin_process(process.pid, self.id, title, parent)
        if card is not None:
            mine.held, mine.card = Held(pid=process.pid, size=500 << 20), card
            self.box.cards[card].held.append(mine.held)
        self.processes.append(mine)
        asyncio.create_task(self._bury(mine))  # noqa: RUF006 - ends with its process

    async def _bury(self, mine: ContainerProcess) -> None:
        """Take away what a process had once it is gone, whoever ended it."""
        await mine.process.wait()
        self.box.end_process(mine.pid)
        if mine.held:
            self.box.cards[mine.card].held.remove(mine.held)
        self.processes.remove(mine)

    async def log(self, text: str, stream: str = "o") -> None:
        # No two lines of a container have one timestamp.
        self._last = max(time.time(), self._last + 1e-6)
        async with self.changed:
            self.lines.append((self._last, stream, text.encode() + b"\n"))
            self.changed.notify_all()

    async def kill(self, signal: str) -> None:
        if signal in ("SIGTERM", "SIGINT", "15", "TERM"):
            if self.engine and self.engine.is_ready:
                await self.log("(APIServer pid=1) INFO:     Shutting down", "e")
                await asyncio.sleep(0.6)
                await self.end(0)
            else:
                await self.end(143)
        elif signal in ("SIGKILL", "9", "KILL", ""):
            await self.end(137)

    async def end(self, code: int) -> None:
        if not self.is_running:
            return
        if self._server:
            self._server.should_exit = True
        _taken.discard(self._port)
        settings = self.settings
        stays = self.processes[-1] if settings and settings.model == LEAVES_A_WORKER else None
        life, self._life = self._life, None
        if life is not None and life is not asyncio.current_task():
            life.cancel()
        for each in list(self.processes):
            if each is not stays:
                with contextlib.suppress(ProcessLookupError):
                    each.process.kill()
        self.engine = None
        async with self.changed:
            self.state, self.exit_code, self.finished_at = "exited", code, timestamp()
            self.changed.notify_all()
        await self.on_end()

    async def on_end(self) -> None:
        """Set by Docker, which tells of it."""

    def step(self, seconds: float) -> None:
        """Let time pass: its GPUs work as its requests want."""
        effort = self.engine.step(seconds) if self.engine else 0.0
        for each in self.processes:
            if each.held:
                card = self.box.cards[each.card]
                card.effort = max(card.effort, effort)

    def inspect(self) -> dict[str, Any]:
        host = self.config.get("HostConfig") or {}
        is_running = self.is_running and bool(self.processes)
        bindings = {
            port: [{"HostIp": each.get("HostIp") or "0.0.0.0", "HostPort": each["HostPort"]} for each in of]  # noqa: S104
            for port, of in self.list_published().items()
        }  # fmt: skip
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Created": timestamp(self.created),
            "Image": self.image_id,
            "RestartCount": 0,
            "State": {
                "Status": self.state, "Running": self.is_running, "OOMKilled": False, "Error": "",
                "Pid": self.processes[0].pid if is_running else 0, "ExitCode": self.exit_code,
                "StartedAt": self.started_at, "FinishedAt": self.finished_at,
            },
            "Config": {**self.config, "HostConfig": None, "Labels": self.labels,
                       "Env": self.config.get("Env") or [], "Tty": False},
            "HostConfig": host,
            "NetworkSettings": {"Ports": bindings if self.is_running else {}, "Networks": {}},
            "Mounts": [
                {"Type": each["Type"], "Source": each["Source"], "Name": each["Source"] if each["Type"] == "volume" else "",
                 "Destination": each["Target"], "RW": not each.get("ReadOnly")}
                for each in host.get("Mounts") or []
            ],
        }  # fmt: skip
