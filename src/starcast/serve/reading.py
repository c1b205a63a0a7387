"""Questions read strictly: JSON that says one thing only, and query strings, against their schema."""

import json
import re
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import ValidationError

from starcast.serve.limits import Limits, RefusalError
from starcast.serve.schema import Question

SHOULD = re.compile(r"^\w+ should |^(?=Unable)")
Q = TypeVar("Q", bound=Question)
MOST_MISTAKES = 3  # that are told
MOST_KEYS = 64  # no question has more than a few
SHOWN = 60  # characters of what was found


def read_body(kind: type[Q], body: bytes, limits: Limits) -> Q:
    """Return the question that a JSON body holds."""
    return _validate(kind, _parse(body), limits)


def read_query(kind: type[Q], query: bytes, limits: Limits) -> Q:
    """Return the question that a query string holds; fields that are lists may be repeated, others may not."""
    given: dict[str, Any] = {}
    lists = {name for name, field in kind.model_fields.items() if "list" in str(field.annotation)}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=2000)
    except (UnicodeDecodeError, ValueError):
        raise RefusalError(
            400, "bad_request", "a query string must be UTF-8, percent-encoded, of at most 2,000 fields."
        ) from None
    for name, text in pairs:
        if name in lists:
            given.setdefault(name, []).append(text)
        elif name in given:
            raise RefusalError(422, "bad_request", f"{name[:SHOWN]} must be given once, was given more often.")
        else:
            given[name] = text
    return _validate(kind, given, limits)


def _parse(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(f"the body must be UTF-8, but byte {error.start:,} is not") from None
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_number)
    except RecursionError:
        raise _bad("the body must not be nested that deep") from None
    except json.JSONDecodeError as error:
        raise _bad(f"the body must be JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError:  # of int, for thousands of digits
        raise _bad("numbers must have fewer digits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise _bad(f"an object must have at most {MOST_KEYS} keys, got {len(pairs):,}")
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _bad(f"every key must be there once, but {_shown(twice)} is there more often")
    return found


def _number(text: str) -> float:
    """Return 30 for 30.0 and 3e1, which are whole numbers in JSON."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _refuse_constant(name: str) -> Any:
    raise _bad(f"numbers must be finite, got {name}, which is not JSON")


def _bad(message: str) -> RefusalError:
    return RefusalError(400, "bad_request", f"{message}. Send one JSON object.")


def _validate(kind: type[Q], given: Any, limits: Limits) -> Q:
    """Return the question; lists that are too long are refused before their members are looked at."""
    for name, limit in kind.LIMITED.items():
        if isinstance(given, dict) and isinstance(given.get(name), list):
            limits.check(limit, len(given[name]))
    try:
        question = kind.model_validate(given)
    except ValidationError as error:
        raise RefusalError(422, "bad_request", f"{_tell(error)}. See /openapi.json for what is taken.") from None
    for name in kind.LIMITED:
        value = getattr(question, name)
        if isinstance(value, int):
            limits.check(name, value)
    return question


def _tell(error: ValidationError) -> str:
    """Return the first few mistakes, those of one place together."""
    places: dict[str, list[Any]] = {}
    for mistake in error.errors(include_url=False, include_context=False):
        places.setdefault(_place(mistake["loc"]), []).append(mistake)
    told = [_mistake(where, found) for where, found in list(places.items())[:MOST_MISTAKES]]
    more = len(places) - len(told)
    return "; ".join(told) + (f"; and {more:,} more" if more else "")


def _place(parts: tuple[int | str, ...]) -> str:
    """Return where a mistake is, without the names of the choices that were tried there."""
    known = [part for part in parts if isinstance(part, int) or not part.startswith(("constrained-", "list["))]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:SHOWN]}" for part in known)
    return where.lstrip(".") or "the body"


def _mistake(where: str, found: list[Any]) -> str:
    if found[0]["type"] == "missing":
        return f"{where} is missing"
    if found[0]["type"] == "extra_forbidden":
        return f"{where} is not taken here"
    wanted = [SHOULD.sub("", mistake["msg"]) for mistake in found]
    rest = [text.removeprefix("be ") for text in wanted[1:]]
    return f"{where} must {' or '.join([wanted[0], *rest])}, got {_shown(found[0]['input'])}"


def _shown(value: object) -> str:
    text = (
        repr(value)
        if not isinstance(value, (dict, list))
        else f"{'an object' if isinstance(value, dict) else 'a list'}"
    )
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
