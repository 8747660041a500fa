// What messages between a policy and its users consist of: MessagePack's values, and arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dp_bench/array.h"

namespace dp_bench::wire {

/// An array as numpy describes it: C order, little endian.
struct NdArray {
  std::string dtype;                      // numpy.dtype.str: "<f4", "|u1", "|b1"
  Shape shape;                            // [] is a single number
  std::shared_ptr<const std::byte> data;  // within a received message, or memory of its own

  std::size_t byte_size() const;
  std::span<const std::byte> bytes() const { return {data.get(), byte_size()}; }
};

/// An array in memory of its own.
NdArray CopyOf(std::string_view dtype, Shape shape, std::span<const std::byte> bytes);

/// The same from a host array.
NdArray CopyOf(const Array& array);

/// numpy's names: "<f4" for kFloat32. Nothing for a type that Array does not have ("<f2", "|b1").
std::string_view NumpyName(DType dtype);
std::optional<DType> FromNumpyName(std::string_view dtype);

class Value;

/// A map that keeps the order of its keys. MessagePack's maps may have keys of text or bytes; here
/// both are text.
class Map {
 public:
  using Entry = std::pair<std::string, Value>;

  Map() = default;
  Map(std::initializer_list<Entry> entries);

  /// The same from entries whose keys are known to differ.
  static Map OfDistinct(std::vector<Entry> entries);

  /// Null if there is no such key.
  const Value* Find(std::string_view key) const;

  /// The same; null also if its value is no T.
  template <class T>
  const T* Find(std::string_view key) const;

  /// Appends; the key must be new.
  void Add(std::string key, Value value);

  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const;

 private:
  std::vector<Entry> entries_;
};

using List = std::vector<Value>;
using Bytes = std::vector<std::byte>;

/// One value. Integers that fit are std::int64_t; larger ones std::uint64_t.
class Value : public std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double,
                                  std::string, Bytes, NdArray, List, Map> {
 public:
  using variant::variant;

  template <class T>
  const T* If() const {
    return std::get_if<T>(this);
  }
};

template <class T>
const T* Map::Find(std::string_view key) const {
  const Value* const value = Find(key);
  return value == nullptr ? nullptr : value->If<T>();
}

/// A number as a Value has it.
inline Value IntegerOf(std::uint64_t number) {
  if (number <= std::uint64_t{INT64_MAX}) return static_cast<std::int64_t>(number);
  return number;
}

/// "a map", "an array <f4 [2, 3]", "text": for messages.
std::string Describe(const Value& value);

}  // namespace dp_bench::wire
