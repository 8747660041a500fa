#include "plugin/buffer_guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/errors.h"

namespace dp_bench::plugin {
namespace {

constexpr std::size_t kGuardSize = 64;  // before and after each buffer [bytes]
constexpr std::byte kGuardByte{0xA5};

// In float32 numbers: a NaN that no computation gives.
constexpr std::uint32_t kUnwritten = 0x7FB1A5ED;

// In images: a pattern that is equal to a written byte by chance only, once in 256. Of 64
// neighbours, 16 are not equal by chance in the lifetime of a machine.
constexpr std::size_t kBlock = 64;
constexpr std::ptrdiff_t kMaxEqual = 16;

constexpr std::array<std::byte, kGuardSize> MakeGuardBytes() {
  std::array<std::byte, kGuardSize> bytes{};
  bytes.fill(kGuardByte);
  return bytes;
}
constexpr std::array<std::byte, kGuardSize> kGuardBytes = MakeGuardBytes();

constexpr std::byte PatternAt(std::size_t i) { return static_cast<std::byte>(i * 167 + 13); }

std::size_t AlignedToGuard(std::size_t size) {
  return (size + kGuardSize - 1) / kGuardSize * kGuardSize;
}

std::span<float> FloatsOf(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::uint32_t BitsOf(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void FillPattern(const KeySpec& key, std::span<std::byte> buffer) {
  if (key.dtype == DType::kFloat32) {
    for (float& value : FloatsOf(buffer)) std::memcpy(&value, &kUnwritten, sizeof(value));
  } else {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = PatternAt(i);
  }
}

void RequireFinite(const KeySpec& key, std::span<const float> values) {
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return;
  const auto at = bad - values.begin();
  if (BitsOf(*bad) == kUnwritten) {
    throw PluginError(
        "'{}': expected {} numbers, found number {} unwritten. Write every element of every key, "
        "each time.",
        key.name, values.size(), at);
  }
  throw NumericError(
      "'{}': expected finite numbers, found {} in number {} of {}. Look at the state of the "
      "simulation.",
      key.name, *bad, at, values.size());
}

void RequireWritten(const KeySpec& key, std::span<const std::byte> image) {
  for (std::size_t begin = 0; begin < image.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, image.size());
    std::ptrdiff_t n_equal = 0;
    for (std::size_t i = begin; i < end; ++i) n_equal += image[i] == PatternAt(i) ? 1 : 0;
    if (n_equal < kMaxEqual) continue;
    throw PluginError(
        "'{}': expected {} bytes, {} {}, found bytes unwritten between {} and {}. Observe must "
        "write every element of every key, each time.",
        key.name, image.size(), ToString(key.StorageShape()), Name(key.dtype), begin, end);
  }
}

}  // namespace

BufferGuard::BufferGuard(std::span<const KeySpec> keys) : keys_(keys) {
  std::size_t size = 0;
  for (const KeySpec& key : keys_) size += AlignedToGuard(key.ByteSize()) + 2 * kGuardSize;
  memory_.resize(size);
  std::size_t begin = kGuardSize;
  for (const KeySpec& key : keys_) {
    own_.push_back(std::span(memory_).subspan(begin, key.ByteSize()));
    begin += AlignedToGuard(key.ByteSize()) + 2 * kGuardSize;
  }
  offered_ = own_;
  FillGuardBytes();
}

void BufferGuard::FillGuardBytes() {
  for (const std::span<std::byte> buffer : own_) {
    std::ranges::copy(kGuardBytes, buffer.data() - kGuardSize);
    std::ranges::copy(kGuardBytes, buffer.data() + buffer.size());
  }
}

void BufferGuard::Prepare(std::span<const std::span<std::byte>> out) {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    offered_[i] = IsChecked(i) ? own_[i] : out[i];
    if (IsChecked(i)) FillPattern(keys_[i], own_[i]);
  }
}

void BufferGuard::Finish(std::span<const std::span<std::byte>> out) {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (IsChecked(i)) RequireGuardBytes(i);
    if (keys_[i].dtype == DType::kFloat32) {
      RequireFinite(keys_[i], FloatsOf(offered_[i]));
    } else if (IsChecked(i)) {
      RequireWritten(keys_[i], offered_[i]);
    }
    if (IsChecked(i)) std::ranges::copy(own_[i], out[i].begin());
  }
  checks_images_ = false;
}

void BufferGuard::RequireGuardBytes(std::size_t key) {
  const std::span<std::byte> buffer = own_[key];
  const auto is_intact = [](const std::byte* zone) {
    return std::memcmp(zone, kGuardBytes.data(), kGuardSize) == 0;
  };
  const bool is_intact_before = is_intact(buffer.data() - kGuardSize);
  if (is_intact_before && is_intact(buffer.data() + buffer.size())) return;
  FillGuardBytes();
  throw PluginError(
      "'{}': expected {} bytes, {} {}, found a write {} them. Stay within the given span.",
      keys_[key].name, buffer.size(), ToString(keys_[key].StorageShape()), Name(keys_[key].dtype),
      is_intact_before ? "after" : "before");
}

}  // namespace dp_bench::plugin
