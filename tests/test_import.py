"""What `import starcast` costs: nothing heavy comes along that a fit does not need."""

import importlib.util
import os
import subprocess
import sys

import pytest

import starcast as sc

HEAVY = ("polars", "narwhals", "rich", "typer", "urllib.request", "http.client", "multiprocessing", "importlib.metadata", "matplotlib", "torch", "optuna", "pandas", "scipy")  # fmt: skip
BARE = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it imports, too

FIT = """
import starcast as sc
ratings = sc.Ratings.from_arrays([1, 1, 2, 2], [1, 2, 1, 3], [1, 5, 2, 4])
sc.ResBeMF(n_factors=2, n_iters=1, random_state=0).fit(ratings).predict_proba([1, 2], [3, 2])
"""


@pytest.mark.parametrize("code", ["import starcast", FIT], ids=["import", "fit and predict_proba"])
def test_nothing_heavy_is_imported(code):
    report = f"{code}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, env=BARE)
    assert done.stdout == "[]\n"


def test_a_frame_brings_what_it_needs():
    code = FIT.replace("predict_proba([1, 2], [3, 2])", "recommend()") + "import sys\nprint('polars' in sys.modules, 'narwhals' in sys.modules)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=BARE)
    assert done.stdout == "True False\n"


@pytest.mark.parametrize(("module", "library"), [("torch", "PyTorch"), ("triton", "Triton")])
def test_what_a_gpu_needs_is_named_with_the_command_that_installs_it(monkeypatch, module, library):
    for name in [name for name in sys.modules if name.startswith("starcast.kernels.gpu")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else name)
    model, told = sc.ResBeMF(update="gradient", device="cuda"), rf"the GPU needs {library}\. Install it with: pip install 'starcast\[torch\]'"  # fmt: skip
    with pytest.raises(sc.MissingExtraError, match=told):
        model.fit(sc.make_ratings(5, 5, random_state=0)[0])
