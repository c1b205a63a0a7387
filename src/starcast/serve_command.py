"""The command that serves a model."""

from pathlib import Path
from typing import Annotated

import typer

from starcast.errors import MissingExtraError


def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A model file; a sample is fitted if none is given.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 takes a free one.")] = 8080,
    test: Annotated[str | None, typer.Option("--test", help="Ratings the model has not seen, for its card.")] = None,
) -> None:
    """Serve a model and a page over HTTP."""
    try:
        import uvicorn

        from starcast.serve.app import make_app
        from starcast.serve.desk import Desk
    except ImportError as error:
        raise MissingExtraError("the service", error.name or "fastapi", "serve") from None
    from starcast.console import named_as_in, read_source
    from starcast.datasets import load_sample
    from starcast.models import load, make_model
    from starcast.serve.answers import Served
    from starcast.serve.card import make_card
    from starcast.serve.catalogue import Catalogue
    from starcast.serve.limits import Limits
    from starcast.split import benchmark_split

    name = None
    held_out = None
    if model is None:
        parts = benchmark_split(load_sample())
        fitted = make_model("ordinalmf", {"random_state": 0, "n_draws": 32, "burn_in": 30, "thin": 2}).fit(parts.train)
        held_out, name = parts.test, "MovieLens sample"
    else:
        fitted = load(model)
    if test is not None:
        held_out = named_as_in(fitted, read_source(test, "all", "test", scores=fitted.scores_))
    desk = Desk(Limits())
    desk.served = Served(fitted, Catalogue(fitted), make_card(fitted, held_out), desk.limits, name)
    uvicorn.run(make_app(desk), host=host, port=port)
