#include "serve/request_fields.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace dp_bench::serve {

const wire::Map& RequireMap(const wire::Value& value, std::string_view what) {
  if (const auto* const map = value.If<wire::Map>()) return *map;
  throw DataError("expected {}, a map, found {}", what, wire::Describe(value));
}

std::string ReadText(const wire::Map& map, std::string_view key,
                     std::optional<std::string> if_absent) {
  const wire::Value* const value = map.Find(key);
  if (value == nullptr && if_absent) return *if_absent;
  if (const auto* const text = map.Find<std::string>(key)) return *text;
  throw DataError("'{}': expected text, found {}", key,
                  value == nullptr ? "nothing" : wire::Describe(*value));
}

std::optional<std::uint64_t> ReadCount(const wire::Map& map, std::string_view key) {
  const wire::Value* const value = map.Find(key);
  if (value == nullptr || value->If<std::monostate>() != nullptr) return std::nullopt;
  if (const auto* const number = value->If<std::int64_t>(); number != nullptr && *number >= 0) {
    return static_cast<std::uint64_t>(*number);
  }
  if (const auto* const number = value->If<std::uint64_t>()) return *number;
  throw DataError("'{}': expected an integer from 0 on, found {}", key, wire::Describe(*value));
}

wire::Map Without(std::span<const std::string_view> keys, const wire::Map& map) {
  std::vector<wire::Map::Entry> rest;
  std::ranges::copy_if(map.entries(), std::back_inserter(rest), [&](const wire::Map::Entry& entry) {
    return std::ranges::find(keys, entry.first) == keys.end();
  });
  return wire::Map::OfDistinct(std::move(rest));
}

wire::NdArray ToArray(const ClientAnswer& answer) {
  return wire::CopyOf("<f4", answer.shape, std::as_bytes(std::span(answer.actions)));
}

net::Outgoing Pack(const wire::Value& value, wire::ArrayForm form) {
  return {.bytes = wire::Write(value, form)};
}

}  // namespace dp_bench::serve
