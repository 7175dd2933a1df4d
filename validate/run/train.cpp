#include "run/train.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <nvtx3/nvToolsExt.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/corpus.h"
#include "data/weights.h"
#include "device.h"
#include "model/decoder.h"
#include "run/progress.h"
#include "zero/engine.h"

namespace zplan::trainer {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void act_out(const Rehearsal& rehearsal) {
  switch (rehearsal.what) {
    case Rehearsal::What::Die:
      std::raise(SIGKILL);
      break;
    case Rehearsal::What::Throw:
      throw std::runtime_error("a rehearsed failure");
    case Rehearsal::What::Hang:
      while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    case Rehearsal::What::OutOfMemory:
      throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                                  "CUDA out of memory (rehearsed)");
  }
}

class Trainer {
 public:
  Trainer(const Plan& plan, const Rank& rank, Recorder& recorder)
      : plan_(plan),
        rank_(rank),
        recorder_(recorder),
        probe_(rank.device.is_cuda() ? cuda_probe(rank.device) : host_probe()),
        progress_(plan, rank.local == 0 && rank.communicator->rank() == plan.run.rank),
        corpus_(plan.tokens.empty() ? synthetic_corpus(plan.run.model.vocab, plan.seed)
                                    : token_file(plan.tokens, plan.run.model.vocab)) {}

  void run() {
    measured(Phase::Start, -1, -1, [] {});
    measured(Phase::Load, -1, -1, [&] { load(); });
    measured(Phase::Init, -1, -1, [&] {
      engine_->initialize();
      decoder_->set_hooks(engine_->hooks());
    });
    recorder_.set("optimizer_classes", engine_->optimizer_classes());
    for (std::int64_t s = 0; s < plan_.run.steps; ++s) one_step(s);
    for (std::int64_t s = 0; s < plan_.timed_steps; ++s) one_timed_step(plan_.run.steps + s);
    rank_.status->enter(Phase::Done, plan_.run.steps, 0);
  }

 private:
  const DsConfig& ds() const { return plan_.run.ds; }

  template <class Body>
  void measured(Phase phase, std::int64_t step, std::int64_t micro_step, Body body) {
    rank_.status->enter(phase, step, micro_step);
    if (plan_.rehearsal && plan_.rehearsal->rank == rank_.communicator->rank() &&
        plan_.rehearsal->phase == phase && plan_.rehearsal->step == step) {
      act_out(*plan_.rehearsal);
    }
    progress_.phase(phase, step);
    const Clock::time_point start = Clock::now();
    Stopwatch watch(Lane::current(rank_.device));
    nvtxRangePushA(text(phase).c_str());
    body();
    nvtxRangePop();
    PhaseRecord record;
    record.phase = phase;
    record.step = step;
    record.micro_step = micro_step;
    record.device_seconds = watch.stop();
    record.memory = probe_->read();
    record.seconds = seconds_since(start);
    rank_.communicator->check();
    recorder_.add(record);
    recorder_.write("incomplete");
    progress_.done(record);
    probe_->restart_peaks();
  }

  void load() {
    DecoderOptions options;
    options.type = scalar_type(ds().precision);
    options.device = rank_.device;
    options.recompute = plan_.run.workload.recompute;
    options.norm_eps = plan_.norm_eps;
    options.rope_theta = plan_.rope_theta;
    decoder_ = std::make_unique<Decoder>(plan_.run.model, options);
    ParameterList parameters;
    for (const auto& p : decoder_->parameters()) parameters.push_back(p.get());
    engine_ = make_engine({ds(), plan_.adam, rank_.device, rank_.communicator}, parameters);
    const auto source =
        plan_.weights.empty() ? random_weights(plan_.seed) : safetensors_weights(plan_.weights);
    // Stages 0-2 load where the script loads and move in initialize; stage 3 builds on the device
    // (zero.Init).
    const bool on_device = ds().zero.stage == 3 || plan_.run.workload.load == Load::Gpu;
    for (Parameter* p : parameters) {
      engine_->adopt(
          *p, source->value(*p, options.type, on_device ? rank_.device : at::Device(at::kCPU)));
    }
  }

  // Rank r's micro-batch m of step s: the sequences a single process would see in the same order.
  at::Tensor batch(std::int64_t step, std::int64_t micro_step) const {
    const std::int64_t world = rank_.communicator->size(), B = ds().train_micro_batch_size_per_gpu;
    const std::int64_t index =
        (step * ds().gradient_accumulation_steps + micro_step) * world + rank_.communicator->rank();
    return corpus_->sequences(index * B, B, plan_.run.workload.seq_len).to(rank_.device);
  }

  void one_step(std::int64_t step) {
    const Clock::time_point start = Clock::now();
    double loss_sum = 0;
    bool stepped = true;
    for (std::int64_t m = 0; m < ds().gradient_accumulation_steps; ++m) {
      at::Tensor loss;
      const at::Tensor ids = batch(step, m);
      measured(Phase::Forward, step, m, [&] {
        engine_->before_forward();
        loss = decoder_->loss(ids);
      });
      const double value = loss.item<double>();
      measured(Phase::Backward, step, m, [&] { engine_->backward(loss); });
      loss.reset();
      loss_sum += value;
      const bool boundary = m + 1 == ds().gradient_accumulation_steps;
      measured(Phase::Step, step, m, [&] {
        if (boundary) stepped = engine_->step();
      });
    }
    recorder_.append("step_seconds", seconds_since(start));
    const double loss =
        mean_over_ranks(loss_sum / static_cast<double>(ds().gradient_accumulation_steps));
    recorder_.append("losses", loss);
    recorder_.append("gradient_norms", engine_->last_gradient_norm());
    if (!stepped) recorder_.set("skipped_steps", engine_->loss_scaler().skipped());
    recorder_.write("incomplete");
    progress_.step(step, loss);
  }

  void one_timed_step(std::int64_t step) {
    rank_.status->enter(Phase::Step, step, 0);
    synchronize(rank_.device);
    const Clock::time_point start = Clock::now();
    for (std::int64_t m = 0; m < ds().gradient_accumulation_steps; ++m) {
      const at::Tensor ids = batch(step, m);
      engine_->before_forward();
      engine_->backward(decoder_->loss(ids));
    }
    engine_->step();
    synchronize(rank_.device);
    recorder_.append("loop_step_seconds", seconds_since(start));
  }

  double mean_over_ranks(double mine) const {
    at::Tensor sum =
        at::full({1}, mine, at::TensorOptions().dtype(at::kDouble).device(rank_.device));
    rank_.communicator->all_reduce(sum);
    return sum.item<double>() / rank_.communicator->size();
  }

  const Plan& plan_;
  const Rank& rank_;
  Recorder& recorder_;
  std::unique_ptr<MemoryProbe> probe_;
  Progress progress_;
  std::unique_ptr<Corpus> corpus_;
  std::unique_ptr<Decoder> decoder_;  // before the engine goes, whose hooks its graph may call
  std::unique_ptr<Engine> engine_;
};

}  // namespace

void train(const Plan& plan, const Rank& rank, Recorder& recorder) {
  Trainer(plan, rank, recorder).run();
}

}  // namespace zplan::trainer
