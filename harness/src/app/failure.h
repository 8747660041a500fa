// The message and exit code for an exception that ends the program.
#pragma once

#include <exception>
#include <string>

namespace dp_bench::app {

struct Failure {
  std::string message;  // without "dp_bench: " in front
  int exit_code = 0;
};

/// System errors and lack of memory get a suitable message. Only other exceptions are called a bug.
Failure DescribeFailure(const std::exception& exception);

}  // namespace dp_bench::app
