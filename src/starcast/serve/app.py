"""The application: every address of the service, described for OpenAPI and answered by a short road."""

import inspect
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import starcast
from starcast.errors import StarcastError
from starcast.serve import answers, schema
from starcast.serve.answers import Served
from starcast.serve.desk import Desk, not_ready
from starcast.serve.limits import RefusalError
from starcast.serve.reading import read_body, read_query
from starcast.serve.tally import Tally

WEB = Path(__file__).parent / "web"
SPILL = 1 << 24  # bytes of a body that is too long that are still read
CLOSE = {"connection": "close"}
SHORT = 64  # pairs that are answered at once: handing them to a thread would take longer
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.ErrorAnswer, "description": "The question cannot be read."},
    404: {"model": schema.ErrorAnswer, "description": "The model does not know this user or item."},
    413: {"model": schema.ErrorAnswer, "description": "The body is too long."},
    415: {"model": schema.ErrorAnswer, "description": "The body is not declared as JSON."},
    422: {"model": schema.ErrorAnswer, "description": "The question can be read, but not answered."},
    503: {"model": schema.ErrorAnswer, "description": "No model yet, or too much to do: ask again."},
}


class Door(NamedTuple):
    """An address that answers questions of one kind."""

    method: str
    path: str
    answer: Callable[[Served, Any], dict[str, Any]]
    question: type[schema.Question]
    result: type[BaseModel]
    is_short: Callable[[Any], bool] = lambda _: False


DOORS = (
    Door("POST", "/api/predict", answers.predict, schema.PredictQuestion, schema.Predictions,
         lambda question: len(question.pairs) <= SHORT),
    Door("POST", "/api/recommend", answers.recommend, schema.RecommendQuestion, schema.Recommendations),
    Door("GET", "/api/recommend", answers.recommend_by_query, schema.RecommendQuery, schema.Recommendations),
    Door("POST", "/api/fold-in", answers.fold_in, schema.FoldInQuestion, schema.StrangersList),
    Door("POST", "/api/explain", answers.explain, schema.ExplainQuestion, schema.Explanation),
    Door("GET", "/api/items", answers.find_items, schema.ItemsQuery, schema.Items),
    Door("GET", "/api/users", answers.find_users, schema.UsersQuery, schema.Users),
    Door("GET", "/api/ratings", answers.given_ratings, schema.RatingsQuery, schema.GivenRatings, lambda _: True),
    Door("GET", "/api/model", answers.about, schema.Question, schema.About, lambda _: True),
)  # fmt: skip


def make_app(desk: Desk, tally: Tally) -> FastAPI:
    """Return the application that answers from a desk."""
    app = FastAPI(
        title="Starcast",
        summary="Star ratings as forecasts: a probability for every score, and silence where it is not reliable.",
        version=starcast.__version__,
        docs_url=None,
        redoc_url=None,
    )
    for door in DOORS:
        _open(app, desk, door)
    _open_rest(app, desk, tally)
    app.add_exception_handler(HTTPException, _tell_http_error)
    app.mount("/static", StaticFiles(directory=WEB, check_dir=False))
    return app


def _open_rest(app: FastAPI, desk: Desk, tally: Tally) -> None:
    @app.get("/healthz", response_model=schema.Status)
    async def alive() -> Any:
        """Tell that the service is alive."""
        return JSONResponse({"status": "alive"})

    @app.get("/readyz", response_model=schema.Status, responses={503: ERRORS[503]})
    async def ready() -> Any:
        """Tell whether there is a model to answer with."""
        return JSONResponse({"status": "ready"}) if desk.served else refuse(not_ready())

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Any:
        """Return what was counted, in the format of Prometheus."""
        return Response(tally.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> Any:
        return FileResponse(WEB / "index.html")


class _ShortRoute(APIRoute):
    """A route that is described like any other, but handles its requests itself."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint.handle  # type: ignore[attr-defined,no-any-return]


def _open(app: FastAPI, desk: Desk, door: Door) -> None:
    is_get = door.method == "GET"

    async def handle(request: Request) -> Response:
        try:
            if is_get:
                question = read_query(door.question, request.scope["query_string"])
            else:
                _check_type(request)
                question = read_body(door.question, await _body(request, desk.limits.body_bytes))
            answer = (
                door.answer(desk.now(), question) if door.is_short(question) else await desk.ask(door.answer, question)
            )
            return _json(answer)
        except StarcastError as error:
            return refuse(RefusalError.of(error))
        except ClientDisconnect:
            return Response(status_code=408)  # nobody is there to read it

    def endpoint() -> None: ...

    kind = Annotated[door.question, Query()] if is_get else door.question
    asked = [inspect.Parameter("question", inspect.Parameter.KEYWORD_ONLY, annotation=kind)]
    endpoint.__signature__ = inspect.Signature(asked if door.question.model_fields else [])  # type: ignore[attr-defined]
    endpoint.handle = handle  # type: ignore[attr-defined]
    app.router.add_api_route(
        door.path, endpoint, methods=[door.method], response_model=door.result, responses=ERRORS,
        summary=inspect.getdoc(door.answer), name=door.answer.__name__, route_class_override=_ShortRoute,
    )  # fmt: skip


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        found = repr(kind[:60]) if kind else "none"
        raise RefusalError(
            415, "not_json", f"the body must be JSON, declared by Content-Type: application/json, got {found}."
        )


async def _body(request: Request, most: int) -> bytes:
    """Return the body; of one that is too long, take a little more, so that the client comes to read the refusal."""
    parts, size, more = [], 0, True
    while more and size <= most + SPILL:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part, more = message["body"], message["more_body"]
        size += len(part)
        if size <= most:
            parts.append(part)
    if size > most:
        raise RefusalError(413, "too_long", f"the body must be at most {most:,} bytes. Ask in several requests.", CLOSE)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, headers, "application/json")


def refuse(refusal: RefusalError) -> Response:
    """Return a refusal as a response."""
    return _json(refusal.body(), refusal.status, refusal.headers)


async def _tell_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        return refuse(
            RefusalError(405, "bad_method", f"this address takes {headers.get('Allow', 'another method')}.", headers)
        )
    return refuse(
        RefusalError(
            error.status_code, "not_found", "there is nothing here. See /openapi.json for what there is.", headers
        )
    )
