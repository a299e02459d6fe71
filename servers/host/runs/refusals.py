"""Refusals of engines, and what to do about them."""

import json
import re
from http import HTTPStatus

_TOO_LONG = ("context size", "context length", "context window")
# vLLM, of a model for texts alone and of --limit-mm-per-prompt; llama.cpp without a projector,
# which it calls an error of the server's.
_BLIND = re.compile(
    r"is not a multimodal model|at most 0 image|image input is not supported", re.IGNORECASE
)
_TOO_MANY = re.compile(r"at most \d+ image", re.IGNORECASE)


def words(body: bytes) -> str:
    """What an error body says, in any of the engines' shapes.

    vLLM and llama.cpp: {"error": {"message"}}; SGLang: {"message"}; FastAPI: {"detail"}.
    """
    text = body.decode(errors="replace").strip()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return text[:500]
    if isinstance(answer, dict):
        error = answer.get("error", answer)
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or error
        text = error if isinstance(error, str) else json.dumps(error)
    return text.strip()[:2000]


def advice(status: int, said: str) -> str:
    if any(sign in said.lower() for sign in _TOO_LONG):
        return "Start a new conversation, remove earlier messages, or lower max tokens."
    if _BLIND.search(said):
        return (
            "Remove the pictures of all questions, or start a new conversation with a server "
            "whose model takes them."
        )
    if _TOO_MANY.search(said):
        return (
            "The pictures of all questions go with each one: remove some, start a new "
            "conversation, or raise --limit-mm-per-prompt in the profile."
        )
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "Its profile must name the engine's key, as --api-key or in the environment."
    if status == HTTPStatus.NOT_FOUND:
        return "Check that the image serves the OpenAI chat API and the profile's served name."
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return "It is overloaded or shutting down: wait a little, then retry."
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return "Change the parameters or the message, then retry."
    return "Look at its log, then retry."
