"""The doors of the service: each takes questions of one kind, by the shortest road from bytes to bytes."""

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, cast

import orjson
from pydantic import BaseModel

from starcast.errors import StarcastError
from starcast.serve import answers, schema
from starcast.serve.desk import Answers, Desk, GoneError
from starcast.serve.guard import Message, Receive, Scope, Send, send_refusal
from starcast.serve.limits import RefusalError, busy
from starcast.serve.reading import read_body, read_query

SHORT = 64  # pairs that are answered at once: handing them to a thread would take longer
LONG = 1 << 14  # bytes of a body that is parsed in a thread: a million bytes of JSON would hold up the event loop
BODIES = 64  # of the longest that may be arriving at a time
CLOSE = {"connection": "close"}
JSON = (b"content-type", b"application/json")


class Door(NamedTuple):
    """An address that answers questions of one kind.

    Those that are short are not handed to a thread; those for which `alike` returns the same are answered together.
    With a `key`, the answer is long: it can be given up, and those for which `key` returns the same are computed once.
    """

    method: str
    path: str
    answer: Callable[..., dict[str, Any]]
    question: type[schema.Question]
    result: type[BaseModel]
    is_short: Callable[[Any], bool] = lambda _: False
    together: Answers | None = None
    alike: Callable[[Any], Hashable | None] = lambda _: None
    key: Callable[[Any], Hashable | None] | None = None

    async def handle(self, desk: Desk, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or refuse it."""
        try:
            question = await self.read(desk, scope, receive)
            body = orjson.dumps(await self.ask(desk, question, receive))
        except StarcastError as error:
            return await send_refusal(RefusalError.of(error), send)
        except GoneError:
            return None
        headers = [JSON, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        return await send({"type": "http.response.body", "body": body})

    async def ask(self, desk: Desk, question: Any, receive: Receive) -> dict[str, Any]:
        """Return the answer by the road that suits the question."""
        if self.key is not None:
            gone = functools.partial(_wait_until_gone, receive)
            return cast(dict[str, Any], await desk.explain(self.answer, self.key(question), question, gone))
        if self.is_short(question):
            return self.answer(desk.now(), question)
        key = self.alike(question)
        if self.together is None or key is None:
            return cast(dict[str, Any], await desk.ask(self.answer, question))
        return cast(dict[str, Any], await desk.ask_together(self.together, key, question))

    async def read(self, desk: Desk, scope: Scope, receive: Receive) -> schema.Question:
        """Return the question that a request asks."""
        if self.method == "GET":
            return read_query(self.question, scope["query_string"], desk.limits)
        headers = dict(scope["headers"])
        _check_type(headers)
        body = await _body(desk, headers, receive)
        if len(body) < LONG:
            return read_body(self.question, body, desk.limits)
        return cast(schema.Question, await desk.run(read_body, self.question, body, desk.limits))


DOORS = (
    Door("POST", "/api/predict", answers.predict, schema.PredictQuestion, schema.Predictions,
         lambda question: len(question.pairs) <= SHORT),
    Door("POST", "/api/recommend", answers.recommend, schema.RecommendQuestion, schema.Recommendations,
         together=answers.recommend_together, alike=answers.alike),
    Door("GET", "/api/recommend", answers.recommend, schema.RecommendQuery, schema.Recommendations,
         together=answers.recommend_together, alike=answers.alike),
    Door("POST", "/api/fold-in", answers.fold_in, schema.FoldInQuestion, schema.StrangersList),
    Door("POST", "/api/explain", answers.explain, schema.ExplainQuestion, schema.Explanation,
         key=answers.explanation_key),
    Door("GET", "/api/items", answers.find_items, schema.ItemsQuery, schema.Items),
    Door("GET", "/api/users", answers.find_users, schema.UsersQuery, schema.Users),
    Door("GET", "/api/ratings", answers.given_ratings, schema.RatingsQuery, schema.GivenRatings, lambda _: True),
    Door("GET", "/api/model", answers.about, schema.Question, schema.About, lambda _: True),
)  # fmt: skip


def _check_type(headers: Mapping[bytes, bytes]) -> None:
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        found = repr(kind[:60].decode("latin-1")) if kind else "none"
        raise RefusalError(
            415, "not_json", f"the body must be JSON, declared by Content-Type: application/json, got {found}."
        )


async def _wait_until_gone(receive: Receive) -> None:
    """Wait for the client of a request whose body is read to go away."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(desk: Desk, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """Return the body, or refuse it as soon as it is too long."""
    parts: list[bytes] = []
    most, more, kept = desk.limits.body_bytes, True, 0
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > most:
        raise _too_long(most)
    try:
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                raise GoneError
            part, more = message.get("body", b""), message.get("more_body", False)
            parts.append(part)
            kept += len(part)
            desk.held += len(part)
            if kept > most:
                raise _too_long(most)
            if desk.held > BODIES * most:
                raise busy("too many long questions are arriving. Ask again in a second.")
    finally:
        desk.held -= kept
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(most: int) -> RefusalError:
    return RefusalError(413, "too_long", f"the body must be at most {most:,} bytes. Ask in several requests.", CLOSE)
