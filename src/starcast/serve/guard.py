"""What stands between the network and the application: who may ask, what leaves, what is counted."""

import hmac
import json
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starcast.serve.limits import RefusalError
from starcast.serve.tally import PATH_PLACE, Tally

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: list[tuple[bytes, bytes]] = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
FRESH = [*HEADERS, (b"cache-control", b"no-store")]
PROBES = ("/healthz", "/readyz")  # asked by address, whatever the name: they tell nothing of the model
CHECKED = [*HEADERS, (b"cache-control", b"no-cache")]  # pages and scripts: kept, but asked about each time

log = logging.getLogger("starcast.serve")


class Guard:
    """Wraps an application: checks host and token, adds headers, counts, and lets no traceback out.

    Parameters
    ----------
    app : ASGI application
    tally : Tally
    token : str, optional
        What ``/api`` and ``/metrics`` ask for as ``Authorization: Bearer``.
    hosts : set of str, optional
        Names that the service answers to; any if not given. A page of another site whose name was made to point here
        is refused by that.
    says : bool
        Whether to log each request: method, path and status, nothing of what was asked.
    """

    def __init__(
        self,
        app: App,
        tally: Tally,
        *,
        token: str | None = None,
        hosts: frozenset[str] | None = None,
        says: bool = False,
    ) -> None:
        self.app, self.tally, self.says = app, tally, says
        self._token = None if token is None else token.encode()
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, path, status = time.perf_counter(), scope["path"], 0
        extra = FRESH if path.startswith(("/api/", "/metrics", "/readyz", "/healthz")) else CHECKED

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        self.tally.begin()
        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await send_refusal(refusal, send_guarded)
            else:
                await self.app(scope, receive, send_guarded)
        except RefusalError as refusal:  # of a body that did not arrive
            if not status:
                await send_refusal(refusal, send_guarded)
        except Exception as error:
            log.error("%s %s failed: %s", scope["method"], _known(path), tell(error))
            if not status:
                await send_refusal(mishap(), send_guarded)
        finally:
            self.tally.end()
            seconds = time.perf_counter() - began
            self.tally.count(path, status or 499, seconds)  # 499: gone before the answer, as others count it
            if self.says:
                log.info("%s %s %d %.1f ms", scope["method"], _known(path), status, 1000 * seconds)

    def count_refusal(self, status: int, seconds: float) -> None:
        """Count and log a request that was refused before it came here."""
        self.tally.count("", status, seconds)
        if self.says:
            log.info("- other %d %.1f ms", status, 1000 * seconds)

    def _refusal(self, scope: Scope) -> RefusalError | None:
        path = scope["path"]
        if (self._hosts is None and self._token is None) or path in PROBES:
            return None
        given = dict(scope["headers"])
        if self._hosts is not None:
            host = given.get(b"host", b"").decode("latin-1").lower()
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in self._hosts:
                return RefusalError(
                    421, "wrong_host", "the service does not answer to this name. Start it with --allow-host to add it."
                )
        if self._token is not None and (path.startswith("/api/") or path == "/metrics"):
            scheme, _, sent = given.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(sent.strip(), self._token):
                told = "another" if sent else "none"
                return RefusalError(
                    401,
                    "no_token",
                    f"a request must have the header Authorization: Bearer and the token, got {told}.",
                    {"www-authenticate": "Bearer"},
                )
        return None


def encode_refusal(refusal: RefusalError) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return headers and body of a refusal."""
    body = json.dumps(refusal.body()).encode()
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in refusal.headers.items()]
    return [*headers, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))], body


async def send_refusal(refusal: RefusalError, send: Send) -> None:
    """Send a refusal as it is."""
    headers, body = encode_refusal(refusal)
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def mishap() -> RefusalError:
    """Return what is said when something went wrong that should not have."""
    return RefusalError(500, "mishap", "something went wrong in the service. Its log says what; please report it.")


def tell(error: BaseException) -> str:
    """Return what happened and where, without the error's own words, which may hold names and ratings."""
    places = traceback.extract_tb(error.__traceback__)[-4:]
    return f"{type(error).__name__} at " + " < ".join(
        f"{place.filename.rpartition('/')[2]}:{place.lineno} {place.name}" for place in reversed(places)
    )


def _known(path: str) -> str:
    """Return a path that says nothing about who asked for what."""
    return path if path in PATH_PLACE else "/static" if path.startswith("/static/") else "other"
