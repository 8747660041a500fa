// Values of messages, for expectations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "wire/message.h"

namespace dp_bench::wire {

/// Whether both are the same to the bit; NaN equals itself.
inline bool AreSame(const Value& a, const Value& b);

inline bool AreSame(const NdArray& a, const NdArray& b) {
  const auto x = a.bytes();
  const auto y = b.bytes();
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::equal(x.begin(), x.end(), y.begin(), y.end());
}

inline bool AreSame(const Map& a, const Map& b) {
  const auto& x = a.entries();
  const auto& y = b.entries();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& i, const auto& j) {
    return i.first == j.first && AreSame(i.second, j.second);
  });
}

inline bool AreSame(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Value& i, const Value& j) { return AreSame(i, j); });
}

inline bool AreSame(const Value& a, const Value& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& content) {
        using T = std::decay_t<decltype(content)>;
        const T& other = *b.If<T>();
        if constexpr (std::is_same_v<T, double>) {
          return std::bit_cast<std::uint64_t>(content) == std::bit_cast<std::uint64_t>(other);
        } else if constexpr (std::is_same_v<T, NdArray> || std::is_same_v<T, List> ||
                             std::is_same_v<T, Map>) {
          return AreSame(content, other);
        } else {
          return content == other;
        }
      },
      static_cast<const Value::variant&>(a));
}

inline Message ReadBytes(std::string bytes) {
  return Read(std::make_shared<const std::string>(std::move(bytes)));
}

template <class T>
NdArray ArrayOf(std::string_view dtype, Shape shape, const std::vector<T>& numbers) {
  return CopyOf(dtype, std::move(shape), std::as_bytes(std::span(numbers)));
}

inline NdArray FloatArray(Shape shape, const std::vector<float>& numbers) {
  return ArrayOf("<f4", std::move(shape), numbers);
}

/// The numbers of an array <f4.
inline std::vector<float> FloatsIn(const NdArray& array) {
  std::vector<float> numbers(array.byte_size() / sizeof(float));
  std::memcpy(numbers.data(), array.data.get(), array.byte_size());
  return numbers;
}

}  // namespace dp_bench::wire
