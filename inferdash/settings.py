"""Every setting, read from the environment; nonsense stops the start with a sentence."""

import contextlib
import getpass
import os
import re
import secrets
import shlex
import socket
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.utils.csp import CSP

from inferdash import environment
from inferdash.environment import read_env_file
from inferdash.up import ports
from inferdash.version import find_version
from servers.judge.memory import stops

BASE_DIR = Path(__file__).resolve().parent.parent
# Where templates, scripts and manage.py are: beside the packages, and in a wheel inside of this one.
IS_CHECKOUT = (BASE_DIR / "manage.py").is_file()
FILES = BASE_DIR if IS_CHECKOUT else BASE_DIR / "inferdash/files"
VERSION = find_version(BASE_DIR)
# Services of systemd have theirs in /etc.
read_env_file(Path(os.environ.get("INFERDASH_SETTINGS", "").strip() or BASE_DIR / ".env"))


def env(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def env_bool(name: str) -> bool:
    value = env(name, "False")
    if value not in ("True", "False"):
        raise ImproperlyConfigured(f"{name} is {value!r}: write True or False.")
    return value == "True"


def env_switch(name: str) -> bool:
    """on where nobody says otherwise."""
    value = env(name, "on")
    if value not in ("on", "off"):
        raise ImproperlyConfigured(f"{name} is {value!r}: write on or off.")
    return value == "on"


def env_port(name: str, default: str) -> int:
    value = env(name, default)
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise ImproperlyConfigured(f"{name} is {value!r}: write a port from 1 to 65535.")
    return int(value)


def env_ports(name: str, default: str) -> range:
    value = env(name, default)
    first, dash, last = (part.strip() for part in value.partition("-"))
    numbers = [int(part) for part in (first, last) if part.isdecimal() and len(part) < 6]
    if len(numbers) < 2 or not dash or not 1024 <= numbers[0] <= numbers[1] < 65536:
        raise ImproperlyConfigured(
            f"{name} is {value!r}: write the first and the last port, from 1024 to 65535, such as "
            f"{default}."
        )
    return range(numbers[0], numbers[1] + 1)


def env_count(name: str, default: str) -> int:
    value = env(name, default)
    if not value.isdecimal() or len(value) > 9:
        raise ImproperlyConfigured(f"{name} is {value!r}: write a whole number, 0 or more.")
    return int(value)


def env_token(name: str) -> str:
    value = env(name)
    if value and len(value) < 16:
        raise ImproperlyConfigured(f"{name} can be guessed: write at least 16 characters.")
    return value


def memory_thresholds(text: str) -> stops.MemoryThresholds:
    try:
        return stops.read_thresholds(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"INFERDASH_MEMORY_THRESHOLDS: {error}") from error


def env_list(name: str) -> list[str]:
    return [item.strip() for item in env(name).split(",") if item.strip()]


# The data folder holds the database, keys, Redis' socket and the box's limits: nobody
# else on the machine may read it.
USUAL_DATA = BASE_DIR / "var" if IS_CHECKOUT else Path("~/.local/share/inferdash")
DATA = Path(env("INFERDASH_DATA", str(USUAL_DATA))).expanduser().resolve()
DATA.mkdir(mode=0o700, parents=True, exist_ok=True)
if DATA.stat().st_mode & 0o777 != 0o700:  # in a container web may only read it
    DATA.chmod(0o700)

# What `make up BOXES=1` and `make join` keep there: this machine's part among several boxes.
read_env_file(DATA / "wire" / "wire.env", fills_blanks=True)
# hub: further boxes join here. box: the hub is another machine. "": one box, which needs nothing.
WIRE = env("INFERDASH_WIRE")
if WIRE not in ("", "hub", "box"):
    raise ImproperlyConfigured(f"INFERDASH_WIRE is {WIRE!r}: write hub, box, or leave it out.")


def kept_secret(name: str, make: Callable[[], str] = lambda: secrets.token_urlsafe(48)) -> str:
    """The text of a file in the data folder, made on first use and readable by its owner only."""
    path = DATA / name
    if not path.exists():
        # Linked into place whole: web, worker and watcher start at the same moment, and the
        # one that comes second must not read an empty file.
        draft = DATA / f".{name}.{os.getpid()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(make())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text().strip()


def database(url: str) -> dict[str, Any]:
    """Django's settings for the database that DATABASE_URL names; SQLite where it is empty."""
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA / "inferdash.sqlite3",
            "OPTIONS": {
                # Web, worker and watcher write at the same time: without IMMEDIATE a
                # transaction that reads first and writes later fails with "locked" at once.
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL starts with {parts.scheme!r}: inferdash knows postgresql://, "
            "or SQLite when DATABASE_URL is not set."
        )
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        # A folder in ?host= is the Unix socket's, as in libpq.
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        "CONN_HEALTH_CHECKS": True,
    }


