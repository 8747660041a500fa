#include "run/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/env_runner_config.h"
#include "core/atomic_file.h"
#include "core/json.h"
#include "core/sha256.h"
#include "dp_bench/error.h"
#include "run/run_files.h"

namespace dp_bench::run {

namespace {

constexpr std::size_t kIdDigits = 16;
constexpr const char* kDemonstrationsKey = "demonstrations";  // of "seeds"
constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;

using Json = nlohmann::json;

// The value at a JSON pointer of the config; the default if there is none, or null.
template <class T>
T ValueAt(const Json& config, const char* place, T otherwise) {
  const Json::json_pointer pointer(place);
  if (!config.contains(pointer) || config[pointer].is_null()) return otherwise;
  return core::JsonView(config[pointer], place).As<T>();
}

std::string Listed(const SeedRange& range) {
  if (range.n == 1) return std::to_string(range.first);
  return fmt::format("{} to {}", range.first, range.last());
}

Json RangeJson(const SeedRange& range) { return {{"first", range.first}, {"n", range.n}}; }

SeedRange RangeFrom(const core::JsonView& json) {
  const SeedRange range = {.first = json.Get<std::uint64_t>("first"), .n = json.Get<int>("n")};
  if (range.n < 0) json.Fail("expected a number of seeds, found a negative one");
  return range;
}

std::string SelectionText(const SeedUse& use) {
  if (use.selection.n == 0) {
    return fmt::format("Test seeds {}; the training was evaluated on none.", Listed(use.report));
  }
  if (use.n_shared() == 0) {
    return fmt::format("Test seeds {}; the training was evaluated on others, {}.",
                       Listed(use.report), Listed(use.selection));
  }
  return fmt::format(
      "WARNING: {} of the {} test seeds are seeds on which the training was evaluated ({}). A "
      "checkpoint that was chosen by its score there looks better than it is: report another "
      "env_runner.test_start_seed.",
      use.n_shared(), use.report.n, Listed(use.selection));
}

void VisitCertificate(const core::JsonFields& fields, DeterminismCertificate* c) {
  bool is_verified = !c->difference;
  fields("verified", &is_verified);
  fields("first_seed", &c->first_seed);
  fields("n_seeds", &c->n_seeds);
  fields("n_steps", &c->n_steps);
  fields("trace_hash", &c->trace_hash);
  if (is_verified) return;
  if (!c->difference) c->difference.emplace();
  fields.Object("first_difference", [&](const core::JsonFields& difference) {
    difference("condition", &c->difference->condition);
    difference("step", &c->difference->step);
    difference("key", &c->difference->key);
  });
}

}  // namespace

std::string WithRunId(const std::string& manifest, const std::string& config) {
  auto json = nlohmann::json::parse(WithoutRunId(manifest));
  auto settings = nlohmann::json::parse(config);
  if (settings.contains("training")) settings["training"].erase("resume");
  const std::string outcome_part = OutcomePart(json).dump();
  json[kRunIdKey] = core::Sha256Hex(settings.dump() + outcome_part).substr(0, kIdDigits);
  json[kConfigHashKey] = core::Sha256Hex(config);
  return json.dump(2) + "\n";
}

std::string WithoutRunId(const std::string& manifest) {
  auto json = core::ParseJson(manifest, kManifestFile);
  json.erase(kRunIdKey);
  json.erase(kConfigHashKey);
  return json.dump(2) + "\n";
}

Json OutcomePart(Json manifest) {
  manifest.erase("machine");  // outcome_class has what matters of it
  for (const char* key : {kDeterminismKey, kPolicyDeterminismKey}) manifest.erase(key);
  const auto leave_out = [&manifest](const char* section, const char* key) {
    const auto found = manifest.find(section);
    if (found != manifest.end() && found->is_object()) found->erase(key);
  };
  leave_out("checkpoint", "folder");
  leave_out("seeds", kDemonstrationsKey);
  return manifest;
}

void WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                  const std::string& config) {
  core::WriteFileAtomically(folder / kManifestFile, manifest);
  core::WriteFileAtomically(folder / kConfigFile, config);
}

std::string ReadRunManifest(const std::filesystem::path& folder) {
  return core::ReadTextFile(folder / kManifestFile, kMaxManifestBytes);
}

std::string CheckpointHash(const std::filesystem::path& checkpoint) {
  return core::Sha256Hex(ReadRunManifest(checkpoint));
}

std::string RunIdOf(const std::string& json_text) {
  return core::TextAt(core::TryParseJson(json_text), fmt::format("/{}", kRunIdKey));
}

int CountShared(const SeedRange& a, const SeedRange& b) {
  if (b.first < a.first) return CountShared(b, a);
  const std::uint64_t gap = b.first - a.first;
  if (gap >= static_cast<std::uint64_t>(a.n)) return 0;
  return std::min(a.n - static_cast<int>(gap), b.n);
}

SeedRange ReportSeeds(const Json& config) {
  const control::EnvRunnerConfig defaults;
  return {.first = ValueAt(config, "/env_runner/test_start_seed", defaults.test_start_seed),
          .n = ValueAt(config, "/env_runner/n_test", defaults.n_test)};
}

