#include "remote/remote_client.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/console.h"
#include "core/errors.h"
#include "remote/policy_client.h"
#include "remote/server_process.h"

namespace dp_bench::remote {
namespace {

std::chrono::milliseconds Seconds(const Config& params, std::string_view key, double by_default,
                                  const char* meaning) {
  const double seconds = params.GetInRange(key, by_default, 0.001, 86400.0, meaning);
  return std::chrono::milliseconds(std::llround(1e3 * seconds));
}

constexpr const char* kCommandMeaning =
    "starts the policy server, instead of url: a command line for the shell, or a list of words; "
    "null = it runs already";

// "": none.
std::string ReadCommand(const Config& params) {
  const nlohmann::json given = nlohmann::json::parse(params.ToJson());
  if (given.contains("command") && given["command"].is_array()) {
    return ShellCommand(params.Get<std::vector<std::string>>("command"));
  }
  return params.GetOptional<std::string>("command", kCommandMeaning).value_or("");
}

// None without a command.
std::unique_ptr<ServerProcess> StartServer(const Config& params) {
  ServerProcessOptions options = {.command = ReadCommand(params)};
  options.start_time =
      Seconds(params, "start_timeout", 60.0, "until the command tells its port [s]");
  if (options.command.empty()) return nullptr;
  if (params.GetOptional<std::string>("url").has_value()) {
    throw ConfigError("{}: expected a url or a command, found both", params.Where("command"));
  }
  if (params.Has("protocol") && params.Get<std::string>("protocol") == "groot")
    options.scheme = "tcp";
  return std::make_unique<ServerProcess>(std::move(options));
}

PolicyClientOptions ReadOptions(const Config& params, ServerProcess* server) {
  PolicyClientOptions options;
  options.server = server;
  options.url = params.GetOptional<std::string>("url", "of the policy server").value_or("");
  const auto variable = params.Get<std::string>("api_key_variable", "DP_BENCH_API_KEY",
                                                "environment variable with the server's key");
  if (const char* const key = std::getenv(variable.c_str())) options.api_key = key;
  options.n_connections = params.GetOptionalInRange(
      "n_connections", 1, std::int64_t{1024},
      "asked at the same time; null = as many as a server of dp_bench plans at once, or 8");
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
       .instruction = params
                          .GetOptional<std::string>("instruction",
                                                    "what to do, in words; null = as the env says")
                          .value_or(spec.instruction)});
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
    : server_(StartServer(params)),
      client_(std::make_unique<PolicyClient>(ReadOptions(params, server_.get()),
                                             ReadDialect(params, spec), spec)) {}

RemoteClient::~RemoteClient() {
  const ClientCounts& counts = client_->counts();
  const int n_restarts = server_ == nullptr ? 0 : server_->n_starts() - 1;
  // a question that was refused is the reason of its episode already
  if (counts.n_retries + counts.n_timeouts + counts.n_reconnects == 0) return;
  core::LogWarning(
      "of {} requests, the policy server left {} without an answer: {} timeouts, {} requests "
      "repeated, {} connections opened again, {} restarts",
      counts.n_questions, counts.n_faults, counts.n_timeouts, counts.n_retries, counts.n_reconnects,
      n_restarts);
}

std::vector<Outcome> RemoteClient::Ask(std::span<const Question> questions) {
  return client_->Ask(questions);
}

std::string RemoteClient::Provenance() const {
  nlohmann::json json = {{"metadata", ToJson(client_->metadata())}};
  if (client_->is_stateful()) json["stateful"] = true;
  if (server_ == nullptr) {
    json["url"] = client_->url();
  } else {
    json["command"] = server_->command();
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dp_bench::remote
