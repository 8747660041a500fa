#include "run/run_id.h"

#include <fmt/format.h>

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

std::string TextAt(const nlohmann::json& json, const std::string& pointer) {
  const nlohmann::json::json_pointer place(pointer);
  const bool is_text = json.is_object() && json.contains(place) && json[place].is_string();
  return is_text ? json[place].get<std::string>() : std::string();
}

std::string HashOfText(std::string_view text) {
  return core::Sha256Hex(std::as_bytes(std::span(text)));
}

std::string RunIdOf(const std::string& json_text) {
  return TextAt(core::TryParseJson(json_text), fmt::format("/{}", kRunIdKey));
}

}  // namespace dp_bench::run
