#include "rollout/denoising.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

using Json = nlohmann::json;

double Rounded(float value) { return std::round(1e4 * value) / 1e4; }

Json ToJson(const DenoisingStep& step) {
  Json rows = Json::array();
  for (const std::vector<float>& row : step.sample) {
    Json numbers = Json::array();
    for (const float value : row) numbers.push_back(Rounded(value));
    rows.push_back(std::move(numbers));
  }
  return {{"timestep", step.timestep ? Json(*step.timestep) : Json()}, {"sample", rows}};
}

DenoisingStep ToStep(const Json& json) {
  DenoisingStep step = {.timestep = std::nullopt,
                        .sample = json.at("sample").get<std::vector<std::vector<float>>>()};
  const Json& timestep = json.at("timestep");
  if (!timestep.is_null()) step.timestep = timestep.get<int>();
  return step;
}

// Every sample is [T, D] with T and D of the first one.
bool AreAlike(const std::vector<DenoisingStep>& steps) {
  if (steps.empty() || steps[0].sample.empty() || steps[0].sample[0].empty()) return false;
  const std::size_t horizon = steps[0].sample.size();
  const std::size_t dim = steps[0].sample[0].size();
  return std::ranges::all_of(steps, [&](const DenoisingStep& step) {
    return step.sample.size() == horizon &&
           std::ranges::all_of(step.sample, [&](const auto& row) { return row.size() == dim; });
  });
}

}  // namespace

Json ToJson(const Denoising& denoising) {
  Json steps = Json::array();
  for (const DenoisingStep& step : denoising.steps) steps.push_back(ToJson(step));
  return {{"seed", denoising.seed},
          {"env_step", denoising.env_step},
          {"n_steps", denoising.n_steps},
          {"first_executed", denoising.first_executed},
          {"n_executed", denoising.n_executed},
          {"action_dim", denoising.action_dim},
          {"steps", steps}};
}

Denoising ParseDenoising(std::string_view text, const std::string& origin) {
  try {
    const Json json = Json::parse(text);
    Denoising denoising;
    json.at("seed").get_to(denoising.seed);
    json.at("env_step").get_to(denoising.env_step);
    json.at("n_steps").get_to(denoising.n_steps);
    json.at("first_executed").get_to(denoising.first_executed);
    json.at("n_executed").get_to(denoising.n_executed);
    json.at("action_dim").get_to(denoising.action_dim);
    for (const Json& step : json.at("steps")) denoising.steps.push_back(ToStep(step));
    if (AreAlike(denoising.steps)) return denoising;
  } catch (const Json::exception& fault) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: not the denoising of a plan: {}", origin, fault.what()));
  }
  throw Error(ErrorCode::kData,
              fmt::format("{}: not the denoising of a plan: wanted at least one sample, all of the "
                          "same shape [T, D]",
                          origin));
}

}  // namespace dp_bench
