#include "data/reader/keyed_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/console.h"
#include "core/errors.h"
#include "core/machine.h"
#include "core/thread_pool.h"

namespace dp_bench::reader {
namespace {

std::vector<std::string_view> NamesOf(const KeyConfigs& keys) {
  std::vector<std::string_view> names;
  for (const auto& [name, key] : keys) names.emplace_back(name);
  return names;
}

}  // namespace

std::optional<KeyType> ParseKeyType(std::string_view name) {
  for (const KeyType type : {KeyType::kLowDim, KeyType::kRgb, KeyType::kDepth}) {
    if (name == Name(type)) return type;
  }
  if (name == Name(KeyType::kTask)) return KeyType::kLowDim;  // recorded, it is numbers
  return std::nullopt;
}

KeyConfig ReadKeyConfig(const Config& key, const char* source, const char* source_help) {
  return {.source = key.GetOptional<std::string>(source, source_help).value_or(""),
          .type = ParseKeyType(
              key.GetChoice("type", {"auto", "low_dim", "rgb", "depth"},
                            "numbers, colour or depth images; auto is what the files say")),
          .begin = key.GetOptional<std::int64_t>(
              "begin", "first number of a step to take; low_dim only, none for 0"),
          .end = key.GetOptional<std::int64_t>(
              "end", "index after the last number to take; none for all")};
}

Slice SliceOf(const KeyConfig& config, std::int64_t n,
              const std::function<void(const std::string&)>& refuse) {
  const Slice slice{.begin = config.begin.value_or(0), .end = config.end.value_or(n)};
  if (slice.begin < 0 || slice.begin >= slice.end || slice.end > n) {
    refuse(
        fmt::format("elements {} to {} are no part of its {} per step", slice.begin, slice.end, n));
  }
  return slice;
}

KeyConfigs ReadKeyConfigs(const Config& params, const char* help,
                          const std::function<KeyConfig(const Config&)>& read,
                          std::string_view example) {
  KeyConfigs configs;
  if (!params.Has("keys")) return configs;
  const Config keys = params.Sub("keys", help);
  for (const std::string& name : keys.Keys()) configs[name] = read(keys.Sub(name));
  if (configs.contains(kAction)) return configs;
  throw ConfigError("{} needs the key 'action', such as {}", params.Where("keys"), example);
}

KeyConfigs CompleteKeys(const KeyConfigs& asked, const std::function<const KeyConfigs&()>& all,
                        const std::string& path, std::string_view source) {
  if (asked.empty()) return all();
  KeyConfigs complete = asked;
  for (auto& [name, key] : complete) {
    if (!key.source.empty()) continue;
    const auto full = all().find(name);
    if (full == all().end()) {
      throw ConfigError(
          "dataset key '{}': {} has no key of this name, and no {} is given for it; its keys are: "
          "{}",
          name, path, source, fmt::join(NamesOf(all()), ", "));
    }
    const bool has_channels = !key.names.empty() || key.is_sliced() || !key.shape.empty();
    KeyConfig own = has_channels ? key : full->second;
    own.source = full->second.source;
    if (key.type) own.type = key.type;
    if (key.mm_per_level) own.mm_per_level = key.mm_per_level;
    key = own;
  }
  return complete;
}

int NumDecoderThreads() { return core::ResolveThreadCount(0); }

double MemoryBudget::Counted(double bytes) const { return std::max(0.0, bytes - n_uncounted_); }

void MemoryBudget::Hold(double bytes, const std::string& what, double scratch) {
  const double needed = Counted(held_ + bytes + scratch);
  if (needed > limit_) {
    Refuse(scratch > 0.0
               ? fmt::format("{} takes {:.0f} bytes in memory and {:.0f} while a chunk is decoded",
                             what, bytes, scratch)
               : fmt::format("{} take {:.0f} bytes", what, bytes),
           needed);
  }
  const auto memory = static_cast<double>(core::MemoryOfMachine());
  if (bytes > memory) {
    throw DataError("{}: {:.0f} bytes are needed; this machine or its container has {:.0f}", what,
                    bytes, memory);
  }
  held_ += bytes;
}

void MemoryBudget::RequireMachineHas(double bytes) const {
  const auto memory = static_cast<double>(core::MemoryOfMachine());
  if (bytes <= memory) return;
  throw ConfigError(
      "dataset.params.memory_limit_mb is {:.6g}; this machine or its container has {:.0f}, and the "
      "images need more",
      limit_ / kBytesPerMb, memory / kBytesPerMb);
}

void MemoryBudget::Refuse(const std::string& what, double needed) const {
  throw ConfigError("dataset.params.memory_limit_mb is {:.6g}, but {}; expected {:.0f} or more",
                    limit_ / kBytesPerMb, what, std::ceil(needed / kBytesPerMb));
}

void InterleavePlanes(std::size_t step_bytes, std::span<std::byte> steps) {
  std::vector<std::byte> step(step_bytes);
  const std::size_t n_pixels = step_bytes / 3;
  for (std::size_t begin = 0; begin < steps.size(); begin += step_bytes) {
    std::memcpy(step.data(), steps.data() + begin, step_bytes);
    std::byte* to = steps.data() + begin;
    for (std::size_t i = 0; i < n_pixels; ++i) {
      *to++ = step[i];
      *to++ = step[n_pixels + i];
      *to++ = step[2 * n_pixels + i];
    }
  }
}

void KeyedDataset::DoRead(int index, std::int64_t begin, std::int64_t end,
                          std::span<std::byte> out) const {
  const auto key = static_cast<std::size_t>(index);
  const std::size_t key_bytes = spec_.keys[key].ByteSize();
  const Held& held = held_[key];
  if (held.steps == nullptr) return ReadImages(key, begin, end, out);

  const std::byte* from =
      held.steps->bytes().data() + static_cast<std::size_t>(begin) * held.step_bytes + held.offset;
  if (held.channels.empty() && key_bytes == held.step_bytes) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  for (std::byte* to = out.data(); begin < end; ++begin, from += held.step_bytes) {
    if (held.channels.empty()) {
      std::memcpy(to, from, key_bytes);
      to += key_bytes;
    }
    for (const std::size_t channel : held.channels) {
      std::memcpy(to, from + channel * sizeof(float), sizeof(float));
      to += sizeof(float);
    }
  }
}

void TellUser(std::string_view message) { core::LogInfo(message); }
void WarnUser(std::string_view message) { core::LogWarning(message); }

std::string ListFirst(std::span<const std::string> texts) {
  constexpr std::size_t kMaxListed = 20;
  const std::size_t n = std::min(texts.size(), kMaxListed);
  const std::string listed = fmt::format("{}", fmt::join(texts.first(n), "; "));
  return texts.size() == n ? listed : fmt::format("{}; and {} more", listed, texts.size() - n);
}

}  // namespace dp_bench::reader
