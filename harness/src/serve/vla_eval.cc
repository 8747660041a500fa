#include <fmt/format.h>

#include <utility>

#include "core/clock.h"
#include "core/errors.h"
#include "serve/protocol.h"
#include "serve/request_fields.h"

namespace dp_bench::serve {
namespace {

constexpr std::string_view kHarnessVersion = "0.8.0";
constexpr std::int64_t kProtocolVersion = 1;

wire::Map Frame(std::string_view type, wire::Map payload, const wire::Value& seq) {
  return {{"type", std::string(type)},
          {"payload", std::move(payload)},
          {"seq", seq},
          {"timestamp", core::UnixTime()}};
}

class VlaEval final : public Protocol {
 public:
  // Benchmarks send cameras by name, and one vector of all other numbers.
  KeyMap DefaultKeys(const PolicySpec& spec) const override {
    KeyMap keys{
        .obs = {}, .actions = "actions", .instruction = "task_description", .is_nested = true};
    std::int64_t first = 0;
    for (const KeySpec& key : spec.shape_meta.obs) {
      if (key.is_image()) {
        keys.obs.push_back({key, "images/" + key.name});
      } else if (key.shape.size() == 1) {
        keys.obs.push_back({.spec = key, .path = "state", .first = first});
        first += key.shape[0];
      } else {
        keys.obs.push_back({key, key.name});
      }
    }
    return keys;
  }

  bool gives_single_actions() const override { return true; }

  void Read(const wire::Message& message, const wire::Map& metadata,
            ClientRequest* request) const override {
    const wire::Map& map = RequireMap(message.value, "a message of vla-eval");
    const wire::Value* const seq = map.Find("seq");
    if (seq != nullptr) request->id = *seq;
    const std::string type = ReadText(map, "type");
    const wire::Value* const payload = map.Find("payload");
    if (payload == nullptr || map.Find<std::int64_t>("seq") == nullptr) {
      throw DataError("expected a message with type, payload, seq and timestamp");
    }
    if (type == "hello") {
      request->kind = ClientRequest::Kind::kSay;
      request->said = Pack(Frame("hello", Hello(metadata), *seq), wire::ArrayForm::kVlaEval);
    } else if (type == "observation") {
      request->observations.push_back(RequireMap(*payload, "the payload"));
    } else if (type == "episode_start") {
      request->kind = ClientRequest::Kind::kBegin;
      const auto* const task = RequireMap(*payload, "the payload").Find<wire::Map>("task");
      if (task != nullptr) request->seed = ReadCount(*task, "seed");
    } else if (type == "episode_end" || type == "error") {
      request->kind = ClientRequest::Kind::kNothing;
    } else {
      throw DataError(
          "'type': expected hello, observation, episode_start, episode_end or error, found '{}'",
          type);
    }
  }

  net::Outgoing Reply(const ClientRequest& request, std::span<const ClientAnswer> answers,
                      const Timing& /*timing*/, std::string_view actions_key,
                      wire::ArrayForm form) const override {
    return Pack(Frame("action", {{std::string(actions_key), ToArray(answers.front())}}, request.id),
                form);
  }

  net::Outgoing Refuse(const ClientRequest& request, Refusal why,
                       const std::string& text) const override {
    const auto* const seq = request.id.If<std::int64_t>();
    const bool is_begin = request.kind == ClientRequest::Kind::kBegin;
    const std::string error = fmt::format(
        "{}_failed: {}: {}", is_begin ? "episode_start" : "observation", Name(why), text);
    return Pack(Frame("error", {{"error", error}}, seq == nullptr ? 0 : *seq),
                wire::ArrayForm::kVlaEval);
  }

  std::optional<net::HttpAnswer> Health(std::string_view path) const override {
    if (path == "/health") {
      return net::HttpAnswer{.body = "{\"status\": \"ok\"}\n", .content_type = "application/json"};
    }
    if (path != "/config" && !path.starts_with("/config?")) return std::nullopt;
    return net::HttpAnswer{.body = "{\"applied\": {}, \"config\": {}}\n",
                           .content_type = "application/json"};
  }

 private:
  static wire::Map Hello(const wire::Map& metadata) {
    return {{"harness_version", std::string(kHarnessVersion)},
            {"protocol_version", kProtocolVersion},
            {"model_server", "dp_bench"},
            {"capabilities", wire::Map()},
            {"dp_bench", *metadata.Find("dp_bench")}};
  }
};

}  // namespace

std::unique_ptr<Protocol> MakeVlaEval() { return std::make_unique<VlaEval>(); }

}  // namespace dp_bench::serve
