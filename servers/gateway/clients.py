"""The exact lines by which programs that people have use the gateway."""

from dataclasses import dataclass

KEY = "ifd_…"  # where a person puts theirs


@dataclass(frozen=True, kw_only=True)
class Client:
    slug: str
    name: str
    says: str  # where the lines go
    lines: str


def clients(address: str, model: str) -> list[Client]:
    """`address` without a path, as the person who reads this reaches it."""
    base = f"{address}/v1"
    return [
        Client(
            slug="curl",
            name="curl",
            says="In a shell.",
            lines=f"""curl {base}/chat/completions \\
  -H "Authorization: Bearer {KEY}" -H "Content-Type: application/json" \\
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'""",
        ),
        Client(
            slug="python",
            name="Python (openai)",
            says="pip install openai",
            lines=f"""from openai import OpenAI

client = OpenAI(base_url="{base}", api_key="{KEY}")
answer = client.chat.completions.create(
    model="{model}", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)""",
        ),
        Client(
            slug="claude-code",
            name="Claude Code",
            says="In the shell that starts it; the address is without /v1. The engine must have "
            "/v1/messages, as new vLLM, SGLang and llama.cpp do.",
            lines=f"""export ANTHROPIC_BASE_URL={address}
export ANTHROPIC_AUTH_TOKEN={KEY}
export ANTHROPIC_MODEL={model}
export ANTHROPIC_DEFAULT_OPUS_MODEL={model}
export ANTHROPIC_DEFAULT_SONNET_MODEL={model}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={model}
claude""",
        ),
        Client(
            slug="open-webui",
            name="Open WebUI",
            says="In its environment before its first start; later in its Admin Settings, under "
            "Connections. It sends tools with each chat, which vLLM refuses without a tool parser: "
            "give the profile one, or set Function Calling to Legacy there (Models, Model "
            "Defaults, Model Parameters).",
            lines=f"""OPENAI_API_BASE_URL={base}
OPENAI_API_KEY={KEY}""",
        ),
        Client(
            slug="langchain",
            name="LangChain",
            says="pip install langchain-openai",
            lines=f"""from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url="{base}", api_key="{KEY}", model="{model}")
print(model.invoke("Hello").content)""",
        ),
    ]
