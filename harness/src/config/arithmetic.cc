#include "config/arithmetic.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "config/json_source.h"
#include "dp_bench/error.h"

namespace dp_bench::config {
namespace {

using Json = nlohmann::json;

[[noreturn]] void ThrowTooLarge(const Json& a, std::string_view op, const Json& b) {
  throw Error(ErrorCode::kConfig,
              fmt::format("the result of {} {} {} is too large", a.dump(), op, b.dump()));
}

void RequireNumber(const Json& value) {
  if (!value.is_number()) {
    throw Error(ErrorCode::kConfig,
                fmt::format("expected a number in the calculation, found {}", Describe(value)));
  }
  const bool is_huge =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (is_huge) {
    throw Error(
        ErrorCode::kConfig,
        fmt::format("expected a number below 2^63 in the calculation, found {}", value.dump()));
  }
}

Json OfIntegers(std::int64_t a, std::string_view op, std::int64_t b) {
  std::int64_t result = 0;
  bool is_too_large = false;
  if (op == "+") {
    is_too_large = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    is_too_large = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    is_too_large = __builtin_mul_overflow(a, b, &result);
  } else if (b == -1) {  // a / b may be too large, and a % b is undefined then
    if (op == "%") return 0;
    is_too_large = __builtin_sub_overflow(std::int64_t{0}, a, &result);
  } else {
    const std::int64_t rest = a % b;
    const bool rounds_up = rest != 0 && (rest < 0) != (b < 0);
    if (op == "%") return rounds_up ? rest + b : rest;
    if (op == "/" && rest != 0) return static_cast<double>(a) / static_cast<double>(b);
    result = a / b - (rounds_up ? 1 : 0);
  }
  if (is_too_large) ThrowTooLarge(a, op, b);
  return result;
}

Json OfNumbers(double a, std::string_view op, double b) {
  double result = 0.0;
  if (op == "+") result = a + b;
  if (op == "-") result = a - b;
  if (op == "*") result = a * b;
  if (op == "/") result = a / b;
  if (op == "//") result = std::floor(a / b);
  if (op == "%") {
    result = std::fmod(a, b);
    if (result != 0.0 && (result < 0.0) != (b < 0.0)) result += b;
  }
  if (!std::isfinite(result)) ThrowTooLarge(a, op, b);
  return result;
}

}  // namespace

Json Calculate(const Json& a, std::string_view op, const Json& b) {
  RequireNumber(a);
  RequireNumber(b);
  const bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b.get<double>() == 0.0) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} {} {} is a division by zero", a.dump(), op, b.dump()));
  }
  if (a.is_number_integer() && b.is_number_integer()) {
    return OfIntegers(a.get<std::int64_t>(), op, b.get<std::int64_t>());
  }
  return OfNumbers(a.get<double>(), op, b.get<double>());
}

}  // namespace dp_bench::config
