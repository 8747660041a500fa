// Which parts of a client's message are the observations of a policy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/spec.h"
#include "wire/value.h"

namespace dp_bench::serve {

/// Where the numbers of one key of shape_meta.obs are in a message.
struct InputKey {
  KeySpec spec;
  std::string path;  // "observation/image": a key, or keys of nested maps with '/' between them
  bool is_channels_first = false;  // images: [C, H, W] instead of [H, W, C]
  /// Height and width of rgb images in the message; none: those of the policy. They are resized.
  std::optional<std::array<std::int64_t, 2>> size;
  /// Of the array's last dimension, if the key is only a part of it: [first, first + D).
  std::optional<std::int64_t> first;

  /// Of one step in a message, if the key is not a part of an array.
  Shape MessageShape() const;
};

/// The names of a protocol. Paths and names are part of what a server promises its clients
/// (Metadata), so nothing is guessed: what a message lacks, or has too much, is refused by name.
struct KeyMap {
  std::vector<InputKey> obs;
  std::string actions = "actions";
  std::string instruction;           // the path of what to do, in words; the server ignores it
  bool is_nested = false;            // '/' in a path: of a map in a map
  std::vector<std::string> ignored;  // paths that a message may have and the policy does not read

  /// Reads {"obs": {"image": {"key": "observation/image", "layout": "chw", "size": [224, 224]},
  /// "agent_pos": {"key": "state", "first": 0}}, "actions": "actions", "instruction": "prompt",
  /// "nested": false, "ignored": ["tag"]}; what is absent is as in `defaults`. Throws
  /// Error{kConfig}.
  static KeyMap FromConfig(const Config& config, const KeyMap& defaults);
};

/// The value at a path; null if there is none. A key that is the whole rest of the path comes
/// first, because keys may contain '/'.
const wire::Value* FindPath(const wire::Map& map, std::string_view path);

/// Everything that clients need to know of the keys, for the metadata.
wire::Map Describe(const KeyMap& keys);

}  // namespace dp_bench::serve
