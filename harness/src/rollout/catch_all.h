// Where calls into plugins end: an env may throw anything, and an episode goes on or ends by it.
#pragma once

#include <exception>

namespace dp_bench::rollout {

/// Runs `body`; what it throws goes to `on_error` as text.
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
