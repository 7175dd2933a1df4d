"""validate/deepspeed/records.py: raw results of the probe become measurement records."""
import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "validate/deepspeed"))
import records  # noqa: E402


def raw_phase(name, t, **changed):
    return dict(dict(name=name, t=t, at_us=1, alloc=512, alloc_peak=1024, reserved=2097152, reserved_peak=4194304, active=512,
                     active_peak=1536, requested_peak=1000, inactive_split=256, retries=0, pinned={"allocated_bytes.current": 5},
                     nvml=7, VmRSS=100, VmHWM=200, VmLck=0, RssShmem=0), **changed)


RAW = {
    "case": {"id": "x1", "model": "qwen3-0.6b", "world": 4, "mbs": 1, "seq": 1024, "stage": 2, "steps": 1},
    "phases": [raw_phase("start", 1.0), raw_phase("model", 2.5, pinned=None), raw_phase("s0g0.fwd", 3.0)],
    "ok": True, "real": False, "rank": 0, "optimizer": "DeepSpeedZeroOptimizer/FusedAdam", "step_s": [0.5],
    "ds_config": {"bf16": {"enabled": True}},
    "versions": {"torch": "2.11.0", "deepspeed": "0.19.8", "gpu": "NVIDIA H200", "driver": "580.159", "threads": 4},
}
PHASE = {"allocated_bytes": 512, "allocated_peak_bytes": 1024, "reserved_bytes": 2097152, "reserved_peak_bytes": 4194304,
         "active_peak_bytes": 1536, "inactive_split_bytes": 256, "alloc_retries": 0, "host_rss_bytes": 100,
         "host_rss_peak_bytes": 200, "host_pinned_bytes": 5}


def raw(case=None, **changed):
    result = copy.deepcopy(RAW)
    result["case"].update(case or {})
    result.update(changed)
    return result


