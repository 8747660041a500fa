#include "run/determinism.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/json.h"
#include "dp_bench/error.h"
#include "run/run_files.h"
#include "run/run_id.h"

namespace dp_bench::run {

std::string OutcomeClass(const OutcomeConditions& conditions) {
  const std::string observed = conditions.has_pictures ? "images, " : "no images, ";
  if (conditions.device != "cpu") return observed + conditions.device + ", " + conditions.cpu;
  const bool is_portable = conditions.has_avx2_and_fma && !conditions.has_pictures;
  return observed + (is_portable ? "x86-64 with AVX2 and FMA" : conditions.cpu);
}

std::string OutcomeClassOf(const std::string& manifest) {
  return TextAt(core::TryParseJson(manifest), fmt::format("/{}", kOutcomeClassKey));
}

nlohmann::json ToJson(const DeterminismCertificate& certificate) {
  nlohmann::json json = {{"verified", !certificate.difference.has_value()},
                         {"first_seed", certificate.first_seed},
                         {"n_seeds", certificate.n_seeds},
                         {"n_steps", certificate.n_steps},
                         {"trace_hash", certificate.trace_hash}};
  if (certificate.difference) {
    json["first_difference"] = {{"condition", certificate.difference->condition},
                                {"step", certificate.difference->step},
                                {"key", certificate.difference->key}};
  }
  return json;
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
  if (!json.is_object() || !json.contains(kDeterminismKey)) return std::nullopt;
  try {
    const nlohmann::json& entry = json.at(kDeterminismKey);
    DeterminismCertificate certificate = {.first_seed = entry.at("first_seed").get<std::uint64_t>(),
                                          .n_seeds = entry.at("n_seeds").get<int>(),
                                          .n_steps = entry.at("n_steps").get<int>(),
                                          .trace_hash = entry.at("trace_hash").get<std::string>()};
    if (!entry.at("verified").get<bool>()) {
      const nlohmann::json& difference = entry.at("first_difference");
      certificate.difference = {.condition = difference.at("condition").get<std::string>(),
                                .step = difference.at("step").get<int>(),
                                .key = difference.at("key").get<std::string>()};
    }
    return certificate;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: expected the certificate of an evaluation in '{}', found another "
                            "layout ({}); evaluate again",
                            kManifestFile, kDeterminismKey, error.what()));
  }
}

}  // namespace dp_bench::run
