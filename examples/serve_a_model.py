"""How does another program ask a model?

The model is written to a file, `starcast serve` answers for it over HTTP, and anything that speaks JSON can ask.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import starcast as sc


def ask(url, question=None):
    """Return the answer of the service; a question is sent as JSON."""
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "model.starcast")
    train, test = sc.benchmark_split(sc.load_sample())
    sc.OrdinalMF(update="gradient", n_draws=0, random_state=0).fit(train).save(file)
    print(f"written: {file.name}, {file.stat().st_size / 1e6:.1f} MB")

    command = [sys.executable, "-m", "starcast", "serve", file, "--port", "0", "--workers", "1"]  # 0: any free port
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", service.stdout.readline())[0]
        model = ask(f"{url}/api/model")
        print(f"served:  {model['model']} of {model['data']['ratings']:,} ratings")

        question = {"pairs": [{"user": 196, "item": 858}, {"user": 196, "item": 597}], "threshold": 0.4}
        for film in ask(f"{url}/api/predict", question)["forecasts"]:
            said = "silence" if film["prediction"] is None else f"{film['prediction']:g} stars"
            print(f"predict: {film['title']}: {said}, {film['reliability']:.0%} sure")

        for film in ask(f"{url}/api/recommend?user=196&n=3&threshold=0.5")["recommendations"]:
            print(f"list:    {film['rank']}. {film['title']}, {film['reliability']:.0%} sure")

        stranger = {"ratings": [{"item": 260, "rating": 5}, {"item": 1721, "rating": 1}], "n": 1}
        film = ask(f"{url}/api/fold-in", stranger)["recommendations"][0]
        print(f"for a stranger with two ratings: {film['title']}")
    finally:
        service.terminate()
        print(f"stopped: exit code {service.wait(30)}")
