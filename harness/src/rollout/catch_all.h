// Catches everything that a call into a plugin may throw.
#pragma once

#include <exception>

namespace dp_bench::rollout {

/// Runs `body`. If it throws, calls `on_error` with the text of the exception.
template <class Body, class OnError>
void CatchAll(const Body& body, const OnError& on_error) {
  try {
    body();
  } catch (const std::exception& error) {
    on_error(error.what());
  } catch (...) {
    on_error("threw something that is not a std::exception");
  }
}

}  // namespace dp_bench::rollout
