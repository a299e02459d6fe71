"""An engine: how inferdash runs it and understands what it says."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from servers.launch.engines.flaglist import FlagList
from servers.launch.engines.launch import Launch

SECRET_FLAGS = {"--api-key", "--admin-api-key", "--hf-token", "-hft", "--ssl-keyfile-password"}
_PORT = re.compile("[0-9]{1,5}")


@dataclass(frozen=True, kw_only=True)
class Engine:
    key: str
    title: str
    default_port: int
    # Where newer releases listen that are told no port; 0: they have not moved.
    newer_port: int = 0
    # The repository of its official image, a tag where it must have one, and what that image's
    # entrypoint is: an image that is not on the box yet cannot say it.
    image: str
    image_entrypoint: tuple[str, ...] = ()
    # The program as it is typed where the image has no entrypoint of its own.
    program: tuple[str, ...]
    # Whether it serves models by OpenAI's API: else it has no chat, no figures and no flags.
    serves_models: bool = True
    # Answers 200 when ready and costs no generation.
    health_path: str
    # A variable with which the health path does cost one, unless it is off; "" where none does.
    health_generates: str = ""
    # Served model names: the second half of "ready".
    models_path: str = "/v1/models"
    version_path: str
    version_key: str
    running_metric: str
    waiting_metric: str
    # What moves while it computes, the generated tokens among them: some count a request's
    # tokens only at its end, and a long prompt generates nothing for minutes.
    moving_metrics: tuple[str, ...]
    # Seconds after a request until its figures no longer tell of it.
    settles: float = 5.0
    metrics_path: str = "/metrics"
    # Says which requests run where metrics are switched off; "" where the engine has none.
    slots_path: str = ""
    # Its streams state their tokens only if `stream_options` asks for that.
    counts_when_asked: bool = False
    # What lists its flags, the likeliest first. Some releases understand only one of them, and
    # one that lists a part leaves out flags that every release has.
    help_commands: tuple[tuple[str, ...], ...]
    sure_flags: tuple[str, ...]
    # Flags that it takes and whose help it suppresses.
    hidden_flags: tuple[str, ...] = ()
    # What prints its version, and how that is read: a pattern, and what to make of its groups.
    version_command: tuple[str, ...]
    version_pattern: str = r"(?m)^([0-9]+\.[0-9][^\s]{0,50})\s*$"
    version_form: str = r"\1"
    # Takes the paths that the access log leaves out; "" where no release has such a flag.
    quiet_flag: str = ""
    # With both it can sleep: hold little memory, and answer nobody until it is woken. "": it cannot.
    sleep_flag: str = ""
    sleep_variable: str = ""
    # Where it can be told to write its log besides: a flag and a variable.
    log_flag: str = ""
    log_variable: str = ""
    # Set unless the profile sets them.
    env: dict[str, str] = field(default_factory=dict)
    # Engine's own words for checkpoint, revision, name, host and port behind an entrypoint.
    own_flags: Callable[[Launch, str, tuple[str, ...]], tuple[str, ...]]
    # What starts it behind an image's entrypoint: nothing where that says the whole program.
    behind: Callable[[tuple[str, ...]], tuple[str, ...]]

    def port(self, launch: Launch) -> int:
        """The port inside the container: the flag's, else the profile's, else the default."""
        flag = flag_value(launch.flags, "--port")
        # What is no port is the engine's to refuse.
        if flag is not None and _PORT.fullmatch(flag) and 0 < int(flag) < 65536:
            return int(flag)
        return launch.port or self.default_port

    def watched_path(self, launch: Launch, *, is_ours: bool = True) -> str:
        """What a ready engine is asked every other second: free of generations, whatever it says.

        `is_ours`: inferdash has started it, with the variables that it sets itself.
        """
        if not self.serves_models:
            return launch.ready_path or self.health_path
        usual = "0" if is_ours or not self.health_generates else "1"
        value = launch.env.get(self.health_generates, usual).lower()
        return self.health_path if value in ("0", "false", "no", "off") else self.models_path

    def served_name(self, launch: Launch) -> str:
        """The name that requests must give: what the engine lists under its models path.

        "" for what serves no models.
        """
        # llama.cpp takes several names in one word.
        alias = flag_value(launch.flags, "--alias", "-a")
        names = (
            flag_value(launch.flags, "--served-model-name"),
            alias and alias.split(",")[0].strip(),
            launch.served_name,
            launch.checkpoint,
        )
        return next((name for name in names if name), "")

    def may_sleep(self, launch: Launch) -> bool:
        """Whether it can be put to sleep as it was started."""
        if not self.sleep_flag or launch.env.get(self.sleep_variable) not in ("1", "true", "True"):
            return False
        stem = self.sleep_flag.removeprefix("--enable-")
        off = (f"--disable-{stem}", f"--no-enable-{stem}")
        return (
            flag_value(launch.flags, self.sleep_flag) is not None
            and flag_value(launch.flags, *off) is None
        )

    def is_open(self, launch: Launch) -> bool:
        """Whether other machines reach the port: a host address or network beyond loopback."""
        return listens_beyond_loopback(self.listens_on(launch))

    def listens_on(self, launch: Launch) -> str:
        """The address of the box at which its port is: 0.0.0.0 is all of them."""
        if launch.network == "host":
            return flag_value(launch.flags, "--host") or "127.0.0.1"
        return launch.host_address

    def has_key(self, launch: Launch) -> bool:
        """Whether the engine asks callers for a key."""
        return flag_value(launch.flags, "--api-key") is not None or any(
            name in launch.env or name in launch.secret_env
            for name in ("VLLM_API_KEY", "LLAMA_API_KEY")
        )

    def command(
        self, launch: Launch, entrypoint: tuple[str, ...], *, known: FlagList | None = None
    ) -> tuple[str, ...]:
        """The words after the entrypoint.

        `entrypoint` is the container's: the profile's own, else the image's. What it
        already says of the program is not said twice: vllm/vllm-openai has "vllm serve",
        lmsysorg/sglang has none that serves, a script says all of it. `known` is what the image itself has said of its
        flags; None where it was not asked, and then no flag is added that a release may lack.
        """
        if _is_whole_script(entrypoint):
            return ()
        # Inside a bridge the loopback is the container's own: Docker's port binding, not
        # the engine, decides who gets in. On the host's network the engine decides.
        host = "127.0.0.1" if launch.network == "host" else "0.0.0.0"  # noqa: S104
        own = self.own_flags(launch, host, entrypoint) + self._quiet(launch, known)
        return self.behind(entrypoint) + own + launch.flags

    def _quiet(self, launch: Launch, known: FlagList | None) -> tuple[str, ...]:
        """What keeps inferdash's own questions, one every other second, out of the log."""
        if known is None or not known.is_spelled_out(self.quiet_flag):
            return ()
        flag = known.find(self.quiet_flag)
        words = [word.partition("=")[0] for word in launch.flags if word.startswith("-")]
        # A file of flags may say it, and would lose against the command line.
        if flag is None or "--config" in words or flag in map(known.find, words):
            return ()
        paths = (self.health_path, self.metrics_path)
        return (flag.name, *(paths if flag.takes == "many" else (",".join(paths),)))


