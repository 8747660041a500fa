// What host and env process say to each other. Requests and answers go over a socket, one packet
// each; arrays, pictures and texts lie in shared memory (memory_layout.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"

namespace dp_bench::plugin {

enum class EnvCommand : std::uint32_t {
  kDescribe,
  kCreate,
  kReset,
  kStep,
  kObserve,
  kRender,
  kGetState,
  kSetState,
  kBegin,
  kAct,
  kPointerAction,
  kCameraParameters,
  kRenderCamera,
  kStateMarks,
  kActionMarks,
  kQuit,
};

/// "Step", "Expert::Act": as the plugin guard calls it.
const char* Name(EnvCommand command);

struct Request {
  EnvCommand command = EnvCommand::kQuit;
  std::int32_t camera = 0;
  std::int32_t width = 0;  // of a frame or of the picture with marks [px]
  std::int32_t height = 0;
  std::uint64_t seed = 0;
  double x = 0.0;  // of a pointer
  double y = 0.0;
  std::uint64_t input_size = 0;   // bytes at the beginning of the shared memory
  std::uint64_t bulk_offset = 0;  // where texts and pictures of the answer go
  std::uint64_t memory_size = 0;  // of the shared memory
};

inline constexpr std::int32_t kNoError = -1;

struct Answer {
  std::int32_t error_code = kNoError;  // an ErrorCode; its message is in bulk
  bool terminated = false;
  bool success = false;
  double reward = 0.0;
  std::uint64_t size = 0;  // bytes of the metrics in output, or of text or marks in bulk
};

/// The answer to kDescribe and kCreate.
struct EnvOffer {
  EnvSpec spec;
  nlohmann::json params;  // with the defaults that the plugin filled in
};

/// As bytes, in CBOR: numbers keep every bit. Reading throws nlohmann::json::exception for what is
/// no such message.
std::vector<std::uint8_t> Encode(const EnvOffer& offer);
EnvOffer DecodeOffer(std::span<const std::byte> bytes);
std::vector<std::uint8_t> Encode(const CameraParameters& camera);
CameraParameters DecodeCamera(std::span<const std::byte> bytes);

// A config that another process reads: there its errors name the same file, line and key, and here
// it counts as read as it was there.

/// The values of `config` and where each was written.
nlohmann::json TransferConfig(const Config& config);

/// The config that TransferConfig was given. Throws nlohmann::json::exception for what is none.
Config ReceiveConfig(const nlohmann::json& transfer);

/// Reads every key of `read`, the other process's `Config::ToJson`: what it does not know is
/// recorded as a default.
void AdoptReads(const Config& config, const nlohmann::json& read);

}  // namespace dp_bench::plugin