SeedRange SelectionSeeds(const Json& config) {
  SeedRange range = ReportSeeds(config);
  range.first = ValueAt(config, "/env_runner/selection_start_seed", range.first);
  range.n = ValueAt(config, "/env_runner/n_selection", range.n);
  if (ValueAt(config, "/training/rollout_every", 1) == 0) range = {};
  return range;
}

std::vector<SeedRange> RangesOf(std::vector<std::uint64_t> seeds) {
  std::ranges::sort(seeds);
  seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
  std::vector<SeedRange> ranges;
  for (const std::uint64_t seed : seeds) {
    const bool is_next = !ranges.empty() &&
                         seed - ranges.back().first == static_cast<std::uint64_t>(ranges.back().n);
    if (!is_next) ranges.push_back({.first = seed, .n = 0});
    ++ranges.back().n;
  }
  return ranges;
}

std::int64_t SeedUse::n_demonstrated() const {
  std::int64_t n = 0;  // of a damaged manifest, ranges may overlap
  for (const SeedRange& range : demonstrations) n += CountShared(report, range);
  return n;
}

Json ToJson(const SeedUse& use) {
  Json json = {{"report", RangeJson(use.report)},
               {"selection", RangeJson(use.selection)},
               {"n_shared", use.n_shared()}};
  for (const SeedRange& range : use.demonstrations) {
    json[kDemonstrationsKey].push_back(RangeJson(range));
  }
  return json;
}

std::optional<SeedUse> SeedUseOf(const std::string& manifest) {
  const Json json = core::TryParseJson(manifest);
  const core::JsonView view(json, kManifestFile);
  if (!view.Has("seeds")) return std::nullopt;
  try {
    const core::JsonView seeds = view.At("seeds");
    SeedUse use = {.report = RangeFrom(seeds.At("report")),
                   .selection = RangeFrom(seeds.At("selection"))};
    if (!seeds.Has(kDemonstrationsKey)) return use;
    for (const core::JsonView& range : seeds.Elements(kDemonstrationsKey)) {
      use.demonstrations.push_back(RangeFrom(range));
    }
    return use;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string SeedText(const SeedUse& use) {
  if (use.report.n == 0) return "";
  const std::string demonstrated = DemonstrationText(use);
  return SelectionText(use) + (demonstrated.empty() ? "" : " WARNING: " + demonstrated);
}

std::string DemonstrationText(const SeedUse& use) {
  const std::int64_t n = use.n_demonstrated();
  if (n == 0) return "";
  return fmt::format(
      "{} of the {} test seeds are seeds of episodes in the training dataset: the policy has "
      "seen these starts. Report another env_runner.test_start_seed.",
      n, use.report.n);
}

std::string OutcomeClass(const OutcomeConditions& conditions) {
  const std::string observed = conditions.has_images ? "pictures, " : "no pictures, ";
  if (conditions.device != "cpu") return observed + conditions.device + ", " + conditions.cpu;
  const bool is_portable = conditions.has_avx2_and_fma && !conditions.has_images;
  return observed + (is_portable ? "x86-64 with AVX2 and FMA" : conditions.cpu);
}

std::string OutcomeClassOf(const std::string& manifest) {
  return core::TextAt(core::TryParseJson(manifest), fmt::format("/{}", kOutcomeClassKey));
}

nlohmann::json ToJson(const DeterminismCertificate& certificate) {
  return core::ToFields(certificate, VisitCertificate);
}

std::string Describe(const DeterminismCertificate& certificate) {
  const std::string scope = fmt::format("{} seeds from {}, up to {} steps", certificate.n_seeds,
                                        certificate.first_seed, certificate.n_steps);
  if (!certificate.difference) {
    return fmt::format("outcomes are a function of the seed: verified ({})", scope);
  }
  const SeedDifference& difference = *certificate.difference;
  return fmt::format(
      "outcomes are not a function of the seed: {}, step {} first differs in '{}' ({})",
      difference.condition, difference.step, difference.key, scope);
}

std::optional<DeterminismCertificate> DeterminismOf(const std::string& manifest) {
  if (manifest.empty()) return std::nullopt;
  const nlohmann::json json = core::ParseJson(manifest, kManifestFile);
  if (!json.contains(kDeterminismKey)) return std::nullopt;
  try {
    const core::JsonView view(json, kManifestFile);
    return core::FromFields<DeterminismCertificate>(view.At(kDeterminismKey), VisitCertificate);
  } catch (Error& error) {
    error.AddContext("expected the certificate of an evaluation; evaluate again");
    throw;
  }
}

nlohmann::json WithoutMachineKeys(nlohmann::json config) {
  for (const char* key : {"/env/params/python", "/env_runner/n_workers", "/env_runner/n_envs",
                          "/env_runner/isolate", "/collect/n_workers", "/dataloader/num_workers",
                          "/val_dataloader/num_workers", "/dataset/params/memory_limit_mb"}) {
    const nlohmann::json::json_pointer place(key);
    if (config.contains(place)) config.at(place.parent_pointer()).erase(place.back());
  }
  return config;
}

}  // namespace dp_bench::run
