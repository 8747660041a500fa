// What clients and a policy server say to each other, in the words of one protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/spec.h"
#include "net/server.h"
#include "serve/key_map.h"
#include "wire/message.h"
#include "wire/value.h"

namespace dp_bench::serve {

/// What a server tells about its policy.
struct PolicyInfo {
  std::string name;               // of the policy plugin
  std::string checkpoint_sha256;  // of its manifest
  PolicySpec spec;
  int micro_batch = 1;
};

/// What a message asks for.
struct ClientRequest {
  enum class Kind {
    kInfer,    // an answer with actions
    kReset,    // a new episode, acknowledged with `said`
    kBegin,    // a new episode, not acknowledged
    kNothing,  // no answer
    kSay,      // `said` is the answer
  };

  Kind kind = Kind::kInfer;
  std::vector<wire::Map> observations;  // one may have several rows
  bool is_batch = false;                // answered as a list
  std::string session;                  // of several in one connection
  std::optional<std::uint64_t> seed;
  std::optional<std::uint64_t> step;
  wire::Value id;  // comes back in the answer
  net::Outgoing said;
};

/// Why a request has no actions.
enum class Refusal { kBadRequest, kOverloaded, kFailed };

std::string_view Name(Refusal refusal);  // "bad_request", ...

/// The actions for one observation.
struct ClientAnswer {
  Shape shape;                 // [Ta, Da], [Da], or with rows in front
  std::vector<float> actions;  // in raw units
};

struct Timing {
  double queue_s = 0.0;
  double plan_s = 0.0;
};

class Protocol {
 public:
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;
  virtual ~Protocol() = default;

  /// The server that speaks it; see net.
  virtual std::unique_ptr<net::Server> MakeServer(const net::ServerOptions& options) const {
    return net::MakeWebSocketServer(options);
  }
  virtual std::string_view scheme() const { return "ws"; }

  /// Where messages have what the policy observes, if nobody says otherwise.
  virtual KeyMap DefaultKeys(const PolicySpec& spec) const = 0;

  /// Whether a client gets one action per message, of a chunk that the server keeps.
  virtual bool gives_single_actions() const { return false; }

  virtual std::optional<net::Outgoing> Greet(const wire::Map& /*metadata*/) const {
    return std::nullopt;
  }

  /// Throws Error{kData} for what is no request; `request` then has what was read before, so that
  /// the refusal is known to be the answer to it.
  virtual void Read(const wire::Message& message, const wire::Map& metadata,
                    ClientRequest* request) const = 0;

  virtual net::Outgoing Reply(const ClientRequest& request, std::span<const ClientAnswer> answers,
                              const Timing& timing, std::string_view actions_key,
                              wire::ArrayForm form) const = 0;
  virtual net::Outgoing Refuse(const ClientRequest& request, Refusal why,
                               const std::string& text) const = 0;

  /// The page that tells whether the server is well, /healthz by default; of others, nothing.
  virtual std::optional<net::HttpAnswer> Health(std::string_view path) const;

 protected:
  Protocol() = default;
};

/// openpi's WebSocket protocol (https://github.com/Physical-Intelligence/openpi) as openpi-client
/// 0.1.2 speaks it, and what RoboArena and vLLM-Omni add to it: "endpoint" (infer, reset), "seed",
/// "session_id", "batch". "step" is ours.
std::unique_ptr<Protocol> MakeOpenPi();

/// vla-eval 0.8.0 (protocol version 1): one observation, one action; "state" has all low_dim keys,
/// in alphabetical order. "seed" of an episode's task is ours.
std::unique_ptr<Protocol> MakeVlaEval();

/// starVLA's WebSocket protocol. "seed" and "step" of the payload are ours.
std::unique_ptr<Protocol> MakeStarVla();

/// Isaac-GR00T's ZeroMQ protocol, N1.6 and N1.7. `api_key` is what "api_token" must be; "": none.
/// "seed" and "step" of "options" are ours.
std::unique_ptr<Protocol> MakeGroot(std::string api_key);

/// The protocol with this name: openpi, vla_eval, groot, starvla. Throws Error{kConfig}.
std::unique_ptr<Protocol> MakeProtocol(std::string_view name, const std::string& api_key);

/// The metadata of openpi's and other greetings: {"dp_bench": {...}, "action_horizon": ...}.
/// Clients that get chunks are told the coefficient of temporal ensembling, which is left to them.
wire::Map Metadata(const PolicyInfo& info, const KeyMap& keys, const Protocol& protocol);

}  // namespace dp_bench::serve
