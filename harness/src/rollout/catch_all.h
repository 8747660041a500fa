// Catches everything that a call into a plugin may throw.
#pragma once

#include <exception>

#include "dp_bench/error.h"

namespace dp_bench::rollout {

/// Runs `body`. If it throws, calls `on_error` with the text of the exception. Error{kUnavailable}
/// passes through: it is not about one episode, and the next one would fail too.
template <class Body, class OnError>
void CatchAll(const Body& body, const OnError& on_error) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) throw;
    on_error(error.what());
  } catch (const std::exception& error) {
    on_error(error.what());
  } catch (...) {
    on_error("threw something that is not a std::exception");
  }
}

}  // namespace dp_bench::rollout
