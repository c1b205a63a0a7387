"""The application: the doors, and around them what FastAPI does: the page, the description, what is not there."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

import starcast
from starcast.serve import schema
from starcast.serve.desk import Desk, not_ready
from starcast.serve.doors import DOORS, Door
from starcast.serve.guard import App, Receive, Scope, Send, send_refusal
from starcast.serve.limits import Limits, RefusalError
from starcast.serve.tally import Tally

WEB = Path(__file__).parent / "web"
TOLD = {
    400: "The question cannot be read.",
    401: "The token is missing or wrong, where one is asked for.",
    404: "The model does not know this user or item.",
    408: "The request did not arrive in time.",
    413: "The body is too long.",
    415: "The body is not declared as JSON.",
    421: "The Host of the request is not one that the service answers to.",
    422: "The question can be read, but not answered.",
    431: "Address and headers are too long.",
    503: "No model yet, or too much to do: ask again.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.ErrorAnswer, "description": told} for status, told in TOLD.items()
}
AUTHORIZATION: dict[str, Any] = {
    "security": [{}, {"token": []}]
}  # a token is asked for where the service was started with one


def make_app(desk: Desk, tally: Tally) -> App:
    """Return the application that answers from a desk.

    FastAPI describes the doors but does not stand in them: its way to an endpoint takes as long as ten forecasts.
    """
    rest = describe(desk, tally)
    doors: dict[str, dict[str, Door]] = {}
    for door in DOORS:
        doors.setdefault(door.path, {})[door.method] = door

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        here = doors.get(path)
        if path.endswith("\n"):  # the pattern of a route would overlook that, so the guard's paths would not be its own
            await send_refusal(_not_found(), send)
        elif here is None:
            await rest(scope, receive, send)
        elif scope["method"] in here:
            await here[scope["method"]].handle(desk, scope, receive, send)
        else:
            await send_refusal(_bad_method(", ".join(here)), send)

    return app


def describe(desk: Desk, tally: Tally) -> FastAPI:
    """Return the FastAPI application with everything but the answers of the doors."""
    app = FastAPI(
        title="Starcast",
        summary="Star ratings as forecasts: a probability for every score, and silence where it is not reliable.",
        version=starcast.__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for door in DOORS:
        _describe(app, door)
    _limit(app, desk.limits)
    _open_rest(app, desk, tally)
    app.add_exception_handler(HTTPException, _tell_http_error)
    app.mount("/static", StaticFiles(directory=WEB, check_dir=False))
    return app


def _describe(app: FastAPI, door: Door) -> None:
    def endpoint() -> None: ...

    kind: Any = Annotated[door.question, Query()] if door.method == "GET" else door.question
    asked = [inspect.Parameter("question", inspect.Parameter.KEYWORD_ONLY, annotation=kind)]
    endpoint.__signature__ = inspect.Signature(asked if door.question.model_fields else [])  # type: ignore[attr-defined]
    told = inspect.getdoc(door.answer) or ""
    app.add_api_route(
        door.path, endpoint, methods=[door.method], response_model=door.result, responses=ERRORS,
        summary=told.partition("\n")[0], operation_id=f"{door.answer.__name__}_by_{door.method.lower()}",
        openapi_extra=AUTHORIZATION,
    )  # fmt: skip


def _limit(app: FastAPI, limits: Limits) -> None:
    """Write the limits into the description."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        found = make()
        kinds = found["components"]["schemas"]
        for door in DOORS:
            parameters = found["paths"][door.path][door.method.lower()].get("parameters", [])
            fields = {parameter["name"]: parameter["schema"] for parameter in parameters}
            for name, limit in door.question.LIMITED.items():
                _set(fields.get(name) or kinds[door.question.__name__]["properties"][name], getattr(limits, limit))
        _make_exact(kinds)
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def _set(field: dict[str, Any], most: float) -> None:
    """Write a limit into the description of a field, in the choice that is not null."""
    choices = [choice for choice in field.get("anyOf", [field]) if choice.get("type") != "null"]
    choices[0]["maxItems" if choices[0]["type"] == "array" else "maximum"] = most


def _make_exact(found: Any) -> None:
    """Write the bounds of 64 bits as whole numbers, where FastAPI has the doubles next to them."""
    if isinstance(found, dict):
        if found.get("maximum") == float(schema.MOST):
            found |= {"minimum": schema.LEAST, "maximum": schema.MOST}
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            _make_exact(part)


def _open_rest(app: FastAPI, desk: Desk, tally: Tally) -> None:
    @app.get("/healthz", response_model=schema.Status)
    async def alive() -> Any:
        """Tell that the service is alive."""
        return JSONResponse({"status": "alive"})

    @app.get("/readyz", response_model=schema.Status, responses={503: ERRORS[503]})
    async def ready() -> Any:
        """Tell whether there is a model to answer with."""
        return JSONResponse({"status": "ready"}) if desk.served else _refuse(not_ready())

    @app.get("/metrics", response_class=PlainTextResponse, responses={401: ERRORS[401]}, openapi_extra=AUTHORIZATION)
    async def metrics() -> Any:
        """Return what was counted, in the format of Prometheus."""
        return Response(tally.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Any:
        return FileResponse(WEB / "index.html")

    for path, answer in (("/healthz", alive), ("/readyz", ready)):
        app.head(path, include_in_schema=False)(answer)


def _bad_method(allowed: str) -> RefusalError:
    return RefusalError(405, "bad_method", f"this address takes {allowed} only.", {"allow": allowed})


def _not_found(status: int = 404, headers: Mapping[str, str] | None = None) -> RefusalError:
    return RefusalError(status, "not_found", "there is nothing here. See /openapi.json for what is.", headers)


def _refuse(refusal: RefusalError) -> Response:
    return JSONResponse(refusal.body(), refusal.status, refusal.headers)


async def _tell_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers, status = dict(error.headers or {}), error.status_code
    if status == 405:
        return _refuse(_bad_method(headers.get("Allow", "GET")))
    return _refuse(_not_found(status, headers))
