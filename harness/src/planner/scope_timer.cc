// See scope_timer.h.
#include "planner/scope_timer.h"

#include <chrono>

#include "core/clock.h"
#include "dp_bench/error.h"
#include "policy/device.h"

namespace dp_bench::planner {
namespace {

using Clock = std::chrono::steady_clock;

thread_local ScopeTimer* current_timer = nullptr;

struct Begin : public at::ObserverContext {
  Clock::time_point time = Clock::now();
};

}  // namespace

ScopeTimer::ScopeTimer(c10::Device device) : device_(device) {
  DPB_ASSERT(current_timer == nullptr);
  current_timer = this;
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Start, &End).scopes({at::RecordScope::USER_SCOPE}));
}

ScopeTimer::~ScopeTimer() {
  at::removeCallback(callback_);
  current_timer = nullptr;
}

std::unique_ptr<at::ObserverContext> ScopeTimer::Start(const at::RecordFunction& /*call*/) {
  if (current_timer != nullptr) policy::Synchronize(current_timer->device_);
  return std::make_unique<Begin>();
}

void ScopeTimer::End(const at::RecordFunction& call, at::ObserverContext* context) {
  // a thread of autograd inherits the callback, but not the timer
  if (current_timer == nullptr || context == nullptr) return;
  policy::Synchronize(current_timer->device_);
  const double seconds = core::SecondsSince(static_cast<Begin*>(context)->time);
  current_timer->seconds_[call.name()].push_back(seconds);
}

}  // namespace dp_bench::planner