def public_url(names: list[str]) -> str:
    host = next((name.lstrip(".") for name in names), "127.0.0.1")
    if BEHIND_TLS:
        return f"https://{host}"
    if not SERVES_TLS:
        return f"http://{host}:{PORT}"
    return f"https://{host}" if PORT == 443 else f"https://{host}:{PORT}"


def tls(own: str, certificate: str, key: str) -> bool:
    """Whether the web process speaks TLS itself. What the files hold, it looks at when it starts."""
    if own not in ("", "self"):
        raise ImproperlyConfigured(
            f"TLS is {own!r}: write TLS=self for a certificate of this machine's own, or name yours "
            "with TLS_CERT and TLS_KEY."
        )
    if own and (certificate or key):
        raise ImproperlyConfigured(
            "TLS=self makes a certificate, and TLS_CERT or TLS_KEY names one: leave one of them out."
        )
    if bool(certificate) != bool(key):
        missing, there = ("TLS_KEY", "TLS_CERT") if certificate else ("TLS_CERT", "TLS_KEY")
        raise ImproperlyConfigured(f"{there} is set and {missing} is not: name both files, in PEM.")
    if BEHIND_TLS and (own or certificate):
        raise ImproperlyConfigured(
            "INFERDASH_TLS=True means that a proxy ends TLS, and TLS, TLS_CERT and TLS_KEY that "
            "inferdash does so itself: leave one of them out."
        )
    return bool(own or certificate)


def mailers(url: str) -> tuple[dict[str, Any], str]:
    """Django's mailers for INFERDASH_EMAIL_URL, and who mail is from: "" where there is none."""
    if not url:
        # Django wants one; who sends looks at the sender first.
        return {"default": {"BACKEND": "django.core.mail.backends.dummy.EmailBackend"}}, ""
    parts = urlsplit(url)
    ports = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
    if parts.scheme not in ports or not parts.hostname:
        raise ImproperlyConfigured(
            "INFERDASH_EMAIL_URL begins with none of smtp://, smtp+starttls:// and smtps://, or "
            "names no server: smtp+starttls://user:password@mail.example.org?from=box@example.org."
        )
    user = unquote(parts.username or "")
    named = dict(parse_qsl(parts.query)).get("from", "")
    options = {
        "host": parts.hostname,
        "port": parts.port or ports[parts.scheme],
        "username": user,
        "password": unquote(parts.password or ""),
        "use_tls": parts.scheme == "smtp+starttls",
        "use_ssl": parts.scheme == "smtps",
        "timeout": 15,
    }
    backend = "django.core.mail.backends.smtp.EmailBackend"
    sender = named or (user if "@" in user else f"inferdash@{socket.getfqdn()}")
    return {"default": {"BACKEND": backend, "OPTIONS": options}}, sender


# Containers carry it as a label: inferdash touches none that carries another.
INSTALL = kept_secret("install.id", lambda: str(uuid.uuid4()))

# Encrypts tokens at rest. Without this file in the data folder they cannot be read again.
SECRETS_KEY = kept_secret("secrets.key", lambda: Fernet.generate_key().decode())

SECRET_KEY = env("SECRET_KEY") or kept_secret("django.key")
DEBUG = env_bool("DEBUG")

# Of a hub: where its own sshd listens, for boxes; then what they reach of it, all on 127.0.0.1:
# PostgreSQL, Redis, bundles while a box is brought up, and from BOX_PORTS on a port a box, at which
# its relay comes out.
HUB_PORT = env_port("INFERDASH_HUB_PORT", "8471")
HUB_DATABASE_PORT = env_port("INFERDASH_HUB_DATABASE_PORT", "8472")
HUB_REDIS_PORT = env_port("INFERDASH_HUB_REDIS_PORT", "8473")
HUB_BULK_PORT = env_port("INFERDASH_HUB_BULK_PORT", "8474")
BOX_PORTS = env_ports("INFERDASH_BOX_PORTS", "8480-8579")
# Set by docker-compose.yml: other commands stand on the pages then.
IN_CONTAINERS = bool(env("INFERDASH_CONTAINERS"))
# Of a box: whether an admin of the hub may bring its inferdash to the hub's version.
BRING_UP = env_switch("INFERDASH_BRING_UP")
# The account that boxes ask to join in the name of, and that of their links afterwards.
HUB_OWNER = env("INFERDASH_HUB_OWNER", getpass.getuser())
HUB_ACCOUNT = env("INFERDASH_HUB_ACCOUNT", HUB_OWNER)

HOST = env("HOST", "127.0.0.1")
PORT = env_port("PORT", "8470")
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *env_list("INFERDASH_ALLOWED_HOSTS")]
if "*" in ALLOWED_HOSTS:
    raise ImproperlyConfigured(
        "INFERDASH_ALLOWED_HOSTS is '*': name the hosts that people type, such as rtx8.lan."
    )

