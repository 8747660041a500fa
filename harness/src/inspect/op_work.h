// How much an operator computes and moves, from the shapes of its operands.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::inspect {

/// Multiplications and additions of a matrix product or a convolution [FLOP], two per multiply-add.
/// Counted: aten::mm, addmm, bmm, baddbmm, convolution, convolution_backward, oneDNN's linear, and
/// our own kernels, which call themselves dp_bench::product {w, x, ...} (2 · rows of w · numbers in
/// x) and dp_bench::attention
/// and dp_bench::attention_backward {q, kv or none}, [B, T, d] each. None for all others: loops
/// over elements, norms and reductions are not counted.
std::optional<double> ProductFlops(std::string_view name, c10::ArrayRef<const c10::IValue> inputs);

/// What the operator `name` multiplies, as ProductFlops counts it, for people.
inline constexpr const char* kCountedProducts =
    "matrix products, convolutions and attention: two operations per multiply-add";

/// Bytes that operators read and write: every operand once. That is what must at least be moved
/// when nothing lies in a cache; views and allocations move nothing.
class ByteCounter {
 public:
  /// To be called where the operator starts. Reads: all tensors that are given to it; writes: those
  /// that it changes.
  double AtStart(const at::RecordFunction& call);

  /// To be called where it ends: what it made.
  double AtEnd(const at::RecordFunction& call);

 private:
  // What the schema of an operator says.
  struct Traits {
    bool moves_nothing = false;
    bool is_mutable = false;
    std::vector<std::size_t> written;  // arguments
  };

  const Traits& TraitsOf(const at::RecordFunction& call);

  std::map<std::string, Traits, std::less<>> traits_;  // by name and overload
};

}  // namespace dp_bench::inspect
