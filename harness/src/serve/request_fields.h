// What the readers of several protocols share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/server.h"
#include "serve/protocol.h"
#include "wire/message.h"
#include "wire/value.h"

namespace dp_bench::serve {

/// Throws Error{kData} unless it is a map. `what` names it.
const wire::Map& RequireMap(const wire::Value& value, std::string_view what);

/// A text that must be there, or may be absent. Throws Error{kData}.
std::string ReadText(const wire::Map& map, std::string_view key,
                     std::optional<std::string> if_absent = std::nullopt);

/// An integer from 0 on; nothing if it is absent or nil. Throws Error{kData}.
std::optional<std::uint64_t> ReadCount(const wire::Map& map, std::string_view key);

/// The map without these keys.
wire::Map Without(std::span<const std::string_view> keys, const wire::Map& map);

/// The actions as <f4.
wire::NdArray ToArray(const ClientAnswer& answer);

net::Outgoing Pack(const wire::Value& value, wire::ArrayForm form);

}  // namespace dp_bench::serve