# True behind a reverse proxy that ends TLS and sets X-Forwarded-Proto.
BEHIND_TLS = env_bool("INFERDASH_TLS")
# Files of a certificate and its key, in PEM; TLS=self has inferdash make them.
TLS_CERT, TLS_KEY = env("TLS_CERT"), env("TLS_KEY")
SERVES_TLS = tls(env("TLS"), TLS_CERT, TLS_KEY)
# Where the authority of TLS=self is kept; None: there is none.
OWN_TLS = Path(env("TLS_DATA", str(DATA / "tls"))) if env("TLS") else None
# Whoever listens on the way reads passwords and keys: admins are told on the dashboard.
IS_OPEN_UNENCRYPTED = not (BEHIND_TLS or SERVES_TLS or ports.is_loopback(HOST))
# What links in messages begin with. Left out: the first name that people may type.
PUBLIC_URL = env("INFERDASH_URL", public_url(env_list("INFERDASH_ALLOWED_HOSTS"))).rstrip("/")
if not PUBLIC_URL.startswith(("http://", "https://")):
    raise ImproperlyConfigured(
        f"INFERDASH_URL is {PUBLIC_URL!r}: write the whole address, such as https://rtx8.example.org."
    )
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
# Off where inferdash ends TLS itself: browsers keep HSTS by name and for every port, so that
# engines and whatever else this machine serves by plain HTTP would be out of reach; and no browser
# would let anybody past a certificate of the machine's own that is not trusted yet.
SECURE_HSTS_SECONDS = 3600 if BEHIND_TLS else 0
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS or SERVES_TLS
# Cookies ignore ports: two installs on one host. And a page that came by plain HTTP cannot write
# over a Secure cookie: without a name of its own, nobody could log in once TLS is switched off.
COOKIES = f"tls_{PORT}" if SERVES_TLS else str(PORT)
SESSION_COOKIE_NAME = f"inferdash_{COOKIES}"
CSRF_COOKIE_NAME = f"inferdash_csrf_{COOKIES}"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_ENGINE = "servers.state.sessions"
SECURE_CSP = {
    "default-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "object-src": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
    "img-src": [CSP.SELF, "data:"],
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "servers.views.responses.csrf_failure"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "inferdash",
    "servers",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "inferdash.middleware.not_stored",
    "inferdash.middleware.no_nul",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "inferdash.middleware.LoginRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "inferdash.middleware.htmx_redirects",
    "inferdash.middleware.FullDisk",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "inferdash.urls"
ASGI_APPLICATION = "inferdash.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FILES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["servers.templatetags.format"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": database(env("DATABASE_URL"))}

AUTH_USER_MODEL = "servers.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"

REDIS_SOCKET = env("INFERDASH_REDIS_SOCKET", f"{DATA}/redis/redis.sock")
REDIS_URL = env("REDIS_URL", f"unix://{REDIS_SOCKET}")
if environment.is_open(REDIS_URL) and not env_bool("INFERDASH_REDIS_OPEN"):
    raise ImproperlyConfigured(environment.REFUSAL)
try:
    REDIS_URL = environment.with_tls(REDIS_URL, env("REDIS_CA", ""))
except ValueError as error:
    raise ImproperlyConfigured(str(error)) from error
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            # A socket waits in Redis for 5 s at a time, which is also redis-py's patience
            # with an answer: without more of it every quiet socket would die.
            "hosts": [{"address": REDIS_URL, "socket_timeout": 30}],
            "capacity": 500,
            "prefix": "inferdash",
        },
    }
}

# Whether boxes, GPUs and engines are the demo's, whose settings say so (inferdash/demo/settings.py):
# no variable can, as whoever comes to the demo is logged in.
SIMULATED = False

