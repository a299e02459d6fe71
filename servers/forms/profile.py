"""The profile form: what a person types, as a Launch."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.utils.text import slugify

from servers.commandline import words
from servers.engines import choices
from servers.engines.launch import Launch
from servers.engines.volumes import VolumeError, parse
from servers.models import Box, Profile, Secret, User

MASK = "••••••••"

# What Docker accepts as a reference; the registry decides whether it exists.
# No group is repeated: a repeated one would take for ever on "a......!".
image_reference = RegexValidator(
    r"\A(?!.*[:/]{2})[a-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9_-])?(?:@sha256:[0-9a-f]{64})?\Z",
    "This is not an image reference, such as vllm/vllm-openai:v0.20.2.",
)
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
# More is no command line or environment, and reading it would keep the web process busy.
LONGEST_TEXT = 8_000
LONG = {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}


def text_box(rows: int, placeholder: str = "") -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "placeholder": placeholder, **LONG})


# Admins alone: whoever controls these controls the box.
DANGEROUS = ("privileged", "devices", "security_opt", "cap_add", "pid", "user")
HARMLESS_CAPABILITIES = {"SYS_NICE", "IPC_LOCK"}


def opens_the_box(values: Mapping[str, Any]) -> list[str]:
    """Which of a launch's values only an admin may set."""
    given = {name: values.get(name) for name in DANGEROUS}
    given["cap_add"] = set(given["cap_add"] or ()) - HARMLESS_CAPABILITIES
    return [name for name, value in given.items() if value]


class ProfileForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="How the team calls it.")
    box = forms.ModelChoiceField(Box.objects.all(), empty_label=None)
    notes = forms.CharField(
        required=False, widget=text_box(3), help_text="Where it comes from, what to expect."
    )

    checkpoint = forms.CharField(
        label="Model",
        max_length=300,
        help_text="A Hugging Face id (Qwen/Qwen3-8B), or a path inside the container.",
    )
    revision = forms.CharField(required=False, max_length=64, help_text="Branch, tag or commit.")
    served_name = forms.CharField(
        label="Served model name",
        required=False,
        max_length=200,
        help_text="What requests call it. Empty: the model's own name.",
    )

    engine = forms.ChoiceField(choices=choices)
    image = forms.CharField(max_length=300, validators=[image_reference])
    flags = forms.CharField(
        label="Engine flags",
        required=False,
        max_length=LONGEST_TEXT,
        widget=text_box(6, "--max-model-len 32768\n--gpu-memory-utilization 0.9"),
        help_text="One a line or as pasted. # begins a comment. Model, name, host and port are added.",
    )
    env = forms.CharField(
        label="Environment",
        required=False,
        widget=text_box(4, "NCCL_P2P_LEVEL=SYS"),
        help_text="NAME=value lines. Values of names like …_TOKEN or …_KEY are kept encrypted.",
    )

    port = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=65535,
        label="Port in the container",
        help_text="Empty: the engine's default.",
    )
    host_port = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=65535,
        label="Port on the box",
        help_text="Empty: a free one of 18000-18099.",
    )
    host_address = forms.GenericIPAddressField(
        initial="127.0.0.1",
        label="Address on the box",
        help_text="127.0.0.1: this box only. 0.0.0.0: everybody who reaches the box.",
    )
    network = forms.CharField(
        initial="bridge", max_length=100, help_text="bridge, host, or a Docker network."
    )

    volumes = forms.CharField(
        required=False,
        widget=text_box(3, "~/models:/models:ro"),
        help_text="source:target or source:target:ro, one a line. ~ and $HOME are the box's home folder.",
    )
    mount_hf_cache = forms.BooleanField(
        required=False, initial=True, label="Mount the box's Hugging Face cache"
    )
    pass_hf_token = forms.BooleanField(
        required=False, initial=True, label="Pass the box's Hugging Face token"
    )

    gpus = forms.CharField(
        label="GPUs", initial="all", max_length=100, help_text="all, none, or indices: 0,1."
    )
    shm_size = forms.CharField(
        label="Shared memory",
        required=False,
        max_length=20,
        help_text="16g. Empty: Docker's 64 MiB.",
    )
    ipc_host = forms.BooleanField(
        required=False,
        label="Share the box's IPC (--ipc=host)",
        help_text="Segments of an engine that was killed stay behind on the box.",
    )
    grace = forms.IntegerField(
        initial=120,
        min_value=1,
        max_value=3600,
        label="Stop grace",
        help_text="Seconds between SIGTERM and SIGKILL.",
    )

    runtime = forms.CharField(
        required=False, max_length=60, help_text="nvidia, where the box needs it."
    )
    entrypoint = forms.CharField(required=False, max_length=300, help_text="Replaces the image's.")
    ulimits = forms.CharField(required=False, widget=text_box(2, "memlock=-1\nstack=67108864"))
    cap_add = forms.CharField(
        required=False, max_length=200, label="Capabilities", help_text="SYS_NICE"
    )
    devices = forms.CharField(required=False, widget=text_box(2, "/dev/infiniband"))
    security_opt = forms.CharField(required=False, max_length=200, label="Security options")
    cpuset_cpus = forms.CharField(required=False, max_length=100, label="CPUs", help_text="0-63")
    user = forms.CharField(required=False, max_length=60)
    workdir = forms.CharField(required=False, max_length=200, label="Working folder")
    pid = forms.ChoiceField(
        required=False,
        choices=[("", "its own"), ("host", "the box's (--pid=host)")],
        label="Processes",
    )
    privileged = forms.BooleanField(required=False, label="Privileged: the container owns the box")
    init = forms.BooleanField(
        required=False,
        initial=True,
        label="Init process (--init)",
        help_text="Without it an engine ignores SIGTERM while it loads.",
    )
    message = forms.CharField(
        required=False,
        max_length=200,
        label="What changed",
        help_text="Shown in the list of versions.",
    )

    GROUPS = (
        ("What it is", ("name", "box", "notes")),
        ("Model", ("checkpoint", "revision", "served_name")),
        ("Engine", ("engine", "image", "flags")),
        ("Environment", ("env", "mount_hf_cache", "pass_hf_token")),
        ("GPUs and memory", ("gpus", "shm_size", "ipc_host")),
        ("Files", ("volumes",)),
        ("Network", ("port", "host_port", "host_address", "network")),
        ("Life", ("grace", "init")),
    )
    RARE = (
        "runtime",
        "entrypoint",
        "ulimits",
        "cap_add",
        "devices",
        "security_opt",
        "cpuset_cpus",
        "user",
        "workdir",
        "pid",
        "privileged",
    )

    def __init__(
        self,
        *args: Any,
        person: User,
        profile: Profile | None = None,
        copied_from: Profile | None = None,
        **kwargs: Any,
    ) -> None:
        self.person = person
        self.profile = profile
        source = profile or copied_from
        self.kept_secrets = source.launch.secret_env if source else {}
        if source is not None:
            kwargs.setdefault("initial", initial(source))
        if copied_from is not None:
            kwargs["initial"]["name"] = f"{copied_from.name} copy"
        super().__init__(*args, **kwargs)
        if profile is None:
            del self.fields["message"]
        else:
            del self.fields["box"]

    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        return [
            (title, [self[name] for name in names if name in self.fields])
            for title, names in self.GROUPS
        ]

    def rare(self) -> list[forms.BoundField]:
        return [self[name] for name in self.RARE]

    @property
    def rare_is_used(self) -> bool:
        return any(field.errors or field.value() for field in self.rare())

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        slug = slugify(name)[:63]
        if not slug:
            raise ValidationError("The name needs at least one letter or digit.")
        taken = Profile.objects.filter(slug=slug)
        if self.profile is not None:
            taken = taken.exclude(pk=self.profile.pk)
        if taken.exists():
            raise ValidationError(f"There is a profile with this name already ({slug}).")
        return name

    def clean_flags(self) -> tuple[str, ...]:
        return _read(words.flags, self.cleaned_data["flags"])

    def clean_env(self) -> dict[str, str]:
        env = _read(words.environment, self.cleaned_data["env"])
        for name, value in env.items():
            if value == MASK and name not in self.kept_secrets:
                raise ValidationError(f"Write the value of {name}: only a mask stands there.")
        return env

    def clean_shm_size(self) -> int:
        return _read(words.size, self.cleaned_data["shm_size"])

    def clean_gpus(self) -> str:
        return _read(words.gpus, self.cleaned_data["gpus"])

    def clean_ulimits(self) -> dict[str, int]:
        return _read(words.ulimits, self.cleaned_data["ulimits"])

    def clean_entrypoint(self) -> tuple[str, ...]:
        return _read(words.flags, self.cleaned_data["entrypoint"])

    def clean_devices(self) -> tuple[str, ...]:
        return words.lines(self.cleaned_data["devices"])

    def clean_cap_add(self) -> tuple[str, ...]:
        return tuple(self.cleaned_data["cap_add"].replace(",", " ").upper().split())

    def clean_security_opt(self) -> tuple[str, ...]:
        return tuple(self.cleaned_data["security_opt"].replace(",", " ").split())

    def clean_volumes(self) -> tuple[str, ...]:
        volumes = words.lines(self.cleaned_data["volumes"])
        for number, volume in enumerate(volumes, start=1):
            try:
                # Any home will do: whether the box has one is told before the start.
                parse(volume, home="/home")
            except VolumeError as error:
                raise ValidationError(f"Line {number}: {error}") from error
        return volumes

    def clean_network(self) -> str:
        network: str = self.cleaned_data["network"].strip()
        if network.startswith("container:"):
            raise ValidationError("Another container's network cannot be shared here.")
        if network == "none" or not _NETWORK.match(network):
            raise ValidationError(f"“{network}” is not bridge, host, or a Docker network's name.")
        return network

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.person.may_administer:
            self._check_dangerous(cleaned)
        return cleaned

    def _check_dangerous(self, cleaned: dict[str, Any]) -> None:
        """An editor keeps what an admin has set only as long as the same program gets it."""
        old = self.profile.launch if self.profile else None
        if old is not None and self._is_same(cleaned, old):
            return
        for name in opens_the_box(cleaned):
            if old is not None and getattr(old, name) == cleaned[name]:
                sentence = (
                    "An admin has set this for what the profile starts now. Only an admin may "
                    "save a change of it; without this setting you can."
                )
            else:
                sentence = "Only an admin may set this: it opens the box."
            self.add_error(name, sentence)

    def _is_same(self, cleaned: dict[str, Any], old: Launch) -> bool:
        """Whether the same would be started: name and notes alone are new."""
        same = {name: getattr(old, name) for name in _SAME} | {
            "env": old.env | dict.fromkeys(old.secret_env, MASK),
            "port": old.port or None,
            "host_port": old.host_port or None,
            "ipc_host": old.ipc == "host",
        }
        return all(name in cleaned and cleaned[name] == value for name, value in same.items())

    def launch(self) -> Launch:
        """The cleaned form. Values of secret variables are sealed here."""
        data = self.cleaned_data
        env: dict[str, str] = {}
        secret_env: dict[str, int] = {}
        for name, value in data["env"].items():
            if not words.is_secret(name):
                env[name] = value
            elif value == MASK and name in self.kept_secrets:
                secret_env[name] = self.kept_secrets[name]
            elif value:
                secret_env[name] = Secret.seal(name, value, self.person).pk
        return Launch(
            env=env,
            secret_env=secret_env,
            port=data["port"] or 0,
            host_port=data["host_port"] or 0,
            ipc="host" if data["ipc_host"] else "",
            **{name: data[name] for name in _SAME},
        )


