import pytest

from servers.launch.redaction import mask_lines, mask_tokens
from servers.lifecycle.runs import starts
from servers.models.people.key import MASK
from tests import factories
from tests.cases import table

LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hLxRuYiO"


@table(
    ("line", "masked"),
    [
        (f"token hf_{LETTERS[:34]} given", f"token hf_{MASK} given"),
        (f"OPENAI_API_KEY=sk-proj-{LETTERS}", f"OPENAI_API_KEY=sk-{MASK}"),
        ("id AKIAIOSFODNN7EXAMPLE.", f"id AKIA{MASK}."),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            f"aws_secret_access_key = {MASK}",
        ),
        (f"cloning with ghp_{LETTERS[:36]}", f"cloning with ghp_{MASK}"),
        (f"github_pat_{LETTERS}_{LETTERS}", f"github_pat_{MASK}"),
        (f"nvapi-{LETTERS}-{LETTERS}", f"nvapi-{MASK}"),
        ("'Authorization': 'Bearer let-me-in'", f"'Authorization': 'Bearer {MASK}'"),
        ("AUTHORIZATION: Basic YWRhOnB3", f"AUTHORIZATION: Basic {MASK}"),
        ("curl -H bearer 12ab34cd56", f"curl -H bearer {MASK}"),
        (
            "(APIServer pid=1) INFO non-default args: {'port': 1, 'api_key': ['open-sesame'], 'a': 2}",
            f"(APIServer pid=1) INFO non-default args: {{'port': 1, 'api_key': ['{MASK}'], 'a': 2}}",
        ),
        (
            "server_args=ServerArgs(api_key='open-sesame', admin_api_key=None, port=1)",
            f"server_args=ServerArgs(api_key='{MASK}', admin_api_key=None, port=1)",
        ),
        (
            'server_args={"admin_api_key": "open-sesame"}',
            f'server_args={{"admin_api_key": "{MASK}"}}',
        ),
        ("{'api_key': ['open-sesame', 'sesame-7']}", f"{{'api_key': ['{MASK}']}}"),
        ("Authorization: ApiKey open-sesame", f"Authorization: ApiKey {MASK}"),
        ("hooks.slack.com/services/T0/B0/x9", f"hooks.slack.com/services/{MASK}"),
        ("/bot123456:AAF-open_sesame/getMe", f"/bot123456:{MASK}/getMe"),
        (f"gsk_{LETTERS} npm_{LETTERS}", f"gsk_{MASK} npm_{MASK}"),
        (f"dckr_pat_{LETTERS} tskey-auth-{LETTERS}", f"dckr_pat_{MASK} tskey-auth-{MASK}"),
        ("x-api-key: sesame-7", f"x-api-key: {MASK}"),
        ("vllm serve a/b --api-key sesame-7 --port 1", f"vllm serve a/b --api-key {MASK} --port 1"),
        ("['--api-key', 'sesame-7', '--port']", f"['--api-key', '{MASK}', '--port']"),
        ("http://ada:open-sesame@proxy:3128/x", f"http://ada:{MASK}@proxy:3128/x"),
    ],
)
def test_what_looks_like_a_token_is_masked(line: str, masked: str) -> None:
    assert mask_tokens([line.encode()])[0].decode() == masked


@table(
    "line",
    [
        "loading hf_quant_config.json of disk-0123456789abcdefghijk",
        "task-a1b2c3d4e5f6g7h8i9j0k1l2 took 3 s",
        "sk-learn-is-a-library-with-hyphens",
        "Bearer authentication is on",
        "listening on http://0.0.0.0:8000 (Press CTRL+C to quit), user@host",
        "the secret of the session is AKIA and sha256:0123456789abcdef0123456789abcdef",
        "usage: vllm serve [--api-key API_KEY [API_KEY ...]] [--port PORT]",
        "error: --api-key is required with 2 ports; api_key=None, 'api_key': []",
        "security: no API key is set, see --api-key and --api-key-file",
        "chatcmpl-0123456789abcdef0123456789abcdef finished",
    ],
)
def test_what_is_no_token_stays(line: str) -> None:
    assert mask_tokens([line.encode()])[0].decode() == line


def test_a_whole_log_keeps_its_order() -> None:
    lines = [f"{n} hf_{LETTERS[:34]}" if n % 7 == 0 else str(n) for n in range(2500)]

    found = list(mask_lines(line.encode() for line in lines))

    assert len(found) == 2500
    assert found[1400].decode() == f"1400 hf_{MASK}"
    assert found[2498] == b"2498"


@pytest.mark.parametrize(
    "part", ["://a:", "bearer a", "authorization: ", "xoxb-", "ghp_", "AKIA", "api_key=['"]
)
def test_a_hostile_line_does_not_hang(part: str) -> None:
    line = part * 50_000

    assert mask_tokens([line.encode()])[0].decode()[:2] == line[:2]


@pytest.mark.django_db
def test_the_last_lines_of_a_run_that_ended_hold_no_token() -> None:
    run = factories.run(factories.server(factories.box()))

    assert starts.mask_secrets(run, f"401 for hf_{LETTERS[:34]}\0") == f"401 for hf_{MASK}�"
