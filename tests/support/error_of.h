// The error that a call throws, for expectations.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench {

/// The message of the Error that `call` throws. Fails the test if its code is not `code` or nothing
/// is thrown.
inline std::string MessageOf(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// The code of the Error that `call` throws, which must have a message. Fails the test if nothing
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
