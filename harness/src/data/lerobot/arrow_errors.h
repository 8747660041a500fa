// Turns the errors of Arrow C++ into ours. Only .cc files include this, because it includes Arrow.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>
#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "dp_bench/error.h"

namespace dp_bench::lerobot {

/// Throws Error{code}, whose message is `where` and what Arrow says.
struct ArrowErrors {
  ErrorCode code;
  std::string where;

  void Check(const arrow::Status& status) const {
    if (!status.ok()) throw Error(code, fmt::format("{}: {}", where, status.message()));
  }

  template <class T>
  T Check(arrow::Result<T> result) const {
    Check(result.status());
    return std::move(result).ValueUnsafe();
  }

  /// Runs a call of Arrow that may throw.
  template <class Call>
  auto Guard(const Call& call) const {
    try {
      return call();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& fault) {
      throw Error(code, fmt::format("{}: {}", where, fault.what()));
    }
  }
};

}  // namespace dp_bench::lerobot
