#include "cli/validation_command.h"

#include <algorithm>

#include "io/emit_arguments.h"
#include "io/record_reader.h"
#include "spec/error.h"

namespace zplan {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }

ValidationJob job_of_record(const std::string& like, const Catalog& catalog, const FileSource& files) {
  const std::size_t hash = like.rfind('#');
  const std::string path = like.substr(0, hash), id = hash == std::string::npos ? "" : like.substr(hash + 1);
  const auto texts = record_texts(files, path);
  const auto found =
      std::find_if(texts.begin(), texts.end(), [&](const RecordText& t) { return id.empty() || record_id(t) == id; });
  if (found == texts.end() || (id.empty() && texts.size() > 1)) {
    throw InputError(
        "--like " + like,
        id.empty() ? number(static_cast<std::int64_t>(texts.size())) + " records are in it" : "has no such record",
        "say which: --like FILE#ID");
  }
  const Record record = read_record(*found, catalog, files);
  ValidationJob job;
  job.world_size = record.run.world_size;
  job.nodes = record.machine ? record.machine->nodes : 1;
  job.gpu = record.run.gpu.name;
  job.what = job_text(record.run.model.name, record.run.ds.zero.stage, job.world_size) + " (" + record.id + ")";
  if (texts.size() > 1) job.only_deepspeed = "one record of a file with many";
  return job;
}

void add(std::vector<std::string>& words, const char* option, const std::string& value) {
  if (!value.empty()) words.insert(words.end(), {option, value});
}
void add(std::vector<std::string>& words, const char* option, const std::optional<std::int64_t>& value) {
  if (value) words.insert(words.end(), {option, number(*value)});
}

// The options that both engines know.
void add_common(std::vector<std::string>& words, const ValidationOptions& o) {
  if (o.stand_in) words.push_back("--stand-in");
  add(words, "--rank", o.rank);
  add(words, "--steps", o.steps);
  add(words, "--timed-steps", o.timed_steps);
  add(words, "--capacity", o.capacity);
  add(words, "--weights", o.weights);
  words.insert(words.end(), {"--out", o.out});
}

// torchrun as a module: the same Python, and nothing needs to be on the PATH.
std::vector<std::string> torchrun(const ValidationJob& job, const std::string& python) {
  std::vector<std::string> words = {python, "-m", "torch.distributed.run"};
  if (job.nodes == 1)
    words.push_back("--standalone");
  else
    words.insert(words.end(), {"--nnodes", number(job.nodes), "--node_rank", "$NODE_RANK", "--master_addr",
                               "$MASTER_ADDR", "--master_port", "29500"});
  words.insert(words.end(), {"--nproc_per_node", number(job.gpus_per_node())});
  return words;
}

std::vector<std::string> native_command(const ValidationJob& job, const ValidationOptions& o) {
  if (!job.only_deepspeed.empty()) {
    throw InputError("--engine native", "zplan-validate does not run " + job.only_deepspeed, "use --engine deepspeed");
  }
  if (!o.history.empty()) throw InputError("--history", "zplan-validate records no history", "use --engine deepspeed");
  std::vector<std::string> words;
  if (job.nodes > 1 && !o.stand_in) {
    words = torchrun(job, o.python);
    words.push_back("--no_python");
  }
  words.push_back(o.program);
  if (!o.like.empty()) {
    words.insert(words.end(), {"--like", o.like});
  } else {
    add(words, "--model", job.model);
    add(words, "--ds-config", job.ds_config);
    add(words, "--seq-len", std::optional<std::int64_t>(job.seq_len));
    add(words, "--recompute", job.recompute);
    add(words, "--recompute-impl", job.recompute_impl);
    add(words, "--load", job.load);
    add(words, "--world", std::optional<std::int64_t>(job.world_size));
    add(words, "--alloc-conf", job.alloc_conf);
  }
  add_common(words, o);
  return words;
}

std::vector<std::string> probe_command(const ValidationJob& job, const ValidationOptions& o, const std::string& data) {
  std::vector<std::string> words;
  if (job.world_size > 1 && !o.stand_in)
    words = torchrun(job, o.python);
  else
    words = {o.python};
  words.push_back(data + "/validate/deepspeed/probe.py");
  if (!o.like.empty())
    words.insert(words.end(), {"--like", o.like});
  else
    words.insert(words.end(), {"--plan", o.plan});
  add_common(words, o);
  add(words, "--history", o.history);
  return words;
}

}  // namespace

ValidationEngine validation_engine_named(const std::string& name, const std::string& where) {
  if (name == "deepspeed") return ValidationEngine::DeepSpeed;
  if (name == "native") return ValidationEngine::Native;
  throw InputError(where, "'" + name + "' is no engine", "write deepspeed or native");
}

ValidationJob validation_job(const ValidationOptions& options, const Catalog& catalog, const FileSource& files) {
  if (options.rank && !options.stand_in) {
    throw InputError("--rank", "real ranks are all measured", "add --stand-in to play one of them");
  }
  const ValidationJob job =
      options.like.empty() ? read_validation_job(options.plan, files) : job_of_record(options.like, catalog, files);
  if (options.rank && *options.rank >= job.world_size) {
    throw InputError("--rank", number(*options.rank) + " is not a rank of " + number(job.world_size),
                     "ranks count from 0");
  }
  return job;
}

std::int64_t ranks_here(const ValidationJob& job, const ValidationOptions& options) {
  return options.stand_in ? 1 : job.gpus_per_node();
}

std::vector<std::string> validation_command(const ValidationJob& job, const ValidationOptions& options,
                                            const std::string& data) {
  return options.engine == ValidationEngine::Native ? native_command(job, options) : probe_command(job, options, data);
}

std::string command_line(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) {
    const bool filled_in = word == "$NODE_RANK" || word == "$MASTER_ADDR";
    line += (line.empty() ? "" : " ") + (filled_in ? "\"" + word + "\"" : shell_word(word));
  }
  return line;
}

}  // namespace zplan
