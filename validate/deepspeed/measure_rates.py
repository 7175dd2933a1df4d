#!/usr/bin/env python3
"""Measure the rates that zplan's time model starts from, on the machine it is run on, in a minute or two.

Needs PyTorch with CUDA. Uses transformers (one eager decoder layer) and DeepSpeed (its CPU Adam) where they can
be imported. With two or more GPUs it also times NCCL. Everything is timed on random data: zeros draw less power
and run faster. Each result is the median of its repeats.

    python3 validate/deepspeed/measure_rates.py --out rates.json

The JSON (zplan.rates/1) has one list a measurement, each row with its shape and its seconds, so that the same
file serves a fit (`zplan calibrate`) and a reader.
"""
import argparse
import json
import os
import statistics
import time

import torch


def seconds_on_gpu(work, repeats=7, warm=3):
    """Median GPU seconds of work(), from CUDA events, so that the host's launches do not count."""
    for _ in range(warm):
        work()
    torch.cuda.synchronize()
    found = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(found)


def seconds_on_host(work, repeats=7, warm=2):
    """Median wall seconds of work() with the GPU idle before and drained after."""
    found = []
    for at in range(warm + repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if at >= warm:
            found.append(time.perf_counter() - begin)
    return statistics.median(found)


def matmul(dtype):
    """y = x W^T for the widths of 1B to 32B models: forward, then the two products of backward."""
    rows = []
    for m in (512, 2048, 4096, 8192, 32768):
        for n, k in ((4096, 4096), (1024, 4096), (12288, 4096), (4096, 12288), (2560, 2560), (9728, 2560),
                     (2048, 2048), (6144, 2048), (1024, 1024), (25600, 5120), (151936, 4096)):
            if m * n * 2 > 6e9:
                continue
            x = torch.randn(m, k, device="cuda", dtype=dtype)
            w = torch.randn(n, k, device="cuda", dtype=dtype)
            dy = torch.randn(m, n, device="cuda", dtype=dtype)
            for kind, work in (("forward", lambda: x @ w.t()), ("input gradient", lambda: dy @ w),
                               ("weight gradient", lambda: dy.t() @ x)):
                rows.append(dict(kind=kind, m=m, n=n, k=k, dtype=str(dtype), seconds=seconds_on_gpu(work, 3, 2),
                                 flops=2.0 * m * n * k))
            del x, w, dy
    return rows


def attention(dtype):
    """scaled_dot_product_attention, causal, grouped heads as Qwen3 and Llama call it; backward apart."""
    rows = []
    functional = torch.nn.functional
    for batch, s, heads, kv_heads, d in ((1, 512, 32, 8, 128), (4, 512, 32, 8, 128), (1, 2048, 32, 8, 128),
                                         (4, 2048, 32, 8, 128), (1, 8192, 32, 8, 128), (1, 32768, 32, 8, 128),
                                         (4, 2048, 16, 8, 128), (4, 2048, 32, 8, 64)):
        q = torch.randn(batch, heads, s, d, device="cuda", dtype=dtype, requires_grad=True)
        k = torch.randn(batch, kv_heads, s, d, device="cuda", dtype=dtype, requires_grad=True)
        v = torch.randn(batch, kv_heads, s, d, device="cuda", dtype=dtype, requires_grad=True)
        call = lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        with torch.no_grad():
            forward = seconds_on_gpu(call, 5, 3)
        out = call()
        dout = torch.randn_like(out)
        backward = seconds_on_gpu(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True), 5, 3)
        rows.append(dict(batch=batch, s=s, heads=heads, kv_heads=kv_heads, head_dim=d, dtype=str(dtype),
                         forward_seconds=forward, backward_seconds=backward,
                         forward_flops=2.0 * batch * s * s * heads * d))
    return rows


