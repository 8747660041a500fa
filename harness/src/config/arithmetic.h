// Arithmetic on numbers of a config.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace dp_bench::config {

/// `a` op `b` for two JSON numbers; op is one of + - * / // %. Two integers give an integer, except
/// for a division with a remainder. // rounds down and the result of % has the sign of b, as in
/// Python. Throws Error{kConfig}, without a place, if a value is no number or is too large, and for
/// a division by zero.
nlohmann::json Calculate(const nlohmann::json& a, std::string_view op, const nlohmann::json& b);

}  // namespace dp_bench::config
