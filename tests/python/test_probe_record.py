"""What validate/deepspeed/probe.py writes: records that are whole at all times, and histories. No DeepSpeed is run."""

import json
import sys

from conftest import ROOT
from tiny_model import SHAPE

sys.path.insert(0, str(ROOT / "validate/deepspeed"))
from zplan_probe import history, measurement, ranks  # noqa: E402
from zplan_probe.job import Job, Workload  # noqa: E402
from zplan_probe.meter import Figures, HostMeter  # noqa: E402

DS = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": True}}


def a_job():
    config = {"model_type": "qwen3", **SHAPE}
    return Job(id="x", model="tiny", model_config=config, ds_config=DS, workload=Workload(seq_len=32))


def test_the_record_is_whole_at_all_times(tmp_path):
    path = tmp_path / "new" / "m.json"
    place = ranks.Place(0, 4, 0, "fake")
    record = measurement.Measurement(a_job(), place, {"gpu": "NVIDIA H200"}, path)
    assert json.loads(path.read_text())["outcome"] == "incomplete"
    device = dict.fromkeys(HostMeter().read().device, 0) | {"allocated_peak": 7, "reserved": 9}
    record.add(
        "forward", Figures(device, rss=1, rss_peak=2, pinned={"allocated_bytes.current": 5}, device_used=3), 0, 1
    )
    said = json.loads(path.read_text())
    assert said["phases"] == [{
        "step": 0, "micro_step": 1, "phase": "forward", "allocated_bytes": 0, "allocated_peak_bytes": 7, "reserved_bytes": 9,
        "reserved_peak_bytes": 0, "active_peak_bytes": 0, "inactive_split_bytes": 0, "alloc_retries": 0, "host_rss_bytes": 1,
        "host_rss_peak_bytes": 2, "host_pinned_bytes": 5}]  # fmt: skip
    assert "machine" not in said and list(path.parent.iterdir()) == [path]
    record.finish("oom", oom_message="CUDA out of memory")
    assert (json.loads(path.read_text())["outcome"], path.parent.joinpath("m.json.partial").exists()) == ("oom", False)


def test_real_ranks_write_beside_each_other_with_times(tmp_path):
    path = measurement.path_of(str(tmp_path / "m.json"), 3, alone=False)
    assert path.name == "m.rank3.json" and measurement.path_of("m.json", 3, alone=True).name == "m.json"
    record = measurement.Measurement(a_job(), ranks.Place(3, 16, 3, "nccl", 8), {"gpu": "NVIDIA H200"}, path)
    record.add("start", HostMeter().read(), None, None)
    assert (record.said["machine"]["gpus"], record.said["machine"]["nodes"]) == (8, 2)
    assert record.said["phases"][0]["seconds"] >= 0 and "step" not in record.said["phases"][0]


def test_histories_keep_who_asked():
    frames = [{"name": "at::_ops::mm::call(at::Tensor const&)", "filename": "??", "line": 0},
              {"name": "torch::autograd::generated::MmBackward0::apply(...)", "filename": "??", "line": 0},
              {"name": "forward", "filename": "/x/site-packages/transformers/models/qwen3/modeling_qwen3.py", "line": 84},
              {"name": "main", "filename": "/x/probe.py", "line": 1}]  # fmt: skip
    assert history.context_of(frames) == [
        ["mm"],
        "MmBackward0",
        ["transformers/models/qwen3/modeling_qwen3.py:84 forward"],
    ]
    entries = [{"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 5, "frames": frames},
               {"action": "alloc", "addr": 8192, "size": 512, "stream": 0, "time_us": 6, "frames": frames},
               {"action": "free_completed", "addr": 4096, "size": 512, "stream": 0, "time_us": 7}]  # fmt: skip
    said = history.compact({"device_traces": [entries], "segments": []}, 0)
    assert [entry[5] for entry in said["trace"]] == [0, 0, None] and len(said["contexts"]) == 1
    assert history.mark_name("backward", 0, 1) == "s0g1.bwd" and history.mark_name("init", None, None) == "engine"