def flag_value(flags: tuple[str, ...], *names: str) -> str | None:
    """The value of the last of these flags, None when none is there; "" for one without a value.

    Understands "--flag value", "--flag=value" and underscores, as vLLM does.
    """
    wanted = {name.replace("_", "-") for name in names}
    found: str | None = None
    for position, word in enumerate(flags):
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") in wanted:
            following = flags[position + 1] if position + 1 < len(flags) else ""
            found = value if equals else ("" if following.startswith("-") else following)
    return found


# How many GPUs a model is cut over, and in which rows.
_PARALLEL = (
    ("--tensor-parallel-size", "-tp", "--tp", "--tp-size"),
    ("--pipeline-parallel-size", "-pp", "--pp", "--pp-size"),
    ("--data-parallel-size", "-dp", "--dp", "--dp-size"),
)


def read_parallel(flags: tuple[str, ...]) -> int:
    """How many GPUs the flags of vLLM or SGLang ask for; 1 for what is no number."""
    count = 1
    for names in _PARALLEL:
        said = flag_value(flags, *names) or ""
        count *= int(said) if said.isascii() and said.isdigit() and 0 < len(said) < 5 else 1
    return count


def secret_words(flags: tuple[str, ...]) -> list[str]:
    """The words of a command line that are keys or passwords, which people write there too."""
    found: list[str] = []
    is_value = False
    for word in flags:
        flag, equals, value = word.partition("=")
        if word.startswith("-"):
            is_value = flag.replace("_", "-") in SECRET_FLAGS
            found += [value] if is_value and equals else []
        elif is_value:
            # vLLM takes several words, llama.cpp several keys with commas between.
            found += [word, *word.split(",")]
    return found


def python_version(package: str) -> tuple[str, ...]:
    """What prints the version of a Python package, without loading it where that is possible."""
    return (
        "python3",
        "-c",
        "from importlib import import_module, metadata\n"
        f"try: print(metadata.version({package!r}))\n"
        f"except metadata.PackageNotFoundError: print(import_module({package!r}).__version__)",
    )


def unless_set(launch: Launch, *pairs: tuple[tuple[str, ...], str]) -> tuple[str, ...]:
    """The flags of these (names, value) pairs that have a value and that the profile leaves out."""
    words: list[str] = []
    for names, value in pairs:
        if value and flag_value(launch.flags, *names) is None:
            words += [names[0], value]
    return tuple(words)


def names(words: tuple[str, ...]) -> list[str]:
    """The words without the folders of programs: /opt/bin/vllm is vllm."""
    return [word.rsplit("/", 1)[-1] for word in words]


def _is_whole_script(entrypoint: tuple[str, ...]) -> bool:
    """Whether it is `bash -c` with a text that takes no words of those behind it."""
    if len(entrypoint) < 3 or names(entrypoint[:1])[0] not in ("bash", "sh", "dash", "zsh", "ash"):
        return False
    is_text = re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", entrypoint[-2]) is not None
    return is_text and re.search(r"\$\{?[0-9@*#]", entrypoint[-1]) is None


def is_python(name: str) -> bool:
    return re.fullmatch(r"python[0-9.]*", name) is not None


def listens_beyond_loopback(address: str) -> bool:
    return not (address.startswith("127.") or address in ("::1", "localhost"))
