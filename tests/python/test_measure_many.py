"""validate/deepspeed/measure_many.py on the CPU: two real ranks and two stand-ins from one list, once each."""

import json
import subprocess
import sys

from conftest import ROOT
from test_probe_run import like

PROGRAM = ROOT / "validate/deepspeed/measure_many.py"
JOBS = """\
# real ranks first, whatever the order here
--like b.json --device cpu --stand-in --steps 2 --id alone-0
--like b.json --device cpu --stand-in --steps 2 --rank 1 --id alone-1   # another rank
--like a.json --device cpu --steps 2 --timed-steps 1 --id both
"""


def measure_many(folder, *words):
    return subprocess.run(
        [sys.executable, PROGRAM, "jobs", "--out", "out", "--gpus", "0", *words], cwd=folder, capture_output=True, text=True
    )


def test_a_list_of_runs_is_measured_once(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(like(2) | {"world_size": 2, "rank": 0}))
    (tmp_path / "b.json").write_text(json.dumps(like(3) | {"world_size": 2, "rank": 0}))
    (tmp_path / "jobs").write_text(JOBS)
    done = measure_many(tmp_path, "--side-by-side", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0].startswith("both: exit code 0")
    assert done.stdout.splitlines()[-1] == "3 of 3 measured"
    records = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    assert [(r["id"], r["ranks"], r["rank"], r["outcome"]) for r in records] == [
        ("alone-0", "fake", 0, "ok"),
        ("alone-1", "fake", 1, "ok"),
        ("both", "gloo", 0, "ok"),
        ("both", "gloo", 1, "ok"),
    ]
    assert records[2]["losses"][0] > records[2]["losses"][-1] and len(records[2]["loop_step_seconds"]) == 1
    # A forked process shares its pages: what is resident says nothing of a run of its own.
    assert not any("host_rss_bytes" in phase for record in records for phase in record["phases"])
    again = measure_many(tmp_path)
    assert (again.returncode, again.stdout) == (0, "3 of 3 measured\n")


def test_faults_in_the_list_are_said_before_anything_runs(tmp_path):
    missing = measure_many(tmp_path)
    assert missing.returncode == 2 and "jobs: No such file" in missing.stderr
    (tmp_path / "a.json").write_text(json.dumps(like(2)))
    (tmp_path / "jobs").write_text("--like a.json --stand-in\n--like a.json --stand-in --rank 1\n")
    twice = measure_many(tmp_path)
    assert twice.returncode == 2 and "two runs are named a01\n  fix: give each its own --id" in twice.stderr
    (tmp_path / "jobs").write_text("--colour red\n")
    unknown = measure_many(tmp_path)
    assert unknown.returncode == 2 and "jobs:1: is no line of probe.py's arguments" in unknown.stderr
    assert not (tmp_path / "out").exists()
