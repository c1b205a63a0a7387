"""The command that serves a model."""

import functools
import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from starcast.console import Part, err, named_as_in, out, read_source
from starcast.errors import FileError, MissingExtraError, ParameterError
from starcast.kernels import resolve_threads
from starcast.models import Model
from starcast.ratings import Ratings

MOST_WORKERS = 4  # unless told
LOOPBACK = ("localhost", "127.0.0.1", "::1")

Served = Annotated[
    Path | None, typer.Argument(metavar="[MODEL]", help="A model file; without one, a sample is fitted.")
]


def serve(
    model: Served = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 takes a free one.")] = 8080,
    workers: Annotated[int | None, typer.Option("--workers", "-w", help="Processes; one a core, at most 4.")] = None,
    test: Annotated[
        str | None, typer.Option("--test", help="Ratings that the model has not seen, to judge it.")
    ] = None,
    split: Part = "all",
    name: Annotated[str | None, typer.Option("--name", help="What the data are called.")] = None,
    reload_model: Annotated[bool, typer.Option("--reload-model", help="Serve the file anew when it changes.")] = False,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="Ask for the token in this file.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name to answer to; may be given many times; * is any.")
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log requests, but not what they ask.")] = False,
    max_pairs: Annotated[int | None, typer.Option("--max-pairs", help="Pairs a request.")] = None,
    max_n: Annotated[int | None, typer.Option("--max-n", help="Items a list.")] = None,
    max_ratings: Annotated[int | None, typer.Option("--max-ratings", help="Ratings of a stranger.")] = None,
    max_body: Annotated[int | None, typer.Option("--max-body", help="Bytes of a body.")] = None,
    max_concurrent: Annotated[
        int | None, typer.Option("--max-concurrent", help="Questions at a time, a worker.")
    ] = None,
    max_connections: Annotated[int | None, typer.Option("--max-connections", help="Connections, a worker.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Seconds for a question, and for an answer.")
    ] = None,
) -> None:
    """Serve a model: a page for people at /, JSON for programs under /api.

    A token can also be given as STARCAST_TOKEN. SIGHUP serves the model file anew, SIGTERM ends after the last answer.
    """
    try:
        from starcast.serve.edition import Source
        from starcast.serve.limits import Limits
        from starcast.serve.supervisor import Supervisor, listen
        from starcast.serve.worker import Rules
    except ImportError as error:
        raise MissingExtraError("the service", error.name or "fastapi", "serve") from None
    if not hasattr(signal, "SIGHUP"):
        raise ParameterError("starcast serve needs signals and shared sockets as Linux and macOS have them.")
    given = {
        "pairs": max_pairs, "n": max_n, "ratings": max_ratings, "body_bytes": max_body, "concurrent": max_concurrent,
        "connections": max_connections, "seconds": timeout,
    }  # fmt: skip
    limits = Limits(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    cores = resolve_threads(None)
    count = min(cores, MOST_WORKERS) if workers is None else workers
    if count < 1:
        raise ParameterError(f"workers must be at least 1, got {count}.")
    hosts = set(allow_host or []) | (set(LOOPBACK) | {f"[{LOOPBACK[-1]}]"} if host in LOOPBACK else {host, f"[{host}]"})
    open_to_all = "*" in hosts or (host not in LOOPBACK and not allow_host)
    rules = Rules(
        limits, _token(token_file), None if open_to_all else frozenset(hosts), access_log, max(1, cores // count)
    )
    read_test = None if test is None else functools.partial(_held_out, test, split)
    listener = listen(host, port)
    at = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    if host not in LOOPBACK and rules.token is None:
        err.print("[yellow]note:[/yellow] whoever can reach this machine can ask: there is no token.", highlight=False)
    if model is None:
        err.print("fitting the embedded sample, since no model is given", highlight=False)

    def tell() -> None:
        out.print(f"serving on [bold]{at}[/bold] with {count} worker{'s' if count > 1 else ''}", highlight=False)

    Supervisor(Source(model, read_test, name), rules, listener, count, watches=reload_model, on_ready=tell).run()


def _held_out(source: str, split: str, model: Model) -> Ratings:
    return named_as_in(model, read_source(source, split, "test", scores=model.scores_))


def _token(file: Path | None) -> str | None:
    if file is None:
        text = os.environ.get("STARCAST_TOKEN")
        if text is None:
            return None
        where = "STARCAST_TOKEN"
    else:
        try:
            text, where = file.read_text(encoding="utf-8").strip(), str(file)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise FileError(f"the token cannot be read from {file}: {reason}.") from None
    if not text.isascii() or not text.isprintable() or " " in text or len(text) < 16:
        raise ParameterError(f"a token must be 16 or more letters, digits and signs of ASCII; that of {where} is not.")
    return text
