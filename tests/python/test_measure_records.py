"""validate/measure_records.py with a made-up zplan-validate: what runs, what is kept, what is run again."""

import json
import subprocess
import sys

from conftest import ROOT

PROGRAM = ROOT / "validate/measure_records.py"
# Ends as the record's id says; notes its arguments.
ENGINE = """\
#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
said = {a: b for a, b in zip(words, words[1:]) if a.startswith("--")}
like, out = json.loads(pathlib.Path(said["--like"]).read_text()), pathlib.Path(said["--out"])
with open("calls", "a") as calls:
    calls.write(" ".join([like["id"], os.environ.get("CUDA_VISIBLE_DEVICES", "all"), *(w for w in words if w[:2] == "--")]) + "\\n")
outcome = "oom" if "oom" in like["id"] else "incomplete" if "unbuilt" in like["id"] else "ok"
out.write_text(json.dumps(dict(id=said["--id"], ranks=like["ranks"], rank=like["rank"], outcome=outcome)))
sys.exit({"ok": 0, "oom": 1, "incomplete": 2}[outcome])
"""


def record(name, ranks="nccl", rank=0, limit=None):
    return dict(id=name, ranks=ranks, rank=rank, capacity_limit_bytes=limit)


def measure(folder, records, *words):
    engine = folder / "engine"
    engine.write_text(ENGINE.replace("/usr/bin/env python3", sys.executable))
    engine.chmod(0o755)
    (folder / "records").write_text("".join(json.dumps(r) + "\n" for r in records))
    return subprocess.run([sys.executable, PROGRAM, "records", "--program", engine, "--out", "out", *words],
                          cwd=folder, capture_output=True, text=True)


def kept(folder):
    return [json.loads(line)["id"] for line in (folder / "out/records.jsonl").read_text().splitlines()]


def test_real_ranks_run_first_and_what_is_not_built_is_no_fault(tmp_path):
    records = [record("a.stand-in", "fake", 1), record("a"), record("a", rank=1), record("unbuilt"), record("oom")]
    done = measure(tmp_path, records)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "3 of 4 measured, 1 refused"  # rank 1 is no run of its own
    assert kept(tmp_path) == ["a.stand-in.native", "a.native", "oom.native"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["a", "unbuilt", "oom", "a.stand-in"]
    assert "--timed-steps" in calls[0] and "--stand-in" not in calls[0]
    assert "a.stand-in 0 " in calls[3] and "--stand-in --rank" in calls[3] and "--timed-steps" not in calls[3]
    measure(tmp_path, records)  # what is there is not run again
    assert len((tmp_path / "calls").read_text().splitlines()) == 5


def test_out_of_memory_beside_another_run_says_nothing(tmp_path):
    records = [record("oom.stand-in", "fake"), record("oom.limited", "fake", limit=1 << 30)]
    crowded = measure(tmp_path, records, "--side-by-side", "2")
    assert (crowded.returncode, crowded.stdout.splitlines()[-1]) == (1, "1 of 2 measured, 0 refused")
    assert kept(tmp_path) == ["oom.limited.native"]
    by_itself = measure(tmp_path, records)
    assert by_itself.returncode == 0 and kept(tmp_path) == ["oom.stand-in.native", "oom.limited.native"]


def test_a_file_that_is_none_is_said(tmp_path):
    broken = subprocess.run([sys.executable, PROGRAM, "none", "--out", "out"], cwd=tmp_path, capture_output=True, text=True)
    assert broken.returncode == 2 and "fix: name a .jsonl of zplan.measurement/1 records" in broken.stderr
