#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/errors.h"
#include "serve/protocol.h"
#include "serve/request_fields.h"

namespace dp_bench::serve {
namespace {

wire::Value ModalityConfig(const std::vector<std::string>& keys, std::int64_t first,
                           std::int64_t last) {
  wire::List steps;
  for (std::int64_t step = first; step <= last; ++step) steps.emplace_back(step);
  wire::List names(keys.begin(), keys.end());
  return wire::Map{{"__ModalityConfig_class__", true},
                   {"as_json", wire::Map{{"delta_indices", std::move(steps)},
                                         {"modality_keys", std::move(names)}}}};
}

class Groot final : public Protocol {
 public:
  explicit Groot(std::string api_key) : api_key_(std::move(api_key)) {}

  std::unique_ptr<net::Server> MakeServer(const net::ServerOptions& options) const override {
    const std::string text =
        fmt::format("the server has {} clients already; try again later (serve --max-clients)",
                    options.max_clients);
    return net::MakeZmqServer(options, Refuse({}, Refusal::kOverloaded, text).bytes);
  }
  std::string_view scheme() const override { return "tcp"; }

  KeyMap DefaultKeys(const PolicySpec& spec) const override {
    KeyMap keys{.obs = {},
                .actions = "action",
                .instruction = "language/task",
                .is_nested = true,
                .ignored = {"language", "annotation"}};
    for (const KeySpec& key : spec.shape_meta.obs) {
      const bool is_image = key.is_image();
      keys.obs.push_back({key, (is_image ? "video/" : "state/") + key.name});
    }
    return keys;
  }

  void Read(const wire::Message& message, const wire::Map& metadata,
            ClientRequest* request) const override {
    const wire::Map& map = RequireMap(message.value, "a request");
    if (!api_key_.empty() && !net::SameSecret(api_key_, ReadText(map, "api_token", ""))) {
      throw DataError("expected the server's key in 'api_token'");
    }
    const std::string endpoint = ReadText(map, "endpoint", "get_action");
    const wire::Value* const data_value = map.Find("data");
    const wire::Map none;
    const wire::Map& data = data_value == nullptr || data_value->If<std::monostate>() != nullptr
                                ? none
                                : RequireMap(*data_value, "'data'");
    if (const auto* const options = data.Find<wire::Map>("options")) {
      request->seed = ReadCount(*options, "seed");
      request->step = ReadCount(*options, "step");
    }
    if (endpoint == "get_action") {
      const wire::Value* const observation = data.Find("observation");
      if (observation == nullptr) throw DataError("'data' has no 'observation'");
      request->observations.push_back(RequireMap(*observation, "'observation'"));
    } else if (endpoint == "reset") {
      request->kind = ClientRequest::Kind::kReset;
      request->said = Pack(wire::Map(), wire::ArrayForm::kMsgpackNumpy);
    } else if (endpoint == "ping" || endpoint == "get_modality_config") {
      request->kind = ClientRequest::Kind::kSay;
      request->said =
          Pack(endpoint == "ping" ? wire::Map{{"status", "ok"}, {"message", "Server is running"}}
                                  : Modalities(metadata),
               wire::ArrayForm::kMsgpackNumpy);
    } else {
      throw DataError(
          "'endpoint': expected get_action, reset, ping or get_modality_config, found '{}'",
          endpoint);
    }
  }

  net::Outgoing Reply(const ClientRequest& /*request*/, std::span<const ClientAnswer> answers,
                      const Timing& timing, std::string_view actions_key,
                      wire::ArrayForm form) const override {
    ClientAnswer answer = answers.front();
    if (answer.shape.size() == 2) answer.shape.insert(answer.shape.begin(), 1);
    return Pack(wire::List{wire::Map{{std::string(actions_key), ToArray(answer)}},
                           wire::Map{{"infer_ms", 1e3 * timing.plan_s}}},
                form);
  }

  net::Outgoing Refuse(const ClientRequest& /*request*/, Refusal why,
                       const std::string& text) const override {
    return Pack(wire::Map{{"error", fmt::format("{}: {}", Name(why), text)}},
                wire::ArrayForm::kMsgpackNumpy);
  }

 private:
  // What an observation has in a modality, each array once: several keys may be parts of it.
  static std::vector<std::string> NamesIn(std::string_view modality, const wire::Map& obs) {
    std::vector<std::string> names;
    for (const auto& [key, entry] : obs.entries()) {
      const auto& path = *entry.If<wire::Map>()->Find<std::string>("key");
      if (!path.starts_with(modality)) continue;
      const std::string name = path.substr(modality.size());
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return names;
  }

  // Which keys an observation has, and which steps: 0 is the current one.
  static wire::Map Modalities(const wire::Map& metadata) {
    const wire::Map& own = *metadata.Find<wire::Map>("dp_bench");
    const auto count = [&](std::string_view key) { return *own.Find<std::int64_t>(key); };
    const wire::Map& keys = *own.Find<wire::Map>("keys");
    const wire::Map& obs = *keys.Find<wire::Map>("obs");
    const std::int64_t oldest = 1 - count("n_obs_steps");
    const std::string actions = *keys.Find<std::string>("actions");
    return {{"video", ModalityConfig(NamesIn("video/", obs), oldest, 0)},
            {"state", ModalityConfig(NamesIn("state/", obs), oldest, 0)},
            {"action", ModalityConfig({actions}, 0, count("n_action_steps") - 1)},
            {"language", ModalityConfig({}, 0, 0)}};
  }

  std::string api_key_;
};

}  // namespace

std::unique_ptr<Protocol> MakeGroot(std::string api_key) {
  return std::make_unique<Groot>(std::move(api_key));
}

}  // namespace dp_bench::serve
