#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/errors.h"
#include "serve/protocol.h"
#include "serve/request_fields.h"

namespace dp_bench::serve {
namespace {

constexpr std::array<std::string_view, 6> kReserved = {"endpoint", "seed",       "step",
                                                       "batch",    "session_id", "sampling_params"};
constexpr std::size_t kMaxSessionBytes = 256;  // a connection keeps as many names as sessions

std::vector<wire::Map> ReadBatch(const wire::Value& batch) {
  const auto* const list = batch.If<wire::List>();
  if (list == nullptr || list->empty()) {
    throw DataError("'batch': expected a list of observations, found {}", wire::Describe(batch));
  }
  std::vector<wire::Map> observations;
  for (const wire::Value& entry : *list) {
    observations.push_back(RequireMap(entry, "an observation in 'batch'"));
  }
  return observations;
}

class OpenPi final : public Protocol {
 public:
  KeyMap DefaultKeys(const PolicySpec& spec) const override {
    KeyMap keys{.obs = {}, .actions = "actions", .instruction = "prompt"};
    for (const KeySpec& key : spec.shape_meta.obs) keys.obs.push_back({key, key.name});
    return keys;
  }

  std::optional<net::Outgoing> Greet(const wire::Map& metadata) const override {
    return Pack(metadata, wire::ArrayForm::kOpenPi);
  }

  void Read(const wire::Message& message, const wire::Map& /*metadata*/,
            ClientRequest* request) const override {
    const wire::Map& map = RequireMap(message.value, "an observation");
    const std::string endpoint = ReadText(map, "endpoint", "infer");
    if (endpoint == "reset") {
      request->kind = ClientRequest::Kind::kReset;
      request->said = {.bytes = "reset successful", .is_text = true};
    } else if (endpoint != "infer") {
      throw DataError("'endpoint': expected infer or reset, found '{}'", endpoint);
    }
    request->session = ReadText(map, "session_id", "");
    if (request->session.size() > kMaxSessionBytes) {
      throw DataError("'session_id': expected at most {} bytes, found {}", kMaxSessionBytes,
                      request->session.size());
    }
    request->seed = ReadCount(map, "seed");
    request->step = ReadCount(map, "step");
    const auto* const sampling = map.Find<wire::Map>("sampling_params");
    if (sampling != nullptr && !sampling->empty()) {
      throw DataError(
          "'sampling_params': this server samples as the checkpoint says; expected none");
    }
    if (request->kind == ClientRequest::Kind::kReset) return;
    if (const wire::Value* const batch = map.Find("batch")) {
      request->is_batch = true;
      request->observations = ReadBatch(*batch);
    } else {
      request->observations.push_back(Without(kReserved, map));
    }
  }

  net::Outgoing Reply(const ClientRequest& request, std::span<const ClientAnswer> answers,
                      const Timing& timing, std::string_view actions_key,
                      wire::ArrayForm form) const override {
    wire::List list;
    for (const ClientAnswer& answer : answers) {
      list.push_back(wire::Map{{std::string(actions_key), ToArray(answer)}});
    }
    const wire::Map times = {{"infer_ms", 1e3 * timing.plan_s}, {"queue_ms", 1e3 * timing.queue_s}};
    wire::Map reply;
    if (request.is_batch) {
      reply.Add("batch", std::move(list));
    } else {
      reply = std::get<wire::Map>(std::move(list.front()));
    }
    reply.Add("server_timing", times);
    return Pack(reply, form);
  }

  // openpi's client raises the text of a text frame, and can go on with the connection.
  net::Outgoing Refuse(const ClientRequest& /*request*/, Refusal why,
                       const std::string& text) const override {
    return {.bytes = fmt::format("{}: {}", Name(why), text), .is_text = true};
  }
};

}  // namespace

std::unique_ptr<Protocol> MakeOpenPi() { return std::make_unique<OpenPi>(); }

}  // namespace dp_bench::serve
