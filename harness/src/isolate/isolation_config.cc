#include "isolate/isolation_config.h"

namespace dp_bench {
namespace {

constexpr double kMinTimeout = 0.1;    // [s]
constexpr double kMaxTimeout = 1.0e6;  // [s]

}  // namespace

IsolationConfig IsolationConfig::FromConfig(const Config& env_runner) {
  IsolationConfig c;
  c.is_enabled = env_runner.Get<bool>("isolate", c.is_enabled);
  c.step_timeout = env_runner.GetInRange("step_timeout", c.step_timeout, kMinTimeout, kMaxTimeout);
  c.reset_timeout =
      env_runner.GetInRange("reset_timeout", c.reset_timeout, kMinTimeout, kMaxTimeout);
  c.memory_limit_mb = static_cast<int>(env_runner.GetInRange(
      "memory_limit_mb", std::int64_t{c.memory_limit_mb}, std::int64_t{0}, std::int64_t{1} << 30));
  return c;
}

}  // namespace dp_bench
