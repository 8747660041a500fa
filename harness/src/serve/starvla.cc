#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/errors.h"
#include "serve/protocol.h"
#include "serve/request_fields.h"

namespace dp_bench::serve {
namespace {

constexpr std::array<std::string_view, 4> kEnvelope = {"type", "request_id", "seed", "step"};

class StarVla final : public Protocol {
 public:
  KeyMap DefaultKeys(const PolicySpec& spec) const override {
    KeyMap keys{.obs = {},
                .actions = "actions",
                .instruction = "prompt",
                .ignored = {"lang", "unnorm_key"}};
    for (const KeySpec& key : spec.shape_meta.obs) keys.obs.push_back({key, key.name});
    return keys;
  }

  std::optional<net::Outgoing> Greet(const wire::Map& metadata) const override {
    wire::Map greeting = metadata;
    greeting.Add("action_chunk_size", *metadata.Find("action_horizon"));
    greeting.Add("available_unnorm_keys", wire::List());
    return Pack(greeting, wire::ArrayForm::kOpenPi);
  }

  void Read(const wire::Message& message, const wire::Map& /*metadata*/,
            ClientRequest* request) const override {
    const wire::Map& map = RequireMap(message.value, "a request");
    if (const wire::Value* const id = map.Find("request_id")) request->id = *id;
    const std::string type = ReadText(map, "type", "infer");
    if (type == "ping") {
      request->kind = ClientRequest::Kind::kSay;
      request->said = Pack(Envelope("pong", request->id, {}),
                           message.array_form.value_or(wire::ArrayForm::kOpenPi));
      return;
    }
    if (type != "infer" && type != "predict_action") {
      throw DataError("'type': expected ping, infer or predict_action, found '{}'", type);
    }
    const wire::Value* const payload = map.Find("payload");
    const wire::Map& observation = payload == nullptr ? map : RequireMap(*payload, "the payload");
    request->seed = ReadCount(observation, "seed");
    request->step = ReadCount(observation, "step");
    request->observations.push_back(Without(kEnvelope, observation));
  }

  net::Outgoing Reply(const ClientRequest& request, std::span<const ClientAnswer> answers,
                      const Timing& /*timing*/, std::string_view actions_key,
                      wire::ArrayForm form) const override {
    ClientAnswer answer = answers.front();
    if (answer.shape.size() == 2) answer.shape.insert(answer.shape.begin(), 1);
    return Pack(
        Envelope("inference_result", request.id, {{std::string(actions_key), ToArray(answer)}}),
        form);
  }

  net::Outgoing Refuse(const ClientRequest& request, Refusal why,
                       const std::string& text) const override {
    return Pack(
        wire::Map{{"status", "error"},
                  {"ok", false},
                  {"request_id", request.id},
                  {"error", wire::Map{{"message", fmt::format("{}: {}", Name(why), text)}}}},
        wire::ArrayForm::kOpenPi);
  }

 private:
  static wire::Map Envelope(std::string_view type, const wire::Value& id, wire::Map data) {
    return {{"status", "ok"},
            {"ok", true},
            {"type", std::string(type)},
            {"request_id", id},
            {"data", std::move(data)}};
  }
};

}  // namespace

std::unique_ptr<Protocol> MakeStarVla() { return std::make_unique<StarVla>(); }

}  // namespace dp_bench::serve