class Records(unittest.TestCase):
    def test_a_result_becomes_a_record(self):
        self.assertEqual(records.record(raw()), {
            "schema": "zplan.measurement/1", "id": "x1", "model": "qwen3-0.6b", "world_size": 4, "rank": 0, "ranks": "fake",
            "workload": {"seq_len": 1024, "micro_batch": 1, "grad_accum": 1, "recompute": "none",
                         "recompute_impl": "non-reentrant", "attention": "sdpa", "finetune": "full", "lora_rank": None,
                         "precision": "bf16", "optimizer": "deepspeed-adamw", "model_overrides": {}, "fused_loss": False,
                         "kernels": [], "load": "cpu"},
            "alloc_conf": "", "capacity_limit_bytes": None, "ds_config": {"bf16": {"enabled": True}},
            "versions": RAW["versions"], "outcome": "ok", "optimizer_classes": "DeepSpeedZeroOptimizer/FusedAdam",
            "phases": [{"phase": "start", **PHASE}, {"phase": "load", **PHASE, "host_pinned_bytes": 0},
                       {"step": 0, "micro_step": 0, "phase": "forward", **PHASE}]})

    def test_names_of_phases(self):
        for name, expected in [("start", ("start", None, None)), ("engine", ("init", None, None)), ("oom", ("oom", None, None)),
                               ("s0g0.fwd", ("forward", 0, 0)), ("s12g3.bwd", ("backward", 12, 3)), ("s1g0.step", ("step", 1, 0)),
                               ("eval", ("eval", None, None)), ("save16", ("save_16bit", None, None))]:
            with self.subTest(name):
                self.assertEqual(tuple(records.phase_name(name)), expected)

    def test_what_a_case_says_of_the_workload(self):
        every_kernel = dict.fromkeys(records.KERNELS, True)
        for case, expected in [
            ({"ckpt": True}, {"recompute": "full"}),
            ({"ckpt": True, "ckpt_kwargs": {"every_n_layers": 2}}, {"recompute": "every-2"}),
            ({"ckpt": True, "ckpt_kwargs": {"offload": True}}, {"recompute": "full", "recompute_offload": True}),
            ({"ckpt": True, "reentrant": True}, {"recompute_impl": "reentrant"}),
            ({"ga": 4, "mbs": 2, "seq": 4096}, {"grad_accum": 4, "micro_batch": 2, "seq_len": 4096}),
            ({"lora": 16}, {"finetune": "lora", "lora_rank": 16}),
            ({"lora": 8, "qlora": True}, {"finetune": "qlora", "lora_rank": 8}),
            ({"lora": 8, "lora_dropout": 0.05}, {"lora_dropout": 0.05}),
            ({"lora": 8, "peft_kwargs": {"autocast_adapter_dtype": False}}, {"adapter_autocast": False}),
            ({"freeze_layers": 0}, {"finetune": "freeze", "freeze_layers": 0}),
            ({"opt": "torch_fused", "param_groups": 2}, {"optimizer": "torch-adamw-fused", "parameter_groups": 2}),
            ({"opt": "torch_foreach"}, {"optimizer": "torch-adamw-foreach"}),
            ({"opt": "bnb_adamw8bit"}, {"optimizer": "bitsandbytes-adamw8bit"}),
            ({"liger": every_kernel}, {"fused_loss": True, "kernels": list(records.KERNELS)}),
            ({"liger": {"rope": True, "cross_entropy": True}}, {"fused_loss": False, "kernels": ["rope"]}),
            ({"padded": True}, {"attention_mask": True}),
            ({"dtype": "fp32", "attn": "eager", "load": "gpu"}, {"precision": "fp32", "attention": "eager", "load": "gpu"}),
            ({"zero_init": False}, {"zero_init": False}),
        ]:
            with self.subTest(case=case):
                said = records.workload({**RAW["case"], **case})
                self.assertEqual({key: said.get(key) for key in expected}, expected)

    def test_rare_inputs_are_said_only_where_they_occur(self):
        self.assertEqual(len(records.workload(RAW["case"])), 14)

    def test_out_of_memory_is_a_measurement(self):
        result = raw({"cap_gib": 37.5}, ok=False, oom="CUDA out of memory. Tried to allocate 2.32 GiB.")
        result["phases"].append(raw_phase("oom", 4.0))
        said = records.record(result)
        self.assertEqual((said["outcome"], said["capacity_limit_bytes"], said["oom_message"], said["phases"][-1]["phase"]),
                         ("oom", 40265318400, "CUDA out of memory. Tried to allocate 2.32 GiB.", "oom"))

    def test_times_and_the_driver_s_count_only_of_real_ranks(self):
        said = records.record(raw(real=True, rank=3, timed_s=[0.4]))
        self.assertEqual((said["ranks"], said["rank"], said["step_seconds"], said["loop_step_seconds"]), ("nccl", 3, [0.5], [0.4]))
        self.assertEqual([p.get("seconds") for p in said["phases"]], [None, 1.5, 0.5])
        self.assertEqual([p["device_used_bytes"] for p in said["phases"]], [7, 7, 7])

    def test_a_driver_that_was_not_read_is_left_out(self):
        self.assertNotIn("driver", records.versions({"torch": "2.11.0", "driver": "for"}))
        self.assertNotIn("driver", records.versions({"torch": "2.11.0", "driver": None}))
        self.assertEqual(records.versions({"driver": "580.159"}), {"driver": "580.159"})

    def test_a_failed_run_is_no_measurement(self):
        failed = raw(ok=False, error="Traceback\n  somewhere\nRuntimeError: no kernel")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "raw.jsonl"
            path.write_text(json.dumps(raw()) + "\n\n" + json.dumps(failed) + "\n")
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.assertEqual(records.main([str(path)]), 1)
        self.assertEqual(err.getvalue(), "left out: x1: RuntimeError: no kernel\n")
        self.assertEqual([json.loads(line)["id"] for line in out.getvalue().splitlines()], ["x1"])


if __name__ == "__main__":
    unittest.main()
