"""Break metrics, splits and fronts in every way there is here, and see whether the tests near them notice.

``make mutants`` runs it. A mutant is a module with one place of its syntax tree changed; it is killed if a test fails,
or never ends. Each runs in a fork of a process that has imported everything, in which the functions of one module are given
the changed code. (mutmut copies the sources to another folder; the editable install of a native build would find the
first ones all the same, and importing everything anew for each mutant takes four times as long.)

Survivors go to build/mutants.txt. Those that no test can kill are named in docs/quality.md, with the reason.
"""

import ast
import contextlib
import copy
import importlib
import inspect
import io
import os
import signal
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
NEAR = {
    "src/starcast/metrics/averages.py": ["tests/test_objectives.py"],
    "src/starcast/metrics/calibration.py": ["tests/test_metrics.py"],
    "src/starcast/metrics/paper.py": ["tests/test_metrics.py", "tests/test_objectives.py"],
    "src/starcast/metrics/point.py": ["tests/test_metrics.py"],
    "src/starcast/metrics/probability.py": ["tests/test_metrics.py"],
    "src/starcast/metrics/selective.py": ["tests/test_metrics.py"],
    "src/starcast/split.py": ["tests/test_split.py"],
    "src/starcast/pareto.py": ["tests/test_pareto.py"],
}
PATIENCE = 120  # seconds until a mutant counts as one that never ends
SURVIVED, KILLED = 0, 1
QUIETLY = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]

SWAPS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.MatMult: ast.Mult,
}  # fmt: skip


def main(files: list[str]) -> int:
    """Try every mutant of the files; return 1 if too few are killed."""
    prepare()
    survivors: list[str] = []
    total = 0
    for file in files or NEAR:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert try_mutant(file, tree) == SURVIVED, f"the tests near {file} must pass before anything is broken"
        began, count, left = time.time(), 0, len(survivors)
        for what, mutant in mutants_of(tree):
            count += 1
            if try_mutant(file, mutant) == SURVIVED:
                survivors.append(f"{file}:{what}")
                print(f"  survived: {survivors[-1]}", flush=True)
        total += count
        left = len(survivors) - left
        print(f"{file}: {count - left} of {count} killed, {time.time() - began:.0f} s", flush=True)
    out = ROOT / "build" / "mutants.txt"
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(f"{line}\n" for line in survivors), encoding="utf-8")
    share = 1 - len(survivors) / total
    print(
        f"{total - len(survivors)} of {total} mutants killed ({share:.1%}); the others are in {out.relative_to(ROOT)}"
    )
    return int(share < 0.85)


def prepare() -> None:
    """Import everything once; hypothesis stops at a failure, which need not be small."""
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take longer than the tests
    sys.path.insert(0, str(ROOT / "tests"))
    importlib.import_module("conftest")  # loads a profile of its own
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", phases=phases, database=None, derandomize=True, deadline=None)
    hypothesis.settings.load_profile("mutants")
    for name in {Path(test).stem for tests in NEAR.values() for test in tests}:
        importlib.import_module(name)


def try_mutant(file: str, tree: ast.Module) -> int:
    """Run the tests near a file with another tree in its place, in a process of its own."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    signal.signal(signal.SIGALRM, lambda *_: os._exit(KILLED))
    signal.alarm(PATIENCE)
    code = KILLED
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        put_in_place(file, tree)
        code = int(pytest.main([*QUIETLY, file, *NEAR[file]]) != 0)
    os._exit(code)


def put_in_place(file: str, tree: ast.Module) -> None:
    """Give the functions of a module the code of another tree; whoever imported them calls that code then, too."""
    name = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
    mutant = types.ModuleType(name)
    sys.modules[name], module = mutant, sys.modules[name]  # dataclasses look themselves up
    exec(compile(ast.fix_missing_locations(tree), str(ROOT / file), "exec"), vars(mutant))
    sys.modules[name] = module
    graft(module, mutant)


def graft(old: object, new: object) -> None:
    """Give a module, or a class of it, the code and the constants of another with the same names."""
    for name, value in vars(new).items():
        own = vars(old).get(name)
        if inspect.isfunction(value) and is_from(value.__module__, old):
            own.__code__, own.__defaults__, own.__kwdefaults__ = (
                value.__code__,
                value.__defaults__,
                value.__kwdefaults__,
            )
        elif inspect.isclass(value) and is_from(value.__module__, old):
            graft(own, value)
        elif isinstance(value, (bool, int, float, str, tuple)) and not name.startswith("__"):
            for holder in [old, *sys.modules.values()]:
                if vars(holder).get(name, value) is own:
                    setattr(holder, name, value)


def is_from(module: str, place: object) -> bool:
    return module == (place.__module__ if inspect.isclass(place) else place.__name__)


def mutants_of(tree: ast.Module) -> Iterator[tuple[str, ast.Module]]:
    """Give every tree that differs in one place, with the line and what was done there."""
    places = list(code_in(tree))
    for k, node in enumerate(places):
        for change in range(len(changes_of(node))):
            mutant = copy.deepcopy(tree)
            broken = list(code_in(mutant))[k]
            old = ast.unparse(node)
            changes_of(broken)[change]()
            new = ast.unparse(broken)
            line = getattr(node, "lineno", 0)
            yield f"{line}: {shorten(old)}  →  {shorten(new)}", mutant


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 110 else f"{text[:107]}..."


def code_in(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over all that runs and matters: neither docstrings nor annotations, decorators, imports or messages."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in ("Floats", "Seed", "__all__"):
                continue
            if isinstance(child, ast.AST):
                yield from code_in(child)


def changes_of(node: ast.AST) -> list:
    """Return what can be broken at a place, as functions that do it."""
    match node:
        case ast.BinOp() | ast.AugAssign() if type(node.op) in SWAPS:
            return [lambda: setattr(node, "op", SWAPS[type(node.op)]())]
        case ast.BoolOp():
            return [lambda: setattr(node, "op", SWAPS[type(node.op)]())]
        case ast.Compare():
            return [lambda k=k: node.ops.__setitem__(k, SWAPS[type(node.ops[k])]()) for k in range(len(node.ops))]
        case ast.UnaryOp():  # -x becomes +x, and ~x and not x become x
            return [lambda: setattr(node, "op", ast.UAdd())] if isinstance(node.op, ast.USub) else [lambda: undo(node)]
        case ast.IfExp() | ast.If():
            return [lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))]
        case ast.Constant(value=bool()):
            return [lambda: setattr(node, "value", not node.value)]
        case ast.Constant(value=int() | float()):
            return [lambda: setattr(node, "value", node.value + 1)]
        case ast.Constant(value=str()):
            return [lambda: setattr(node, "value", f"not {node.value}")]
        case ast.Return() if node.value is not None:
            return [lambda: setattr(node, "value", ast.Constant(None))]
        case ast.Expr(value=ast.Call()):
            return [lambda: setattr(node, "value", ast.Constant(None))]
        case ast.Call():
            return [lambda k=k: node.keywords.pop(k) for k in range(len(node.keywords))]
        case ast.Slice():
            ends = [end for end in ("lower", "upper", "step") if getattr(node, end) is not None]
            return [lambda end=end: setattr(node, end, None) for end in ends]
    return []


def undo(node: ast.UnaryOp) -> None:
    """Take the operator off: ~x becomes ``True and x``, since a node cannot put its operand in its own place."""
    operand = node.operand
    node.__class__ = ast.BoolOp
    node.op, node.values = ast.And(), [ast.Constant(True), operand]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
