"""The fields of the profile form."""

from django import forms
from django.core.validators import RegexValidator

from servers.launch.commandline.docker_options import MOST_TRIES
from servers.launch.engines import choices
from servers.models import Box

# What Docker accepts as a reference; the registry decides whether it exists.
# No group is repeated: a repeated one would take for ever on "a......!".
image_reference = RegexValidator(
    r"\A(?!.*[:/]{2})[a-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9_-])?(?:@sha256:[0-9a-f]{64})?\Z",
    "This is not an image reference, such as vllm/vllm-openai:v0.20.2.",
)
# More is no command line or environment, and reading it would keep the web process busy.
LONGEST_TEXT = 8_000
LONG = {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}


def text_box(rows: int, placeholder: str = "") -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "placeholder": placeholder, **LONG})


class ProfileFields(forms.Form):
    name = forms.CharField(max_length=100, label="Display name", help_text="Shown in lists.")
    box = forms.ModelChoiceField(Box.objects.all(), empty_label=None)
    tags = forms.CharField(
        required=False, max_length=200, help_text="For search and filters: moe nvfp4 coding."
    )
    is_private = forms.BooleanField(
        required=False,
        label="Private",
        help_text="Only you and admins see the profile; what runs is seen by all.",
    )
    notes = forms.CharField(
        required=False,
        max_length=20_000,
        widget=text_box(3),
        help_text="Anything the team should know.",
    )
    source = forms.URLField(
        required=False,
        max_length=500,
        assume_scheme="https",
        help_text="Where it was published: the guide, wiki or thread.",
    )
    hardware = forms.CharField(
        required=False,
        max_length=100,
        help_text="The hardware that the source used: 4x RTX PRO 6000.",
    )
    expected = forms.CharField(
        required=False,
        max_length=1000,
        label="Expected performance",
        widget=text_box(2, "tokens per second: 30-35\nfirst token: 0.3 s"),
        help_text="From the source, one a line; shown beside measured values.",
    )

    checkpoint = forms.CharField(
        label="Model",
        max_length=300,
        help_text="A Hugging Face id (Qwen/Qwen3-8B), or a path inside the container. Nothing "
        "where the engine is Other.",
    )
    revision = forms.CharField(required=False, max_length=64, help_text="Branch, tag or commit.")
    served_name = forms.CharField(
        label="Served model name",
        required=False,
        max_length=200,
        help_text="The model name in requests. Empty: the model's own name.",
    )

    aliases = forms.CharField(
        required=False,
        max_length=4_000,
        label="Model aliases",
        help_text="Further model names at the gateway: gpt-4o-mini, default.",
    )

    engine = forms.ChoiceField(
        choices=choices,
        help_text="Other: any program with a port and a readiness path. It needs both, and no "
        "model; it has a log and memory, but no chat.",
    )
    image = forms.CharField(max_length=300, validators=[image_reference])
    dockerfile = forms.CharField(
        required=False,
        max_length=64 << 10,
        label="Dockerfile",
        widget=text_box(4, "FROM vllm/vllm-openai:v0.20.2\nRUN pip install transformers==5.3.0"),
        help_text="For a patched image. Built on the profile’s page.",
    )
    build_files = forms.CharField(
        required=False,
        max_length=1 << 20,
        label="Files beside the Dockerfile",
        widget=text_box(2, "==> fix.patch <==\n--- a/…"),
        help_text="Small texts that COPY takes, each below a line ==> name <==.",
    )
    flags = forms.CharField(
        label="Engine flags",
        required=False,
        max_length=LONGEST_TEXT,
        widget=text_box(6, "--max-model-len 32768\n--gpu-memory-utilization 0.9"),
        help_text="One a line or as pasted. # begins a comment. Model, name, host and port are added.",
    )
    parameters = forms.CharField(
        required=False,
        widget=text_box(2, "model=Qwen/Qwen3-8B\ncontext=32768"),
        help_text="name=value lines. {{name}} in model, flags and environment is replaced; each "
        "server may have values of its own.",
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
        help_text="Empty: a free one, unless set otherwise of 18000-18099.",
    )
    host_address = forms.GenericIPAddressField(
        initial="127.0.0.1",
        label="Address on the box",
        help_text="127.0.0.1: this box only. 0.0.0.0: every network of the box.",
    )
    network = forms.CharField(
        initial="bridge", max_length=100, help_text="bridge, host, or a Docker network."
    )

    volumes = forms.CharField(
        required=False,
        widget=text_box(3, "~/models:/models:ro"),
        help_text="source:target or source:target:ro, one a line. ~ and $HOME are the box's home folder.",
    )
    digests = forms.CharField(
        required=False,
        max_length=LONGEST_TEXT,
        widget=text_box(2, "9f86d081…0a08  /templates/chat.jinja"),
        label="Files with their SHA-256",
        help_text="Lines of sha256sum, with the path in the container. Another file there, and "
        "the start is refused.",
    )
    mount_hf_cache = forms.BooleanField(
        required=False, initial=True, label="Mount the box's Hugging Face cache"
    )
    pass_hf_token = forms.BooleanField(
        required=False, initial=True, label="Pass the box's Hugging Face token"
    )

    gpus = forms.CharField(
        label="GPUs",
        initial="all",
        max_length=100,
        help_text="all, none, indices (0,1), or which: 2x RTX PRO 6000, 1x sm_103.",
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
    free_memory = forms.CharField(
        required=False,
        max_length=20,
        label="Wait for free memory",
        help_text="90g: so much on each of its GPUs before it is started. Empty: no wait.",
    )
    drop_cache = forms.BooleanField(
        required=False,
        label="Drop the page cache first",
        help_text="For engines that count only free memory. Files are read from disk again.",
    )
    grace = forms.IntegerField(
        initial=120,
        min_value=1,
        max_value=3600,
        label="Stop grace",
        help_text="Seconds between SIGTERM and SIGKILL.",
    )
    ready_path = forms.CharField(
        required=False,
        max_length=200,
        label="Readiness path",
        help_text="Such as /health. Empty: the engine's own. The model must be listed, too.",
    )
    ready_limit = forms.CharField(
        required=False,
        max_length=20,
        label="Start timeout",
        help_text="20m, 90s. After it the start fails. Empty: no limit.",
    )
    restart = forms.ChoiceField(
        required=False,
        choices=[("", "never"), ("on-failure", "on failure"), ("always", "always")],
        label="Restart policy",
        help_text="When it exits unasked. Always: without a limit. Stop ends it.",
    )
    restart_tries = forms.IntegerField(
        initial=2,
        min_value=1,
        max_value=MOST_TRIES,
        label="Max restarts",
        help_text="Failed starts in a row before inferdash gives up.",
    )
    restart_unhealthy = forms.CharField(
        required=False,
        max_length=20,
        label="Restart if unhealthy for",
        help_text="5m. Empty: an unhealthy server is shown and alerted, not restarted.",
    )
    start_with_box = forms.BooleanField(
        required=False,
        label="Start with the box",
        help_text="After a reboot of the box, unless a person had stopped it.",
    )
    start_on_request = forms.BooleanField(
        required=False,
        label="Start on demand",
        help_text="A request to the gateway starts it. Idle servers that were started on demand may be "
        "stopped to make room; never one that serves, or that a person started.",
    )
    hold_requests = forms.CharField(
        required=False,
        initial="5m",
        max_length=20,
        label="Queue timeout while starting",
        help_text="Requests that would wait longer get 503 with Retry-After. Empty: requests do not wait.",
    )
    stop_idle = forms.CharField(
        required=False,
        max_length=20,
        label="Idle timeout",
        help_text="30m without a request, if it was started on demand. Empty: never stopped.",
    )
    when_idle = forms.ChoiceField(
        required=False,
        choices=[
            ("", "stop"),
            ("sleep-1", "sleep, with the weights in main memory (level 1)"),
            ("sleep-2", "sleep, and read the weights again (level 2)"),
        ],
        label="Idle action",
        help_text="Only vLLM can sleep: it releases its GPU memory, and the next request wakes it.",
    )
    ask_when_ready = forms.BooleanField(
        required=False,
        initial=True,
        label="Smoke test after start",
        help_text="One short chat: is the answer language, and how fast is it?",
    )
    ask_every = forms.CharField(
        required=False,
        max_length=20,
        label="Liveness probe interval",
        help_text="10m: probes with one token after so long without a request. Empty: never.",
    )
    log_must = forms.CharField(
        required=False,
        widget=text_box(2, "Capture cuda graph end"),
        label="Required log patterns",
        help_text="Plain texts, one a line. Shown if missing once the server is ready.",
    )
    log_must_not = forms.CharField(
        required=False,
        widget=text_box(2, "falling back to"),
        label="Forbidden log patterns",
        help_text="Plain texts, one a line. Case does not matter.",
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
        label="Change note",
        help_text="Shown in the list of versions.",
    )