_SAME = (
    "engine", "image", "checkpoint", "revision", "served_name", "flags", "host_address",
    "network", "volumes", "mount_hf_cache", "pass_hf_token", "gpus", "shm_size", "grace",
    "runtime", "entrypoint", "ulimits", "cap_add", "devices", "security_opt", "cpuset_cpus",
    "user", "workdir", "pid", "privileged", "init",
)  # fmt: skip


def initial(profile: Profile) -> dict[str, Any]:
    """What the form shows of a profile; secrets as a mask."""
    launch = profile.launch
    values = {name: getattr(launch, name) for name in _SAME}
    env = launch.env | dict.fromkeys(launch.secret_env, MASK)
    return values | {
        "name": profile.name,
        "notes": profile.notes,
        "flags": words.flags_text(launch.flags),
        "entrypoint": shlex.join(launch.entrypoint),
        "env": "\n".join(f"{name}={value}" for name, value in env.items()),
        "volumes": "\n".join(launch.volumes),
        "devices": "\n".join(launch.devices),
        "cap_add": " ".join(launch.cap_add),
        "security_opt": " ".join(launch.security_opt),
        "ulimits": "\n".join(f"{name}={value}" for name, value in launch.ulimits.items()),
        "shm_size": words.size_text(launch.shm_size),
        "ipc_host": launch.ipc == "host",
        "port": launch.port or None,
        "host_port": launch.host_port or None,
    }


def _read[Value](reader: Callable[[str], Value], text: str) -> Value:
    try:
        return reader(text)
    except words.WordsError as error:
        raise ValidationError(str(error)) from error