def element_wise():
    """Bytes a second of the kinds of kernel an eager layer runs; bytes counts every read and write."""
    rows = []
    for n in (1 << 20, 1 << 24, 1 << 27):
        a = torch.randn(n, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, device="cuda", dtype=torch.bfloat16)
        f = torch.randn(n, device="cuda", dtype=torch.float32)
        r = torch.randn(n // 4096 if n >= 4096 else 1, 4096, device="cuda", dtype=torch.float32)
        for kind, bytes_moved, work in (
                ("copy", 4 * n, lambda: a.clone()), ("add", 6 * n, lambda: a + b),
                ("silu", 4 * n, lambda: torch.nn.functional.silu(a)), ("to fp32", 6 * n, lambda: a.float()),
                ("to bf16", 6 * n, lambda: f.bfloat16()), ("square fp32", 8 * n, lambda: f.pow(2)),
                ("row mean fp32", 4 * n, lambda: r.mean(-1))):
            rows.append(dict(kind=kind, elements=n, bytes=bytes_moved, seconds=seconds_on_gpu(work, 7, 3)))
    return rows


def launch_floor():
    """Host seconds to issue one small kernel, alone and through autograd; nothing here waits for the GPU's work."""
    a = torch.randn(64, 64, device="cuda", requires_grad=True)
    count = 300

    def forward():
        x = a
        for _ in range(count):
            x = x * 1.0001
        return x

    def both():
        forward().sum().backward()

    with torch.no_grad():
        plain = seconds_on_host(forward) / count
    tracked = seconds_on_host(forward) / count
    full = seconds_on_host(both) / count
    return dict(kernel_seconds=plain, kernel_with_graph_seconds=tracked, kernel_forward_backward_seconds=full)


def decoder_layer():
    """Eager Hugging Face decoder layers: 64 tokens show the host's time, thousands show the GPU's."""
    try:
        from transformers import Qwen3Config, Qwen3ForCausalLM
    except ImportError as error:
        return dict(skipped=str(error))
    rows = []
    for hidden, intermediate, heads in ((4096, 12288, 32), (2048, 6144, 16), (1024, 3072, 16)):
        found = {}
        for layers in (1, 3):
            config = Qwen3Config(hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
                                 num_attention_heads=heads, num_key_value_heads=8, head_dim=128, vocab_size=1024,
                                 use_cache=False)
            config._attn_implementation = "sdpa"
            with torch.device("cuda"):
                model = Qwen3ForCausalLM(config).bfloat16()
            model.train()
            for tokens in (64, 2048, 4096, 8192):
                ids = torch.randint(0, 1024, (1, min(tokens, 2048)), device="cuda").repeat(max(1, tokens // 2048), 1)
                loss = [None]

                def forward():
                    loss[0] = model(input_ids=ids, labels=ids, use_cache=False).loss

                def backward():
                    loss[0].backward()

                times = []
                for at in range(7):
                    torch.cuda.synchronize(); begin = time.perf_counter()
                    forward(); torch.cuda.synchronize(); middle = time.perf_counter()
                    backward(); torch.cuda.synchronize(); end = time.perf_counter()
                    if at >= 2:
                        times.append((middle - begin, end - middle))
                    model.zero_grad(set_to_none=True)
                found[layers, tokens] = [statistics.median(t) for t in zip(*times)]
            del model
            torch.cuda.empty_cache()
        for tokens in (64, 2048, 4096, 8192):
            forward, backward = ((found[3, tokens][i] - found[1, tokens][i]) / 2 for i in (0, 1))
            rows.append(dict(hidden=hidden, intermediate=intermediate, heads=heads, tokens=tokens,
                             forward_seconds_per_layer=forward, backward_seconds_per_layer=backward))
    return rows


def host_links(gpus):
    """Pinned copies both ways, on every GPU at once: that is how offload uses the links."""
    size = 512 << 20
    result = {}
    for direction in ("h2d", "d2h"):
        for used in sorted({1, gpus}):
            buffers = [(torch.empty(size, dtype=torch.uint8).pin_memory(),
                        torch.empty(size, dtype=torch.uint8, device=f"cuda:{i}")) for i in range(used)]

            def work():
                for host, device in buffers:
                    (device.copy_(host, non_blocking=True) if direction == "h2d"
                     else host.copy_(device, non_blocking=True))
                for i in range(used):
                    torch.cuda.synchronize(i)

            work()
            found = []
            for _ in range(5):
                begin = time.perf_counter(); work(); found.append(time.perf_counter() - begin)
            result[f"{direction}_{used}_gpu_bytes_per_s_each"] = size / statistics.median(found)
    return result


def gpu_optimizer():
    """Fused AdamW over fp32 states, seconds an element."""
    n = 1 << 28
    p = torch.randn(n, device="cuda", requires_grad=True)
    p.grad = torch.randn(n, device="cuda")
    optimizer = torch.optim.AdamW([p], lr=1e-5, fused=True)
    return dict(elements=n, seconds=seconds_on_gpu(optimizer.step, 5, 2), bytes=28 * n)


def cpu_optimizer_of_rank(rank, counts, elements, dtype, barrier, rows):
    """What DeepSpeed's step does on the CPU with an offloaded optimizer, seconds of each part, all ranks at once.

    After runtime/zero/stage3.py `step` (unscale_and_clip_grads, _optimizer_step,
    _reassign_or_swap_out_partitioned_parameters) and stage_1_and_2.py `step`.
    """
    torch.cuda.set_device(rank)
    master = torch.full((elements,), 0.01, requires_grad=True)
    master.grad = torch.full((elements,), 1e-3).pin_memory()
    model = torch.empty(elements, dtype=dtype).pin_memory()
    device = torch.empty(elements, dtype=dtype, device="cuda")
    adam = "adam, torch fused"
    optimizer = torch.optim.AdamW([master], lr=1e-5, fused=True)
    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        optimizer, adam = DeepSpeedCPUAdam([master], lr=1e-5), "adam, deepspeed"
    except Exception:  # DeepSpeed absent, or its C++ extension cannot be built here
        pass
    parts = [("unscale", lambda: master.grad.mul_(0.999)), (adam, optimizer.step),
             ("to 16 bits", lambda: model.copy_(master.data)),
             ("pinned to the GPU", lambda: device.copy_(model, non_blocking=True)),
             ("fp32 to 16 bits on the GPU", lambda: device.copy_(master.data))]
    for threads in counts:
        torch.set_num_threads(threads)
        for kind, work in parts:
            found = []
            for at in range(4):
                torch.cuda.synchronize()
                barrier.wait()
                begin = time.perf_counter()
                work()
                torch.cuda.synchronize()
                if at > 0:
                    found.append(time.perf_counter() - begin)
            if rank == 0:
                rows.append(dict(kind=kind, threads=threads, elements=elements, seconds=statistics.median(found)))


def cpu_optimizer(gpus, cores, dtype):
    """One rank and a rank on every GPU, with few threads each and with all cores shared among them."""
    import torch.multiprocessing as processes
    result = []
    with processes.get_context("spawn").Manager() as manager:
        for ranks in sorted({1, gpus}):
            rows, counts = manager.list(), sorted({1, 4, 8, max(1, cores // ranks)})
            processes.spawn(cpu_optimizer_of_rank, nprocs=ranks, args=(counts, 1 << 28, dtype, manager.Barrier(ranks), rows))
            result += [dict(ranks=ranks, **row) for row in rows]
    return result


def collectives_of_rank(rank, world, port, out):
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    rows = []
    for size in (8 << 10, 1 << 20, 8 << 20, 32 << 20, 128 << 20, 512 << 20):
        full = torch.randn(size // 2, device="cuda").bfloat16()
        part = full[: size // 2 // world].clone()
        for kind, work in (("all_reduce", lambda: dist.all_reduce(full)),
                           ("all_gather", lambda: dist.all_gather_into_tensor(full, part)),
                           ("reduce_scatter", lambda: dist.reduce_scatter_tensor(part, full))):
            rows.append(dict(kind=kind, ranks=world, bytes=size, seconds=seconds_on_gpu(work, 9, 3)))
    # A matrix product beside an all-gather: how much each slows the other (the overlap coefficient).
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    full = torch.randn(256 << 20, device="cuda").bfloat16()
    part = full[: full.numel() // world].clone()
    side = torch.cuda.Stream()

    def compute():
        for _ in range(8):
            a @ a

    def communicate():
        for _ in range(8):
            dist.all_gather_into_tensor(full, part)

    def together():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            communicate()
        compute()
        torch.cuda.current_stream().wait_stream(side)

    overlap = dict(compute_seconds=seconds_on_gpu(compute, 3, 1), communication_seconds=seconds_on_gpu(communicate, 3, 1),
                   together_seconds=seconds_on_gpu(together, 3, 1))
    if rank == 0:
        with open(out, "w") as file:
            json.dump(dict(rows=rows, overlap=overlap), file)
    dist.destroy_process_group()


def collectives(gpus, port):
    import tempfile
    import torch.multiprocessing as processes
    results = []
    for world in sorted({2, gpus}):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            processes.spawn(collectives_of_rank, (world, port + world, file.name), nprocs=world)
            with open(file.name) as written:
                results.append(dict(ranks=world, **json.load(written)))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="rates.json")
    parser.add_argument("--port", type=int, default=29617)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these measurements alone")
    arguments = parser.parse_args()
    gpus = torch.cuda.device_count()
    if gpus == 0:
        parser.error("no CUDA device is visible: run this on the machine that will train")
    threads = torch.get_num_threads()
    bf16 = torch.cuda.get_device_capability() >= (8, 0)
    dtype = torch.bfloat16 if bf16 else torch.float16
    result = dict(schema="zplan.rates/1", gpu=torch.cuda.get_device_name(), gpus=gpus, torch=torch.__version__,
                  cuda=torch.version.cuda, host_cores=os.cpu_count(), cpu_threads=threads)
    steps = [("launch", launch_floor), ("matmul", lambda: matmul(dtype)), ("attention", lambda: attention(dtype)),
             ("element_wise", element_wise), ("decoder_layer", decoder_layer),
             ("host_links", lambda: host_links(gpus)), ("gpu_optimizer", gpu_optimizer),
             ("cpu_optimizer", lambda: cpu_optimizer(gpus, threads, dtype))]
    if gpus >= 2:
        steps.append(("collectives", lambda: collectives(gpus, arguments.port)))
    for name, work in steps:
        if arguments.only and name not in arguments.only:
            continue
        begin = time.perf_counter()
        try:
            result[name] = work()
        except (RuntimeError, torch.cuda.OutOfMemoryError) as error:  # one failed measurement must not lose the rest
            result[name] = dict(error=str(error)[:300])
        torch.cuda.empty_cache()
        result.setdefault("wall_seconds", {})[name] = round(time.perf_counter() - begin, 2)
        with open(arguments.out, "w") as file:  # after each step: a cut-off run keeps what it has
            json.dump(result, file, indent=1)
    print(json.dumps(result["wall_seconds"]))


if __name__ == "__main__":
    main()
