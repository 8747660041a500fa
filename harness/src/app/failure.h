// What the user is told about an exception that ends the program, and its exit code.
#pragma once

#include <exception>
#include <string>

namespace dp_bench::app {

struct Failure {
  std::string message;  // without "dp_bench: " in front
  int exit_code = 0;
};

/// Refusals of the system and memory that ran out get a message of their own; only what remains is
/// called a bug.
Failure DescribeFailure(const std::exception& exception);

}  // namespace dp_bench::app
