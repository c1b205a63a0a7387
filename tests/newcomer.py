"""A newcomer with the sdist's wheel, the README and nothing else: install, serve, ask for a list.

``make wheel`` runs it with the folder of an empty virtual environment and the folder of the wheel, which stands for the
package index. The commands are those of the README, to the letter, unless somebody else serves on its port; there is no
compiler on the path.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
STEPS = [r"pip install 'starcast\[", r"starcast serve +#", r"curl '127\.0\.0\.1:8080/api/recommend"]
PORT = "8080"
PATIENCE = 1800  # seconds for the sample to be fitted, at most


def main(environment: str, dist: str) -> None:
    """Follow the README until a recommendation is served."""
    install, serve, ask = (find_command(step) for step in STEPS)
    if (port := free_port()) != PORT:
        serve, ask = f"{serve} --port {port}", ask.replace(PORT, port)
    settings = bare_settings(Path(environment), Path(dist).absolute())
    run(install, settings)
    with subprocess.Popen(["bash", "-c", f"exec {serve}"], env=settings) as service:
        try:
            answer = json.loads(keep_asking(ask, service, settings))
        finally:
            service.terminate()
    assert len(answer["recommendations"]) == 3, answer
    print(f"served: {[item['title'] for item in answer['recommendations']]}")


def find_command(beginning: str) -> str:
    """Return the README's one command that begins so, without its comment."""
    [line] = re.findall(rf"^{beginning}.*$", README.read_text(encoding="utf-8"), re.MULTILINE)
    return line.partition(" #")[0].strip()


def free_port() -> str:
    """Return the README's port, or one that is free where that is taken."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", int(PORT)))
        except OSError:
            trial.bind(("127.0.0.1", 0))
        return str(trial.getsockname()[1])


def bare_settings(environment: Path, dist: Path) -> dict[str, str]:
    """Return an environment in which there is Python, curl and the shell's own words, and no compiler."""
    tools = environment.absolute() / "tools"
    tools.mkdir(exist_ok=True)
    for tool in ("bash", "curl"):
        if (found := shutil.which(tool)) and not (tools / tool).exists():
            (tools / tool).symlink_to(found)
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {dist}".strip()
    bare = {"PATH": f"{environment.absolute() / 'bin'}:{tools}", "PIP_FIND_LINKS": links, "CC": "false", "CXX": "false"}
    beside = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    bare["no_proxy"] = f"{beside},127.0.0.1"  # which no proxy can reach
    return {name: value for name, value in os.environ.items() if not name.startswith("CMAKE")} | bare


def run(command: str, settings: dict[str, str]) -> str:
    """Run one command of the README; return what it prints."""
    print(f"$ {command}", flush=True)
    return subprocess.run(["bash", "-c", command], env=settings, check=True, stdout=subprocess.PIPE, text=True).stdout


def keep_asking(command: str, service: subprocess.Popen, settings: dict[str, str]) -> str:
    """Ask until the service answers; end when it ends or the time is up."""
    print(f"$ {command}", flush=True)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        assert service.poll() is None, f"the service ended with {service.returncode}"
        asked = subprocess.run(["bash", "-c", command], env=settings, capture_output=True, text=True)
        if asked.returncode == 0 and "recommendations" in asked.stdout:
            return asked.stdout
        time.sleep(1)
    raise SystemExit(f"no recommendation within {PATIENCE} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
