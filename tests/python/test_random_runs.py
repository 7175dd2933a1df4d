"""validate/deepspeed/random_runs.py: a seed gives the same runs, and the probe takes each as its job."""

import json
import subprocess
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "validate/deepspeed"))
import measure_many  # noqa: E402


def drawn(folder, seed, count=40):
    program = ROOT / "validate/deepspeed/random_runs.py"
    words = [sys.executable, program, "--seed", str(seed), "--count", str(count), "--out", folder]
    subprocess.run(words, check=True, capture_output=True)
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def test_the_same_seed_gives_the_same_runs(tmp_path):
    first, again, other = (drawn(tmp_path / name, seed) for name, seed in (("a", 7), ("b", 7), ("c", 8)))
    assert first == again
    assert [run["workload"] for run in first] != [run["workload"] for run in other]
    assert len({run["id"] for run in first}) == 40


def test_each_is_a_job_of_the_probe(tmp_path):
    runs = drawn(tmp_path, 7)
    requests = measure_many.requests_of(str(tmp_path / "JOBS.txt"))
    assert [request.id for request in requests] == [run["id"] for run in runs]
    assert all(request.stand_in and request.world == 1 for request in requests)
