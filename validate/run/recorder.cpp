#include "run/recorder.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <torch/version.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace zplan::trainer {
namespace {

using nlohmann::json;

const char* text(Precision p) {
  return p == Precision::Bf16 ? "bf16" : p == Precision::Fp16 ? "fp16" : "fp32";
}

std::string text(const Recompute& r) {
  if (!r.any()) return "none";
  return r.every == 1 ? "full" : "every-" + std::to_string(r.every);
}

json workload(const Run& run) {
  return {{"seq_len", run.workload.seq_len},
          {"micro_batch", run.ds.train_micro_batch_size_per_gpu},
          {"grad_accum", run.ds.gradient_accumulation_steps},
          {"recompute", text(run.workload.recompute)},
          {"recompute_impl",
           run.workload.recompute.impl == RecomputeImpl::Reentrant ? "reentrant" : "non-reentrant"},
          {"attention", "sdpa"},
          {"finetune", "full"},
          {"lora_rank", nullptr},
          {"precision", text(run.ds.precision)},
          {"optimizer", "deepspeed-adamw"},
          {"fused_loss", false},
          {"kernels", json::array()},
          {"load", run.workload.load == Load::Cpu ? "cpu" : "gpu"}};
}

json phase_json(const PhaseRecord& p) {
  json j;
  if (p.step >= 0) j = {{"step", p.step}, {"micro_step", p.micro_step}};
  j.update({{"phase", text(p.phase)},
            {"allocated_bytes", p.memory.device.allocated.count},
            {"allocated_peak_bytes", p.memory.device.allocated_peak.count},
            {"reserved_bytes", p.memory.device.reserved.count},
            {"reserved_peak_bytes", p.memory.device.reserved_peak.count},
            {"active_peak_bytes", p.memory.device.active_peak.count},
            {"inactive_split_bytes", p.memory.device.inactive_split.count},
            {"alloc_retries", p.memory.device.alloc_retries},
            {"host_rss_bytes", p.memory.host_rss.count},
            {"host_rss_peak_bytes", p.memory.host_rss_peak.count},
            {"host_pinned_bytes", p.memory.host_pinned.count},
            {"seconds", p.seconds}});
  if (p.memory.device_used) j["device_used_bytes"] = p.memory.device_used->count;
  if (p.device_seconds) j["device_seconds"] = *p.device_seconds;
  return j;
}

}  // namespace

Recorder::Recorder(const Plan& plan, std::string path, const std::string& ranks,
                   const DeviceFacts& device)
    : path_(std::move(path)), record_(std::make_unique<json>()) {
  const Run& run = plan.run;
  json& r = *record_;
  r = {{"schema", "zplan.measurement/1"},
       {"id", plan.id},
       {"model", plan.model_name},
       {"world_size", run.world_size},
       {"rank", run.rank},
       {"ranks", ranks},
       {"workload", workload(run)},
       {"alloc_conf", run.alloc_conf},
       {"capacity_limit_bytes",
        run.capacity_limit ? json(run.capacity_limit->count) : json(nullptr)},
       {"ds_config", json::parse(plan.ds_config)},
       {"versions",
        {{"torch", TORCH_VERSION},
         {"deepspeed", zplan::text(run.versions.deepspeed)},
         {"transformers", zplan::text(run.versions.transformers)},
         {"zplan_validate", ZPLAN_VERSION},
         {"gpu", device.name},
         {"driver", device.driver}}},
       {"measured_by", "zplan-validate"},
       {"cpu_threads", at::get_num_threads()},
       {"machine",
        {{"gpu", device.name},
         {"gpus", plan.ranks_here},
         {"host_cores", sysconf(_SC_NPROCESSORS_ONLN)}}},
       {"phases", json::array()}};
  r["workload"]["model_overrides"] = json::parse(plan.model_overrides);
}

Recorder::~Recorder() = default;

void Recorder::add(const PhaseRecord& phase) {
  phases_.push_back(phase);
  (*record_)["phases"].push_back(phase_json(phase));
}

void Recorder::set(const std::string& key, const json& value) { (*record_)[key] = value; }

void Recorder::append(const std::string& key, double value) { (*record_)[key].push_back(value); }

void Recorder::write(const std::string& outcome) {
  (*record_)["outcome"] = outcome;
  write_file(path_, record_->dump(1) + "\n", outcome == "incomplete" ? Keep::Quick : Keep::Durable);
}

std::string record_path(const std::string& out, int rank) {
  if (rank == 0) return out;
  const std::size_t dot = out.rfind('.');
  const bool suffix = dot != std::string::npos && out.find('/', dot) == std::string::npos;
  return out.substr(0, suffix ? dot : out.size()) + ".rank" + std::to_string(rank) +
         (suffix ? out.substr(dot) : "");
}

void mark_failed(const std::string& path, const Failure& failure) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  json record = json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) record = {{"schema", "zplan.measurement/1"}, {"phases", json::array()}};
  const std::string outcome = record.value("outcome", "incomplete");
  if (outcome == "incomplete" || outcome == "ok")
    record["outcome"] = "failed";  // an "oom" says more
  record["failure"] = {{"rank", failure.rank}, {"where", failure.where}, {"what", failure.what}};
  write_file(path, record.dump(1) + "\n", Keep::Durable);
}

void write_file(const std::string& path, const std::string& text, Keep keep) {
  const std::string beside = path + ".partial";
  const auto fail = [&](const char* what) {
    const int error = errno;
    unlink(beside.c_str());
    throw WriteError(path + ": cannot be " + what + ": " + std::strerror(error));
  };
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail("created");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(file);
      fail("written");
    }
    done += static_cast<std::size_t>(n);
  }
  if (keep == Keep::Durable && fsync(file) != 0 && errno != EINVAL &&
      errno != EROFS) {  // some filesystems cannot; a full one must be heard
    close(file);
    fail("written");
  }
  if (close(file) != 0) fail("written");
  if (rename(beside.c_str(), path.c_str()) != 0) fail("put in place");
}

}  // namespace zplan::trainer
