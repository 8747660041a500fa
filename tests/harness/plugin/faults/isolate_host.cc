// A program with two isolated envs, one of which started a process and one hangs, for
// killed_host_test.cc.
#include <array>
#include <cstdio>

#include "harness/plugin/faulty_env.h"

int main() {
  const auto idle = dp_bench::plugin::MakeIsolated(dp_bench::plugin::OneFault("daemon", "step"));
  const auto hanging = dp_bench::plugin::MakeIsolated(dp_bench::plugin::OneFault("spin", "step"),
                                                      {.step_timeout = 1000.0});
  idle->Reset(0);
  hanging->Reset(0);
  idle->Step(std::array{0.0F, 0.0F});
  std::puts("ready");
  std::fflush(stdout);
  hanging->Step(std::array{0.0F, 0.0F});
}
