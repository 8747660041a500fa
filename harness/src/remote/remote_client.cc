#include "remote/remote_client.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "remote/policy_client.h"

namespace dp_bench::remote {
namespace {

std::chrono::milliseconds Seconds(const Config& params, std::string_view key, double by_default,
                                  const char* meaning) {
  const double seconds = params.GetInRange(key, by_default, 0.001, 86400.0, meaning);
  return std::chrono::milliseconds(std::llround(1e3 * seconds));
}

PolicyClientOptions ReadOptions(const Config& params) {
  PolicyClientOptions options;
  options.url = params.Require<std::string>("url", "of the policy server: ws://127.0.0.1:8000");
  const auto variable = params.Get<std::string>("api_key_variable", "DP_BENCH_API_KEY",
                                                "environment variable with the server's key");
  if (const char* const key = std::getenv(variable.c_str())) options.api_key = key;
  options.n_connections = static_cast<int>(
      params.GetInRange("n_connections", std::int64_t{8}, 1, 1024, "asked at the same time"));
  options.n_retries = static_cast<int>(
      params.GetInRange("n_retries", std::int64_t{2}, 0, 1000, "of a question without an answer"));
  options.connect_time = Seconds(params, "connect_timeout", 10.0, "[s]");
  options.answer_time = Seconds(params, "timeout", 30.0, "of an answer [s]");
  return options;
}

std::unique_ptr<Dialect> ReadDialect(const Config& params, const PolicySpec& spec) {
  const std::string protocol =
      params.GetChoice("protocol", {"openpi", "vla_eval", "groot", "starvla"}, "of the server");
  return MakeDialect(
      protocol,
      {.spec = spec,
       .keys = serve::KeyMap::FromConfig(
           params.Sub("keys", "where the server wants observations; see docs/serving.md"),
           DefaultKeys(protocol, spec)),
       .instruction = params.Get<std::string>("instruction", "", "what to do, in words")});
}

nlohmann::json ToJson(const wire::Value& value) {
  if (const auto* const flag = value.If<bool>()) return *flag;
  if (const auto* const number = value.If<std::int64_t>()) return *number;
  if (const auto* const number = value.If<std::uint64_t>()) return *number;
  if (const auto* const number = value.If<double>()) return *number;
  if (const auto* const text = value.If<std::string>()) return *text;
  if (const auto* const list = value.If<wire::List>()) {
    nlohmann::json array = nlohmann::json::array();
    for (const wire::Value& entry : *list) array.push_back(ToJson(entry));
    return array;
  }
  if (const auto* const map = value.If<wire::Map>()) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [key, entry] : map->entries()) object[key] = ToJson(entry);
    return object;
  }
  if (value.If<std::monostate>() != nullptr) return nullptr;
  return wire::Describe(value);
}

}  // namespace

RemoteClient::RemoteClient(const Config& params, const PolicySpec& spec)
    : url_(params.Require<std::string>("url")),
      client_(
          std::make_unique<PolicyClient>(ReadOptions(params), ReadDialect(params, spec), spec)) {}

RemoteClient::~RemoteClient() = default;

std::vector<Outcome> RemoteClient::Ask(std::span<const Question> questions) {
  return client_->Ask(questions);
}

std::string RemoteClient::Provenance() const {
  const nlohmann::json json = {{"url", url_}, {"metadata", ToJson(client_->metadata())}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dp_bench::remote
