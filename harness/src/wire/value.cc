#include "wire/value.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/errors.h"

namespace dp_bench::wire {
namespace {

struct NamedType {
  DType dtype;
  std::string_view name;
};

constexpr std::array<NamedType, 6> kNamedTypes = {{{DType::kUInt8, "|u1"},
                                                   {DType::kUInt16, "<u2"},
                                                   {DType::kInt32, "<i4"},
                                                   {DType::kInt64, "<i8"},
                                                   {DType::kFloat32, "<f4"},
                                                   {DType::kFloat64, "<f8"}}};

template <class... T>
struct Cases : T... {
  using T::operator()...;
};
template <class... T>
Cases(T...) -> Cases<T...>;

}  // namespace

std::size_t NdArray::byte_size() const {
  // "<f4": the size follows the kind
  DPB_ASSERT(dtype.size() == 3);
  return static_cast<std::size_t>(NumElements(shape)) * static_cast<std::size_t>(dtype[2] - '0');
}

NdArray CopyOf(std::string_view dtype, Shape shape, std::span<const std::byte> bytes) {
  NdArray array = {.dtype = std::string(dtype), .shape = std::move(shape), .data = nullptr};
  DPB_ASSERT(array.byte_size() == bytes.size());
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  array.data = std::shared_ptr<const std::byte>(memory, memory.get());
  return array;
}

NdArray CopyOf(const Array& array) {
  return CopyOf(NumpyName(array.dtype()), array.shape(), array.bytes());
}

std::string_view NumpyName(DType dtype) {
  return std::ranges::find(kNamedTypes, dtype, &NamedType::dtype)->name;
}

std::optional<DType> FromNumpyName(std::string_view dtype) {
  const auto* const found = std::ranges::find(kNamedTypes, dtype, &NamedType::name);
  return found == kNamedTypes.end() ? std::nullopt : std::optional(found->dtype);
}

Map::Map(std::initializer_list<Entry> entries) {
  entries_.reserve(entries.size());
  for (const Entry& entry : entries) Add(entry.first, entry.second);
}

Map Map::OfDistinct(std::vector<Entry> entries) {
  Map map;
  map.entries_ = std::move(entries);
  return map;
}

const Value* Map::Find(std::string_view key) const {
  const auto found = std::ranges::find(entries_, key, &Entry::first);
  return found == entries_.end() ? nullptr : &found->second;
}

bool Map::empty() const { return entries_.empty(); }

void Map::Add(std::string key, Value value) {
  DPB_ASSERT(Find(key) == nullptr);
  entries_.emplace_back(std::move(key), std::move(value));
}

std::string Describe(const Value& value) {
  return std::visit(Cases{[](std::monostate) -> std::string { return "nothing"; },
                          [](bool is_true) -> std::string { return is_true ? "true" : "false"; },
                          [](double number) { return fmt::format("the number {}", number); },
                          [](const std::string&) -> std::string { return "text"; },
                          [](const Bytes& bytes) { return fmt::format("{} bytes", bytes.size()); },
                          [](const NdArray& array) {
                            return fmt::format("an array {} {}", array.dtype,
                                               ToString(array.shape));
                          },
                          [](const List& list) { return fmt::format("a list of {}", list.size()); },
                          [](const Map&) -> std::string { return "a map"; },
                          [](auto integer) { return fmt::format("the integer {}", integer); }},
                    static_cast<const Value::variant&>(value));
}

}  // namespace dp_bench::wire
