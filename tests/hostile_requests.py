"""Requests that nobody should send: wrong types, wrong bytes, wrong HTTP, paths that lead astray."""

import json
import random
import socket

QUESTIONS = {
    "/api/predict": {"pairs": [{"user": 1, "item": 2}, {"user": 3, "item": 4}], "threshold": 0.5, "point": "mode"},
    "/api/recommend": {
        "user": 1,
        "n": 5,
        "threshold": 0.2,
        "exclude": [1, 2],
        "candidates": [3, 4],
        "exclude_seen": True,
    },
    "/api/fold-in": {"ratings": [{"item": 1, "rating": 5}, {"item": 2, "rating": 1}], "n": 3, "items": [7]},
    "/api/explain": {"ratings": [{"item": 1, "rating": 5}], "item": 2, "n": 2},
}
QUERIES = {
    "/api/recommend": "user=1&n=5&threshold=0.2&exclude=1&exclude_seen=true", "/api/items": "query=the&limit=5&offset=1",
    "/api/users": "query=1&limit=5", "/api/ratings": "user=1&limit=5", "/api/model": "",
}  # fmt: skip
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400, "1" + "0" * 6000, "-9223372036854775809", "1.5",
    "-0", "0", "-1", "1e-400", "true", "false", "null", '""', '"x"', '"\\ud800"', '"\\u0000"', '"' + "y" * 5000 + '"', "[]",
    "{}", "[[[[1]]]]", '{"user": {"user": 1}}', "[" * 3000 + "]" * 3000, '{"a":' * 2000 + "1" + "}" * 2000, '"\U0001f600"',
    '"; DROP TABLE users"', '"<script>alert(1)</script>"', '"../../etc/passwd"', "0x10", "01", "+1", ".5", "'x'", "undefined",
    "9007199254740993", "1e18", "2.0", "[1, 2, 3]", '[{"user": 1, "item": 1}]',
]  # fmt: skip
PATHS = [
    "/../../etc/passwd", "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/%2e%2e/cli.py", "/static//etc/passwd",
    "/static/\\..\\app.py", "/static/%00", "/static/index.html%00.js", "/%c0%ae%c0%ae/", "//evil.example/", "/api/../api/model",
    "/api/model/", "/API/MODEL", "/api/model%20", "/api/model;x=1", "/api%2fmodel", "/.git/config", "/%", "/%zz", "/" + "a" * 9000,
    "/api/users/" + "%41" * 2000, "/?" + "a" * 9000, "/static", "/static/", "/static/web", "/%ff%fe", "/\u00e9",
    "http://evil.example/api/model", "*", "evil", "/api/predict?user=1", "/#", "/static/con", "/static/" + "../" * 50 + "etc/hosts",
]  # fmt: skip
METHODS = [
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "PROPFIND",
    "FOO",
    "get",
    "G\u00cbT",
    "CONNECT",
]
HEADERS = [
    "Content-Type: text/plain", "Content-Type: application/xml", "Content-Type: application/json; charset=utf-16", "Content-Type:",
    "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: 1e3", "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "Content-Encoding: gzip", "Expect: 100-continue",
    "Expect: 200-ok", "Upgrade: websocket\r\nConnection: Upgrade", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    "Host: evil.example", "Host:", "Host: localhost\r\nHost: evil.example", "Authorization: Bearer x", "Cookie: " + "a=b; " * 500, "Range: bytes=0-1,2-3,5-", "X: \x01",
    "If-None-Match: *", "If-Modified-Since: never", "Connection: close", "X-Forwarded-For: 127.0.0.1", "Accept: image/png",
    "Content-Length: 3\r\nContent-Length: 5", "X-Very-Long: " + "z" * 20_000, " folded: line", "No-Colon",
]  # fmt: skip


def make_request(rng: random.Random) -> bytes:
    """Return one hostile request, whole or not."""
    kind = rng.random()
    if kind < 0.45:
        return _post(rng, rng.choice(list(QUESTIONS)), _bad_json(rng))
    if kind < 0.6:
        return _post(rng, rng.choice(list(QUESTIONS)), _bad_bytes(rng))
    if kind < 0.75:
        return _head(rng, "GET", _bad_query(rng))
    if kind < 0.85:
        return _head(rng, rng.choice(METHODS) if rng.random() < 0.4 else "GET", rng.choice(PATHS))
    if kind < 0.97:
        path, question = rng.choice(list(QUESTIONS.items()))
        return _post(rng, path, json.dumps(question).encode(), rng.sample(HEADERS, rng.randint(1, 3)))
    return rng.randbytes(rng.randint(1, 400)) + b"\r\n\r\n"


