#include <c10/util/Exception.h>

#include <nlohmann/json.hpp>

#include "collectives/counting.h"
#include "model/checkpoint.h"
#include "probe/micro.h"
#include "run/supervisor.h"
#include "run/train.h"
#include "run/watchdog.h"
#include "spec/error.h"

namespace zplan::trainer {
namespace {

int fail(Recorder& recorder, const Rank& rank, const std::string& outcome, std::string why,
         int code) {
  why = why.substr(0, why.find("\nException raised from"));
  try {
    recorder.set(
        "failure",
        {{"rank", rank.communicator->rank()}, {"where", where_is(*rank.status)}, {"what", why}});
    if (outcome == "oom") recorder.set("oom_message", why);
    recorder.write(outcome);
  } catch (const WriteError& e) {
    why += std::string("\n  and the record could not be written: ") + e.what();
  }
  rank.status->say(why);
  return code;
}

}  // namespace

int run_rank(const Plan& plan, const Rank& given) {
  Counting counting(*given.communicator, given.status->collectives);
  Rank rank = given;
  rank.communicator = &counting;
  install_saved_tensor_hooks();
  if (plan.run.capacity_limit && rank.device.is_cuda())
    limit_capacity(rank.device, *plan.run.capacity_limit);
  Recorder recorder(plan, record_path(plan.out, plan.stand_in ? 0 : rank.communicator->rank()),
                    rank.communicator->kind(), device_facts(rank.device));
  try {
    const Watchdog watchdog(*rank.communicator, *rank.status, plan.timeout_s);
    if (plan.profile || plan.profile_only) {
      rank.status->enter(Phase::Profile);
      recorder.set("profile", measure_rates(plan, rank));
    }
    if (!plan.profile_only) train(plan, rank, recorder);
    recorder.write("ok");
    return kOk;
  } catch (const InputError& e) {
    rank.status->say(e.what());
    return kInputError;
  } catch (const c10::OutOfMemoryError& e) {
    return fail(recorder, rank, "oom", e.what_without_backtrace(), kOutOfMemory);
  } catch (const c10::Error& e) {
    return fail(recorder, rank, "failed", e.what_without_backtrace(), kFailed);
  } catch (const std::exception& e) {
    return fail(recorder, rank, "failed", e.what(), kFailed);
  }
}

}  // namespace zplan::trainer