# The name of this box: the worker that runs on it takes its work from the queue box.<name>.
BOX = env("INFERDASH_BOX", re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-"))
# What this box allows to containers; read by its worker only (see docs/architecture.md).
BOX_FILE = Path(env("INFERDASH_BOX_FILE", str(DATA / "box.toml")))
# How people call inferdash's own commands on this box, as they would type it.
MANAGE = env("INFERDASH_MANAGE", "") or shlex.join([sys.executable, str(FILES / "manage.py")])
# On which of the box's ports engines are reached whose profiles name none; their own (8000, 8080,
# 30000 …) are what other people's scripts on the box want.
ENGINE_PORTS = env_ports("INFERDASH_ENGINE_PORTS", "18000-18099")
# Where this process sees the box's "/": a folder where inferdash itself runs in a container.
HOST_ROOT = Path(env("INFERDASH_HOST_ROOT", "/"))
# Where it sees the box's /proc and /sys.
KERNEL_ROOT = Path(env("INFERDASH_KERNEL_ROOT", "/"))
# From when on something about the GPUs' memory is said: docs/gpu-memory.md.
MEMORY_THRESHOLDS = memory_thresholds(env("INFERDASH_MEMORY_THRESHOLDS"))
# Who is asked for the size of models that no box has yet; "": nobody.
HUB = env("INFERDASH_HUB", "https://huggingface.co").rstrip("/")
if HUB == "off":
    HUB = ""
elif not HUB.startswith(("http://", "https://")):
    raise ImproperlyConfigured(f"INFERDASH_HUB is {HUB!r}: write a whole address, or off.")
# Hours between two questions to registries whether a tag that a profile names has a newer build;
# 0: nobody asks, unless a person presses the button. Without the Hub the box may have no network.
NEWER_IMAGES_EVERY = env_count("INFERDASH_NEWER_IMAGES_HOURS", "12" if HUB else "0")
# Recipes of one's own, such as a git checkout; None: those that ship alone.
RECIPES = Path(env("INFERDASH_RECIPES", "")) if env("INFERDASH_RECIPES", "") else None
# Without it no check-up begins, whoever wants it.
HAS_BENCHMARKS = env_switch("INFERDASH_BENCHMARKS")
# What is kept of logs: of each run's its beginning and its end (bytes), and of those of ended runs
# all that is no older than so many days and takes no more bytes together; 0: no bound.
LOG_HEAD = env_count("INFERDASH_LOG_HEAD_MIB", "8") * 2**20
LOG_TAIL = env_count("INFERDASH_LOG_TAIL_MIB", "64") * 2**20
LOG_DAYS = env_count("INFERDASH_LOG_DAYS", "180")
LOG_TOTAL = env_count("INFERDASH_LOG_TOTAL_GIB", "20") * 2**30

# What a machine that shares its memory with its GPU must have left while a model loads; 0: off.
LOADING_ALARM = env_count("INFERDASH_LOADING_ALARM_GIB", "6") * 2**30
LOADING_STOP = env_count("INFERDASH_LOADING_STOP_GIB", "3") * 2**30
# For how long is kept what GPUs did: each second, each ten seconds, and each minute.
HISTORY_SECONDS_HOURS = env_count("INFERDASH_HISTORY_SECONDS_HOURS", "1")
HISTORY_TENS_DAYS = env_count("INFERDASH_HISTORY_TENS_DAYS", "1")
HISTORY_DAYS = env_count("INFERDASH_HISTORY_DAYS", "30")
# Who has it may read /metrics; "": only who has a key.
METRICS_TOKEN = env_token("INFERDASH_METRICS_TOKEN")
# Where ~ in a profile leads, until an admin says otherwise for the box.
HOME = env("INFERDASH_HOME", str(Path.home()))

# By which server alerts are mailed; without a sender: not at all.
MAILERS, DEFAULT_FROM_EMAIL = mailers(env("INFERDASH_EMAIL_URL"))

CELERY_BROKER_URL = re.sub(r"^unix://", "redis+socket://", REDIS_URL)
CELERY_TASK_DEFAULT_QUEUE = f"box.{BOX}"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A Redis that is away is not waited for: a request there is a nudge, and people wait for its page.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "max_retries": 0,
}

STATIC_URL = "static/"
STATIC_ROOT = FILES / "staticfiles"
STATICFILES_DIRS = [
    FILES / "static",
    ("vendor/htmx", FILES / "node_modules/htmx.org/dist"),
    ("vendor/uplot", FILES / "node_modules/uplot/dist"),
    ("vendor/marked", FILES / "node_modules/marked/lib"),
    ("vendor/dompurify", FILES / "node_modules/dompurify/dist"),
    ("vendor/katex", FILES / "node_modules/katex/dist"),
    ("vendor/highlight", FILES / "node_modules/@highlightjs/cdn-assets/es"),
]
# Straight from static/ and node_modules: no collectstatic step between an update and the page.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "inferdash.static_files.VersionedStorage"},
}

USE_TZ = True
TIME_ZONE = env("TZ", "UTC")
LANGUAGE_CODE = "en-gb"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "without_visitors_faults": {"()": "inferdash.records.WithoutVisitorsFaults"},
        "bounded_visitors": {"()": "inferdash.records.BoundedVisitors"},
        "without_repeats": {"()": "inferdash.records.WithoutRepeats"},
        "without_broker_tracebacks": {"()": "inferdash.records.WithoutBrokerTracebacks"},
    },
    "formatters": {"line": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": [
                "without_visitors_faults",
                "bounded_visitors",
                "without_repeats",
                "without_broker_tracebacks",
            ],
        }
    },
    "root": {"handlers": ["console"], "level": env("LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "django.server": {"level": "WARNING"},
    },
}
