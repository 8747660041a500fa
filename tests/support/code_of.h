// What a call throws, for expectations about errors.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "dp_bench/error.h"

namespace dp_bench {

/// The code of the Error that `call` throws, which must have a message; fails the test when nothing
/// is thrown.
inline ErrorCode CodeOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kInternal;
}

}  // namespace dp_bench
