// The messages between host and env process. Requests and answers go over a socket, one packet
// each; arrays, images and texts are in shared memory (shared_memory.h). The process is
// dp_bench_env_worker, or the program of a hosted env (dp_bench/hosted_env.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KeySpec, name, type, shape, dtype)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShapeMeta, obs, action)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricSpec, name, aggregate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PerturbationSpec, name, low, high, strength, is_visual)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnvAbilities, state_size, has_expert, has_pointer_control,
                                   cameras, n_marks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnvSpec, shape_meta, action_low, action_high, control_hz,
                                   max_steps, metrics, moves_without_actions, tasks, obs_modes,
                                   instruction, perturbations, abilities)

namespace plugin {

enum class EnvCommand : std::uint32_t {
  kQuit,
  kDescribe,
  kCreate,
  kReset,
  kStep,
  kObserve,
  kRender,
  kGetState,
  kSetState,
  kBeginExpert,
  kAct,
  kPointerAction,
  kGetCamera,
  kRenderCamera,
  kMarks,
};

/// The names of the calls, in the same order.
inline constexpr const char* kEnvCommandNames[] = {
    "its end", "Describe",      "Create",    "Reset",        "Step",
    "Observe", "Render",        "GetState",  "SetState",     "BeginExpert",
    "Act",     "PointerAction", "GetCamera", "RenderCamera", "Marks"};
inline const char* Name(EnvCommand command) {
  return kEnvCommandNames[static_cast<std::size_t>(command)];
}

// Both structs have the layout of C on x86-64 and AArch64. Programs in other languages read them
// byte by byte: plugins/envs/gymnasium/gym_host.py.

struct Request {
  EnvCommand command = EnvCommand::kQuit;
  std::int32_t camera = 0;
  std::int32_t width = 0;  // of a frame or of the image with marks [px]
  std::int32_t height = 0;
  std::uint64_t seed = 0;
  double x = 0.0;  // of a pointer
  double y = 0.0;
  std::uint64_t input_size = 0;     // bytes at the beginning of the shared memory
  std::uint64_t output_offset = 0;  // where the result goes
  std::uint64_t memory_size = 0;    // of the shared memory
};
static_assert(sizeof(Request) == 64);

inline constexpr std::int32_t kNoError = -1;

struct Answer {
  std::int32_t error_code = kNoError;  // an ErrorCode; its message is the output
  bool terminated = false;
  bool success = false;
  bool has_observation = false;  // of Reset and Step: it is there, so that Observe asks nothing
  double reward = 0.0;
  std::uint64_t size = 0;  // of the output, if it is metrics or text
};
static_assert(sizeof(Answer) == 24);

/// The answer to kDescribe and kCreate.
struct EnvOffer {
  EnvSpec spec;
  std::string params;  // as JSON text, with the defaults that the plugin filled in
};

/// Messages as bytes in CBOR, which keeps every bit of a number; offers of hosts in Python are JSON
/// text, as exact. Abilities that an offer does not name are not offered. Decoding throws
/// nlohmann::json::exception for other bytes.
std::vector<std::uint8_t> Encode(const EnvOffer& offer);
EnvOffer DecodeOffer(std::span<const std::byte> bytes);
std::vector<std::uint8_t> Encode(const CameraParameters& camera);
CameraParameters DecodeCamera(std::span<const std::byte> bytes);

// A config that another process reads. Errors there name the same file, line and key.

/// The values of `config` and where each was written.
nlohmann::json TransferConfig(const Config& config);

/// The config that was given to TransferConfig. Throws nlohmann::json::exception for other JSON.
Config ReceiveConfig(const nlohmann::json& transfer);

}  // namespace plugin
}  // namespace dp_bench
