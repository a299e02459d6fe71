"""The asking program against an engine that refuses what it does not know."""

from dataclasses import replace
from typing import Any

from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.canary.asker import CanaryAsker
from servers.host.canary.replies import CanaryQuestion
from tests.canary.engine import CanaryModel
from tests.cases import Cases
from tests.scripted_engine import EngineScript, ScriptedEngine

QUESTION = CanaryQuestion(
    messages=({"role": "user", "content": "Explain how a bicycle stays upright."},),
    most_tokens=8, extra={}, top=5,
)  # fmt: skip

STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
CALL = [
    {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "get_weather", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"Lisbon"}'}}]},
]


def test_what_an_engine_does_not_know_is_left_out() -> None:
    model = CanaryModel()

    def answer(body: dict[str, Any]) -> EngineScript:
        if "chat_template_kwargs" in body and old:
            return refuse("chat_template is not supported for Mistral tokenizers.")
        return model.plan(body)

    def refuse(text: str, status: int = 400) -> EngineScript:
        said = {"error": {"message": text}}
        return EngineScript(deltas=[], status=status, error=said, content_type="application/json")

    old = False
    with ScriptedEngine(plan=answer) as engine, Cases() as cases:
        target = BenchmarkTarget(
            url=f"http://{engine.host}:{engine.port}/v1/chat/completions", model="m", headers={}
        )
        with CanaryAsker(target, LoadLimits(seconds=3600, requests=100)) as asker:
            with cases.named("knows all"):
                reply = asker.ask(QUESTION)
                assert (reply.error, reply.output_tokens, reply.finish) == ("", 8, "length")
                assert "".join(each.text for each in reply.tokens) == reply.text
                assert len(reply.tokens[0].others) == 5
            with cases.named("knows neither templates' switches nor logprobs"):
                old, model.has_logprobs = True, False
                reply = asker.ask(QUESTION)
                assert (reply.error, reply.output_tokens, reply.tokens) == ("", 8, ())
            with cases.named("refuses what is asked for"):
                engine.plan = lambda body: refuse("tool choice requires a parser")
                reply = asker.ask(QUESTION)
                assert (reply.status, reply.text) == (400, "")
                assert reply.error == "HTTP 400: tool choice requires a parser"
            with cases.named("a call in pieces"):
                engine.plan = lambda body: EngineScript(deltas=CALL, finish="tool_calls")
                reply = asker.ask(replace(QUESTION, top=0, extra=STREAMED))
                assert reply.tool_calls == (("get_weather", '{"city": "Lisbon"}'),)
                assert (reply.error, reply.finish, reply.output_tokens) == ("", "tool_calls", 3)
            with cases.named("an error in the middle"):
                engine.plan = lambda body: EngineScript(deltas=CALL[:1], error={"message": "no"})
                reply = asker.ask(replace(QUESTION, top=0, extra={"stream": True}))
                assert reply.error == "an error came in the middle of the answer"
            with cases.named("breaks"):
                engine.plan = lambda body: EngineScript(
                    deltas=[], error="<html>", content_type="text/html"
                )
                assert asker.ask(QUESTION).error == "the answer is no chat completion"
