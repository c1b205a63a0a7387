"""Writes the references that come from the code: python docs/make_reference.py.

``docs/command-line.md`` is made of the commands themselves, ``docs/service-api.md`` of the service's own description, a
table of ``docs/format.md`` of what the models declare.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from make_performance import BLOCK, table

from starcast.cli import app
from starcast.models import MODELS
from starcast.serve.app import describe
from starcast.serve.desk import Desk
from starcast.serve.limits import Limits

DOCS = Path(__file__).parent
BY_A_PROGRAM = "<!-- written by docs/make_reference.py -->"
MARKUP = re.compile(r"\[/?[a-z ]+\]")


def main() -> None:
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")


def pages() -> dict[Path, str]:
    """Return what each page has to say."""
    return {
        DOCS / "command-line.md": command_line(),
        DOCS / "service-api.md": service_api(),
        DOCS / "format.md": model_file(),
    }


def command_line() -> str:
    """Return the page of the command line: what each command does, takes and is called with."""
    parts = [
        BY_A_PROGRAM,
        "# Command line",
        "`starcast COMMAND --help` says the same. Answers are tables for people, or JSON for programs with `--json`. "
        "A mistake of the caller's is one line on stderr and exit code 2.",
    ]
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        parts += list(_command(name, command))
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    taken = [param for param in command.params if param.opts[0][0] != "-"]
    options = [param for param in command.params if param.opts[0][0] == "-" and not param.hidden]
    words = [_place(param) for param in taken]
    yield f"## starcast {name}"
    yield MARKUP.sub("", command.help.strip())
    yield f"`starcast {' '.join([name, *words, '[OPTIONS]'])}`"
    if taken:
        yield table(["argument", "what"], [[f"`{_called(param)}`", _cell(param.help)] for param in taken])
    yield table(["option", "what", "default"], [_option(param) for param in options])
    if command.epilog:
        yield re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", command.epilog)


def _called(param: Any) -> str:
    return str(param.metavar or param.name).upper()


def _place(param: Any) -> str:
    word = _called(param) + ("…" if param.nargs == -1 else "")
    return word if param.required else f"[{word}]"


def _option(param: Any) -> list[str]:
    spelling = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    default = param.default
    told = "" if default in (None, False, [], ()) or callable(default) else f"`{default}`"
    return [spelling, _cell(param.help) + (" May be given several times." if param.multiple else ""), told]


def _cell(text: str | None) -> str:
    return MARKUP.sub("", text or "").replace("|", "\\|")


def service_api() -> str:
    """Return the page of the service's addresses, with the fields of their questions and answers."""
    found = describe(Desk(Limits()), None).openapi()  # type: ignore[arg-type]
    kinds = found["components"]["schemas"]
    parts = [
        BY_A_PROGRAM,
        "# The service's API",
        "What `/openapi.json` of a running service says, for people; [the service](service.md) has an example of "
        "each. Limits are those without options.",
    ]
    for path, methods in found["paths"].items():
        for method, door in methods.items():
            parts += list(_door(f"{method.upper()} {path}", door, kinds))
    shown = {name for part in parts for name in re.findall(r"\]\(#([a-z]+)\)", part)}
    parts.append("## Parts")
    for name, kind in sorted(_with_parts(shown, kinds).items()):
        parts += [f"### {name}", _cell(kind.get("description")), _fields(kind, asked=False)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _door(title: str, door: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}"
    yield str(door.get("summary") if door.get("responses", {}).get("422") else door.get("description", ""))
    if "parameters" in door:
        rows = [_row(one["name"], one["schema"], bool(one.get("required"))) for one in door["parameters"]]
        yield "Asked in the query string:\n\n" + table(HEAD, rows)
    for body in _json_kinds(door.get("requestBody", {}), kinds):
        yield "Asked as JSON:\n\n" + _fields(body)
    for body in _json_kinds(door["responses"]["200"], kinds):
        yield "Answered:\n\n" + _fields(body, asked=False)


def _json_kinds(message: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    reference = message.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref")
    if reference:
        yield kinds[reference.rpartition("/")[2]]


HEAD = ["field", "type", "default"]


def _fields(kind: Mapping[str, Any], asked: bool = True) -> str:
    needed = kind.get("required", [])
    rows = [_row(name, field, name in needed) for name, field in kind.get("properties", {}).items()]
    return table(HEAD, rows) if asked else table(HEAD[:2], [row[:2] for row in rows])


def _row(name: str, field: Mapping[str, Any], needed: bool) -> list[str]:
    default = field.get("default")
    told = "needed" if needed else "" if default in (None, "") else f"`{json.dumps(default)}`"
    return [f"`{name}`", _type(field), told]


def _type(field: Mapping[str, Any]) -> str:
    """Return a type in words: what JSON calls it, and within which bounds."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(choice) for choice in field["anyOf"]))
    if "enum" in field:
        return " or ".join(f"`{choice}`" for choice in field["enum"])
    kind = {"integer": "whole number", "string": "text", "array": "list", "boolean": "true or false"}.get(
        field.get("type", "anything"), field.get("type", "anything")
    )
    if "items" in field:
        kind += f" of {_type(field['items'])}"
    most = field.get("maxItems")
    if field.get("minimum", 0) > -(2**62):  # 64 bits need no words
        kind += f" from {field['minimum']:g}" if "minimum" in field else ""
        kind += f" to {field['maximum']:,.10g}" if "maximum" in field else ""
    return kind + (f", at most {most:,}" if most else "")


def _with_parts(names: set[str], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kinds of these names and those that they are made of."""
    found: dict[str, Any] = {}
    waiting = [name for name in kinds if name.lower() in names]
    while waiting:
        name = waiting.pop()
        found[name] = kinds[name]
        inner = re.findall(r"schemas/(\w+)", str(kinds[name]))
        waiting += [other for other in inner if other not in found]
    return found


def model_file() -> str:
    """Return the page of the model file with the table of what each model adds to it."""
    rows = []
    for cls in MODELS.values():
        arrays = {name: axes for name, axes in cls.LEARNT.items() if axes}
        numbers = [name for name, axes in cls.LEARNT.items() if not axes]
        told = ", ".join(f"`{name}` ({axes.replace(' ', ', ')})" for name, axes in arrays.items())
        rows.append([cls.__name__, told or "nothing", ", ".join(f"`{name}`" for name in numbers)])
    learnt = table(["model", "arrays and their axes", "numbers in `learnt`"], rows)
    text = (DOCS / "format.md").read_text(encoding="utf-8")
    return BLOCK.sub(lambda found: f"{found[1]}{learnt}\n{found[3]}", text)


if __name__ == "__main__":
    main()
