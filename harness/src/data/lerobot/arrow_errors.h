// How calls of Arrow fail, and the memory that they may take.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "dp_bench/error.h"

namespace dp_bench::lerobot {

// Memory for one file; Arrow refuses to allocate more than the limit.
struct LimitedMemory {
  explicit LimitedMemory(std::int64_t limit) : pool(&counter, limit) {}

  arrow::ProxyMemoryPool counter{arrow::system_memory_pool()};
  arrow::CappedMemoryPool pool;
};

// Throws Error{code}, whose message is `where` and what Arrow says.
struct ArrowErrors {
  ErrorCode code;
  std::string where;

  void Check(const arrow::Status& status) const {
    if (!status.ok()) Fail(status.message());
  }

  template <class T>
  T Check(arrow::Result<T> result) const {
    Check(result.status());
    return std::move(result).ValueUnsafe();
  }

  // Runs a call of Arrow that may throw.
  template <class Call>
  auto Guard(const Call& call) const {
    try {
      return call();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& fault) {
      Fail(fault.what());
    }
  }

  [[noreturn]] void Fail(const std::string& what) const { throw Error(code, where + ": " + what); }
};

inline ArrowErrors ReadErrors(const std::string& where) { return {ErrorCode::kData, where}; }

}  // namespace dp_bench::lerobot
