"""The exact lines by which programs that people have use the gateway."""

from dataclasses import dataclass

KEY = "ifd_…"  # where a person puts theirs
_MODEL = "\0"  # where the model's name stands


@dataclass(frozen=True, kw_only=True)
class ClientExample:
    slug: str
    name: str
    says: str  # where the lines go
    text: str
    model: str
    # What the page asks to test them, as the program would: chat, tools (chat, and once more with a
    # tool) or messages (Anthropic's, with a tool, too).
    asks: str = "chat"

    @property
    def pieces(self) -> list[str]:
        """The lines, parted where the model's name stands."""
        return self.text.split(_MODEL)

    @property
    def lines(self) -> str:
        return self.model.join(self.pieces)


def clients(address: str, model: str) -> list[ClientExample]:
    """`address` without a path, as the person who reads this reaches it."""
    base = f"{address}/v1"
    return [
        ClientExample(
            model=model,
            slug="curl",
            name="curl",
            says="In a shell.",
            text=f"""curl {base}/chat/completions \\
  -H "Authorization: Bearer {KEY}" -H "Content-Type: application/json" \\
  -d '{{"model": "{_MODEL}", "messages": [{{"role": "user", "content": "Hello"}}]}}'""",
        ),
        ClientExample(
            model=model,
            slug="python",
            name="Python (openai)",
            says="pip install openai",
            text=f"""from openai import OpenAI

client = OpenAI(base_url="{base}", api_key="{KEY}")
answer = client.chat.completions.create(
    model="{_MODEL}", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)""",
        ),
        ClientExample(
            model=model,
            slug="claude-code",
            asks="messages",
            name="Claude Code",
            says="In the shell that starts it; the address is without /v1. An engine that has no "
            "/v1/messages is asked by chat completions, and its answers are translated.",
            text=f"""export ANTHROPIC_BASE_URL={address}
export ANTHROPIC_AUTH_TOKEN={KEY}
export ANTHROPIC_MODEL={_MODEL}
export ANTHROPIC_DEFAULT_OPUS_MODEL={_MODEL}
export ANTHROPIC_DEFAULT_SONNET_MODEL={_MODEL}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={_MODEL}
claude""",
        ),
        ClientExample(
            model=model,
            slug="open-webui",
            asks="tools",
            name="Open WebUI",
            says="In its environment before its first start; later in its Admin Settings, under "
            "Connections. It sends tools with each chat, which vLLM refuses without a tool parser: "
            "give the profile one, or set Function Calling to Legacy there (Models, Model "
            "Defaults, Model Parameters).",
            text=f"""OPENAI_API_BASE_URL={base}
OPENAI_API_KEY={KEY}""",
        ),
        ClientExample(
            model=model,
            slug="langchain",
            name="LangChain",
            says="pip install langchain-openai",
            text=f"""from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url="{base}", api_key="{KEY}", model="{_MODEL}")
print(model.invoke("Hello").content)""",
        ),
    ]
