"""The shape of the tree: imports point one way, files have a purpose, names say something."""

import ast
from pathlib import Path

import pytest

import starcast

ROOT = Path(starcast.__file__).parent
LAYERS = [
    ["errors"],
    ["names", "columns", "frames", "files", "journal", "progress", "html", "streams"],
    ["scale"],
    ["ratings", "distribution", "javarandom", "recalibration"],
    ["split", "planted", "datasets", "download", "io", "metrics", "modelfile", "results", "kernels", "pareto"],
    ["models"],
    ["objectives", "bootstrap", "evaluate", "front", "trust", "distributed"],
    ["spaces", "search", "optuna_study", "reproduce", "sound"],
    ["plots", "paper_plots", "report", "serve", "terminal"],
    ["demo", "doctor", "reproduction", "sound_report"],
    ["console"],
    ["trust_commands", "serve_command", "scale_commands"],
    ["cli"],
]
LAYER = {name: depth for depth, layer in enumerate(LAYERS) for name in layer}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler", "wrapper"}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name not in ("__main__.py",))


def part_of(path):
    """The module or package right below starcast that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imports_at_module_level(path):
    """The parts of starcast that are imported when the file is imported, not those within functions."""
    waiting = list(ast.parse(path.read_text()).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("starcast."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            if node.module == "starcast":
                yield from (alias.name for alias in node.names)
            elif node.module.startswith("starcast."):
                yield node.module.split(".")[1]
        waiting.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize(
    "path", [p for p in MODULES if part_of(p) != "__init__"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_point_one_way(path):
    part = part_of(path)
    assert part in LAYER, f"give {part} a layer in this test and in docs/contributing.md"
    imported = {name for name in imports_at_module_level(path) if name != "_native" and name in LAYER}
    later = sorted(name for name in imported if LAYER[name] > LAYER[part])
    assert later == []


def test_imports_make_no_circle():
    waiting = {part: set() for part in LAYER}
    for path in MODULES:
        if part_of(path) != "__init__":
            waiting[part_of(path)] |= {name for name in imports_at_module_level(path) if name in LAYER and name != part_of(path)}  # fmt: skip
    while waiting:
        free = [part for part, needs in waiting.items() if not needs & set(waiting)]
        assert free, f"a circle among {sorted(waiting)}"
        for part in free:
            del waiting[part]


def test_the_test_sees_an_import_when_there_is_one(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("try:\n    import starcast.cli\nexcept ImportError:\n    from starcast import models\ndef f():\n    from starcast import report\n")  # fmt: skip
    assert sorted(imports_at_module_level(file)) == ["cli", "models"]


def test_no_module_is_called_nothing():
    names = {path.stem for path in ROOT.rglob("*") if path.is_dir() or path.suffix == ".py"}
    assert names & EMPTY_NAMES == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_says_why_it_exists(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_public_names_are_sorted_and_there():
    public = list(starcast.__all__)
    assert public == sorted(public, key=lambda name: (not name.isupper(), not name[0].isupper(), name)) or public == sorted(public)  # fmt: skip
    assert all(hasattr(starcast, name) for name in public)


def test_nothing_is_ever_unpickled():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) else []  # fmt: skip
            assert not {name.split(".")[0] for name in names} & {
                "pickle",
                "cPickle",
                "dill",
                "joblib",
                "shelve",
                "marshal",
            }
