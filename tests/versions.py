"""The oldest versions of its dependencies that Starcast allows, as constraints for pip.

``python tests/versions.py`` prints a line ``name==version`` for every lower bound in ``pyproject.toml``; ``make versions``
runs a short suite with these, and one with the newest versions that are allowed.
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[A-Za-z0-9_-]+)>=(?P<version>[0-9.]+)")


def oldest_versions() -> list[str]:
    """Return the lower bounds of the core and of the extras that the suite uses."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [
        *project["dependencies"],
        *(line for name in ("plot", "search", "serve", "ray") for line in extras[name]),
    ]
    found = [BOUND.match(line) for line in requirements]
    assert all(found), "every dependency must have a lower bound"
    return [f"{match['name']}=={match['version']}" for match in found if match]


if __name__ == "__main__":
    print("\n".join(oldest_versions()))
