// How much an operator computes and how much data it moves, from the shapes of its operands.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::profile {

/// Floating-point operations of a matrix product or a convolution [FLOP], two per multiply-add.
/// Counted: aten::mm, addmm, bmm, baddbmm, convolution, convolution_backward, oneDNN's linear, and
/// our own kernels, which report themselves as dp_bench::product {w, x, ...} (2 · rows of w ·
/// numbers in x), dp_bench::attention and dp_bench::attention_backward {q, kv or none}, [B, T, d]
/// each. All other operators give nothing: element-wise loops, norms and reductions are not
/// counted.
std::optional<double> ProductFlops(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

/// The products of the operator `name` that ProductFlops counts, in words.
inline constexpr const char* kCountedProducts =
    "matrix products, convolutions and attention: two operations per multiply-add";

/// Bytes that operators read and write, each operand once. That is the least traffic when nothing
/// is cached; views and allocations move nothing.
class ByteCounter {
 public:
  /// Call it when the operator starts. It reads all its tensor arguments and writes those that it
  /// changes.
  double AtStart(const at::RecordFunction& call);

  /// Call it when the operator ends: it wrote its results.
  double AtEnd(const at::RecordFunction& call);

 private:
  // Facts from the schema of an operator.
  struct Traits {
    bool moves_nothing = false;
    bool is_mutable = false;
    std::vector<std::size_t> written;  // indices of arguments
  };

  const Traits& TraitsOf(const at::RecordFunction& call);

  std::map<std::string, Traits, std::less<>> traits_;  // by name and overload
};

}  // namespace dp_bench::profile
