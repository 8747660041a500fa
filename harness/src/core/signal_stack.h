// A stack of its own for the signal handlers of a thread: after an overflow the usual one is full.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <memory>

namespace dp_bench::core {

/// Of the current thread, until its destruction.
class SignalStack {
 public:
  SignalStack() {
    const stack_t stack = {.ss_sp = memory_->data(), .ss_flags = 0, .ss_size = memory_->size()};
    sigaltstack(&stack, &before_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() { sigaltstack(&before_, nullptr); }

 private:
  using Memory = std::array<std::byte, std::size_t{64} << 10>;  // AVX-512 state alone takes 3 KB

  const std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  stack_t before_ = {};
};

}  // namespace dp_bench::core