def _bad_json(rng: random.Random) -> bytes:
    """Return a question with one to three of its parts replaced, doubled, lost or added."""
    question = json.loads(json.dumps(QUESTIONS[rng.choice(list(QUESTIONS))]))
    raw: list[str] = []
    for _ in range(rng.randint(1, 3)):
        table = _somewhere(rng, question)
        if not table:
            continue
        key = rng.choice(list(table)) if isinstance(table, dict) else rng.randrange(len(table))
        change = rng.random()
        if change < 0.6:
            raw.append(rng.choice(RAW))
            table[key] = f"@{len(raw) - 1}@"
        elif change < 0.75:
            del table[key]
        elif isinstance(table, dict):
            raw.append(rng.choice(RAW))
            table[rng.choice(["user", "n", "pairs", "__proto__", "extra", ""])] = f"@{len(raw) - 1}@"
        else:
            table.extend(table * rng.randint(1, 5))
    text = json.dumps(question)
    for k, token in enumerate(raw):
        text = text.replace(f'"@{k}@"', token)
    if rng.random() < 0.1:
        text = f"{text[:-1]}, {text[1:]}" if len(text) > 2 else "{}{}"  # every key twice
    return text.encode("utf-8", "surrogatepass")


def _somewhere(rng: random.Random, question: object) -> object:
    """Return the question or a table or list within it."""
    while True:
        parts = list(question.values()) if isinstance(question, dict) else list(question)
        inner = [part for part in parts if isinstance(part, dict | list) and part]
        if not inner or rng.random() < 0.4:
            return question
        question = rng.choice(inner)


def _bad_bytes(rng: random.Random) -> bytes:
    body = bytearray(json.dumps(QUESTIONS[rng.choice(list(QUESTIONS))]).encode())
    change = rng.randrange(7)
    if change == 0:
        return bytes(body[: rng.randint(0, len(body))])
    if change == 1:
        return json.dumps(QUESTIONS["/api/predict"]).encode(rng.choice(["utf-16", "utf-32", "utf-8-sig"]))
    if change == 2:
        return bytes(body) * rng.randint(2, 4)
    if change == 3:
        return rng.choice([b"[", b"{", b'{"a":[', b'"', b"1", b"-", b" "]) * rng.randint(1, 60_000)
    if change == 4:
        return (
            b'{"pairs": [' + b'{"user": 1, "item": 1},' * rng.choice([999, 1001, 60_000]) + b'{"user": 1, "item": 1}]}'
        )
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(body))
        if change == 5:
            body[at] = rng.randrange(256)
        else:
            body[at:at] = rng.choice(
                [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\x00", b"\xf4\x90\x80\x80", b"\x80", b"\\u12"]
            )
    return bytes(body)


def _bad_query(rng: random.Random) -> str:
    path, query = rng.choice(list(QUERIES.items()))
    fields = [part for part in query.split("&") if part] or ["x=1"]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(fields))
        name = fields[at].partition("=")[0]
        value = rng.choice(["", "-1", "0", "1e9", "nan", "inf", "%ff", "%00", "%", "true", "1" * 400, "9" * 30, "a" * 3000, "%F0%9F%98%80", "1_0", "\u0661", "[]", "1;2", "%0d%0aX:1"])  # fmt: skip
        value = "".join(letter if letter.isascii() else "%D9%A1" for letter in value)
        change = rng.random()
        if change < 0.6:
            fields[at] = f"{name}={value}"
        elif change < 0.8:
            fields.append(f"{name}={value}")
        else:
            fields.append(f"{rng.choice(['user', 'n', 'limit', 'q', '__class__'])}={value}")
    return f"{path}?{'&'.join(fields)}"


def _post(rng: random.Random, path: str, body: bytes, extra: list[str] | None = None) -> bytes:
    lines = ["Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    if extra:
        names = {line.partition(":")[0].lower() for line in extra}
        lines = [line for line in lines if line.partition(":")[0].lower() not in names] + extra
        rng.shuffle(lines)
    return f"POST {path} HTTP/1.1".encode() + _lines(lines) + body


def _head(rng: random.Random, method: str, path: str) -> bytes:
    version = "HTTP/1.1" if rng.random() < 0.95 else rng.choice(["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "", "http/1.1"])
    return f"{method} {path} {version}".encode() + _lines(["Host: localhost"])


def _lines(lines: list[str]) -> bytes:
    return ("\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def send(port: int, request: bytes, seconds: float = 120.0) -> tuple[int | None, bytes]:
    """Send a request on a connection of its own, say that nothing follows, and return status and body.

    The status is None where the service closed the connection without a word; a service that hangs is an error.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        data = b""
        try:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                data += part
        except (BrokenPipeError, ConnectionResetError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
    while data.startswith(b"HTTP/1.1 100 "):
        data = data.partition(b"\r\n\r\n")[2]
    if not data:
        return None, b""
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), body


def complaint_about(request: bytes, status: int | None, body: bytes) -> str | None:
    """Return what is wrong with an answer, if anything: a 5xx, no helpful message, a traceback."""
    if status is None:
        return None
    if status >= 500:
        return f"{status} {body[:200]!r}"
    if b"Traceback" in body or b'File "' in body:
        return f"a traceback: {body[:200]!r}"
    if status < 400 or not body:  # an answer to HEAD has none
        return None if status < 400 or request[:4] in (b"HEAD",) else f"{status} without a message"
    try:
        message = json.JSONDecoder().raw_decode(body.decode())[0]["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"{status} without a message: {body[:200]!r}"
    return None if 10 < len(message) < 1000 else f"{status} says {message[:100]!r}"
