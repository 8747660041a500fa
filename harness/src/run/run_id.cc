#include "run/run_id.h"

#include <nlohmann/json.hpp>
#include <span>

#include "core/atomic_file.h"
#include "core/json.h"
#include "core/sha256.h"
#include "run/run_files.h"

namespace dp_bench::run {
namespace {

constexpr std::size_t kIdDigits = 16;
constexpr std::size_t kMaxManifestBytes = std::size_t{16} << 20;

std::string HashOfText(const std::string& text) {
  return core::Sha256Hex(std::as_bytes(std::span(text)));
}

}  // namespace

std::string WithRunId(const std::string& manifest, const std::string& config) {
  auto json = nlohmann::json::parse(WithoutRunId(manifest));
  auto of_results = json;
  if (of_results.contains("machine")) of_results["machine"].erase("ranks");
  auto settings = nlohmann::json::parse(config);
  if (settings.contains("training")) settings["training"].erase("resume");
  json[kRunIdKey] = HashOfText(settings.dump() + of_results.dump()).substr(0, kIdDigits);
  json[kConfigHashKey] = HashOfText(config);
  return json.dump(2) + "\n";
}

std::string WithoutRunId(const std::string& manifest) {
  auto json = core::ParseJson(manifest, kManifestFile);
  json.erase(kRunIdKey);
  json.erase(kConfigHashKey);
  return json.dump(2) + "\n";
}

void WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                  const std::string& config) {
  core::WriteFileAtomically(folder / kManifestFile, std::string_view(manifest));
  core::WriteFileAtomically(folder / kConfigFile, std::string_view(config));
}

std::string ReadRunManifest(const std::filesystem::path& folder) {
  return core::ReadTextFile(folder / kManifestFile, kMaxManifestBytes);
}

std::string RunIdOf(const std::string& json_text) {
  const auto json = core::TryParseJson(json_text);
  const bool is_named = json.contains(kRunIdKey) && json[kRunIdKey].is_string();
  return is_named ? json[kRunIdKey].get<std::string>() : std::string();
}

}  // namespace dp_bench::run
