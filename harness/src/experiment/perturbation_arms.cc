#include "experiment/perturbation_arms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "compare/run_comparison.h"
#include "dp_bench/error.h"
#include "rollout/perturbed_env.h"

namespace dp_bench::experiment {
namespace {

constexpr const char* kNull = "null";

constexpr const char* kOfEnv = "env.params.perturb";  // the env's own perturbations
constexpr const char* kOfHarness = "env.perturb";     // those that work with every env

// A perturbation, and the section of the config that holds its strength.
struct Kind {
  PerturbationSpec spec;
  const char* section;
};

// The unperturbed task, and the perturbations that it can have.
struct Subject {
  std::string env;
  bool has_images = false;
  std::vector<Kind> kinds;
};

Subject Examine(const ExperimentOptions& experiment) {
  const Task task(experiment);
  const Config env = task.config().Sub("env");
  if (env.Has("perturb") || env.Sub("params").Has("perturb")) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the config has {} or {}: arms are compared with an unperturbed "
                            "evaluation; evaluate without --perturb, or remove the section",
                            kOfHarness, kOfEnv));
  }
  Subject subject = {
      .env = task.env_name(),
      .has_images = std::ranges::any_of(
          task.shape_meta().obs, [](const KeySpec& key) { return key.type != KeyType::kLowDim; })};
  for (PerturbationSpec& spec : task.DescribeEnv().perturbations) {
    subject.kinds.push_back({std::move(spec), kOfEnv});
  }
  for (PerturbationSpec& spec : rollout::ActionPerturbation::Kinds()) {
    subject.kinds.push_back({std::move(spec), kOfHarness});
  }
  return subject;
}

const Kind& FindKind(const std::string& name, const Subject& subject) {
  const auto kind = std::ranges::find_if(
      subject.kinds, [&name](const Kind& known) { return name == known.spec.name; });
  if (kind != subject.kinds.end()) return *kind;
  std::vector<std::string> names;
  for (const Kind& known : subject.kinds) names.push_back(known.spec.name);
  throw Error(ErrorCode::kUsage,
              fmt::format("--perturb: env '{}' has no perturbation '{}'; it has {} and {}",
                          subject.env, name, fmt::join(names, ", "), kNull));
}

double ParseStrength(const std::string& text, std::size_t begin) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data() + begin, end, value);
  if (fault == std::errc() && stop == end) return value;
  throw Error(ErrorCode::kUsage,
              fmt::format("--perturb: wanted a number after the '=' of '{}'", text));
}

void RequireInRange(const std::string& text, double strength, const PerturbationSpec& kind) {
  if (strength >= kind.low && strength <= kind.high) return;
  throw Error(ErrorCode::kConfig,
              fmt::format("--perturb: the strength of '{}' must be from {} to {}", text, kind.low,
                          kind.high));
}

std::string Override(const Kind& kind, double strength) {
  return fmt::format("{}.{}={}", kind.section, kind.spec.name, strength);
}

// All perturbations at strength 0: shows what the machinery alone does.
PerturbationArm NullArm(const Subject& subject) {
  PerturbationArm arm = {.name = kNull, .kind = kNull};
  for (const Kind& kind : subject.kinds) arm.overrides.push_back(Override(kind, 0.0));
  return arm;
}

PerturbationArm ReadArm(const std::string& text, const Subject& subject) {
  if (text == kNull) return NullArm(subject);
  const std::size_t equals = std::min(text.find('='), text.size());
  const Kind& kind = FindKind(text.substr(0, equals), subject);
  PerturbationArm arm = {.name = text, .kind = kind.spec.name};
  arm.strength = equals < text.size() ? ParseStrength(text, equals + 1) : kind.spec.strength;
  RequireInRange(text, *arm.strength, kind.spec);
  arm.overrides = {Override(kind, *arm.strength)};
  if (kind.spec.is_visual && !subject.has_images) {
    arm.note = fmt::format("{} cannot have an effect: the policy sees no images", text);
  }
  return arm;
}

}  // namespace

std::vector<PerturbationArm> ReadArms(std::span<const std::string> texts,
                                      const ExperimentOptions& experiment) {
  if (texts.size() >= compare::kMaxComparedRuns) {
    throw Error(ErrorCode::kUsage, fmt::format("--perturb: wanted at most {} arms, found {}",
                                               compare::kMaxComparedRuns - 1, texts.size()));
  }
  const Subject subject = Examine(experiment);
  std::vector<PerturbationArm> arms;
  std::set<std::string> names;
  for (const std::string& text : texts) {
    if (!names.insert(text).second) {
      throw Error(ErrorCode::kUsage, fmt::format("--perturb: '{}' is listed twice", text));
    }
    arms.push_back(ReadArm(text, subject));
  }
  return arms;
}

}  // namespace dp_bench::experiment
