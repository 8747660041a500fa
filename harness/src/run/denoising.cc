#include "run/denoising.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "dp_bench/error.h"

namespace dp_bench::run {
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

DenoisingStep ToStep(const core::JsonView& json) {
  return {.timestep = json.GetOptional<int>("timestep"),
          .sample = json.Get<std::vector<std::vector<float>>>("sample")};
}

int CountIn(const core::JsonView& view, const char* key) {
  constexpr int kMaxCount = 1'000'000;
  const int count = view.Get<int>(key);
  if (count < 0 || count > kMaxCount) {
    view.At(key).Fail(fmt::format("wanted a number from 0 to {}, found {}", kMaxCount, count));
  }
  return count;
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
  const std::string what = origin + ": not the denoising of a plan";
  const Json json = core::ParseJson(text, what);
  const core::JsonView view(json, what);
  Denoising denoising = {.seed = view.Get<std::uint64_t>("seed"),
                         .env_step = view.Get<std::uint64_t>("env_step"),
                         .n_steps = CountIn(view, "n_steps"),
                         .first_executed = CountIn(view, "first_executed"),
                         .n_executed = CountIn(view, "n_executed"),
                         .action_dim = CountIn(view, "action_dim")};
  for (const core::JsonView& step : view.Elements("steps")) denoising.steps.push_back(ToStep(step));
  if (AreAlike(denoising.steps)) return denoising;
  throw Error(ErrorCode::kData,
              fmt::format("{}: not the denoising of a plan: wanted at least one sample, all of the "
                          "same shape [T, D]",
                          origin));
}

}  // namespace dp_bench::run
