#include "experiment/perturbation_arms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "compare/run_comparison.h"
#include "dp_bench/error.h"

namespace dp_bench::experiment {
namespace {

constexpr const char* kNull = "null";

struct Kind {
  const char* name;
  const char* section;  // of the config, where its strength is
  double strength;      // when none is given
  bool is_seen;         // reaches a policy by pictures alone
};

constexpr const char* kOfEnv = "env.params.perturb";
constexpr const char* kOfHarness = "env.perturb";
constexpr std::array<Kind, 5> kKinds = {{{"light", kOfEnv, 1.0, true},
                                         {"camera", kOfEnv, 1.0, true},
                                         {"friction", kOfEnv, 1.0, false},
                                         {"delay", kOfHarness, 1.0, false},
                                         {"noise", kOfHarness, 0.02, false}}};

// The unperturbed task, and which perturbations its env has.
struct Subject {
  std::string env;
  bool has_pictures = false;
  std::vector<std::string> offered;  // by the env itself
};

// An env announces its perturbations by what it reads of an empty param `perturb`.
std::vector<std::string> OfferedBy(ExperimentOptions experiment) {
  experiment.overrides.push_back(fmt::format("{}={{}}", kOfEnv));
  const Task task(experiment);
  try {
    task.CreateEnv();
  } catch (const Error& error) {
    // without the param the env was just created
    if (error.code() == ErrorCode::kConfig) return {};
    throw;
  }
  return task.config().Sub("env").Sub("params").Sub("perturb").Keys();
}

Subject Examine(const ExperimentOptions& experiment) {
  const Task task(experiment);
  const Config env = task.config().Sub("env");
  if (env.Has("perturb") || env.Sub("params").Has("perturb")) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the config has {} or {}: arms are compared with an unperturbed "
                            "evaluation; evaluate without --perturb, or remove the section",
                            kOfHarness, kOfEnv));
  }
  task.CreateEnv();
  const std::vector<KeySpec>& keys = task.shape_meta().obs;
  return {.env = task.env_name(),
          .has_pictures = std::ranges::any_of(
              keys, [](const KeySpec& key) { return key.type != KeyType::kLowDim; }),
          .offered = OfferedBy(experiment)};
}

[[noreturn]] void ThrowUnknown(const std::string& kind, const Subject& subject) {
  const std::string own =
      subject.offered.empty() ? "none" : fmt::format("{}", fmt::join(subject.offered, ", "));
  throw Error(
      ErrorCode::kUsage,
      fmt::format("--perturb: env '{}' has no perturbation '{}'; of its own it has {}, with "
                  "every env there are delay, noise and null",
                  subject.env, kind, own));
}

double ParseStrength(const std::string& text, std::size_t begin) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data() + begin, end, value);
  if (fault == std::errc() && stop == end) return value;
  throw Error(ErrorCode::kUsage,
              fmt::format("--perturb: wanted a number after the '=' of '{}'", text));
}

// The machinery of all arms at strength 0.
PerturbationArm NullArm(const Subject& subject) {
  PerturbationArm arm = {.name = kNull, .kind = kNull};
  for (const Kind& kind : kKinds) {
    const bool is_own = kind.section == kOfEnv;
    if (is_own && !std::ranges::count(subject.offered, kind.name)) continue;
    arm.overrides.push_back(fmt::format("{}.{}=0", kind.section, kind.name));
  }
  return arm;
}

PerturbationArm ReadArm(const std::string& text, const Subject& subject) {
  if (text == kNull) return NullArm(subject);
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  const auto kind =
      std::ranges::find_if(kKinds, [&](const Kind& known) { return name == known.name; });
  if (kind == kKinds.end()) ThrowUnknown(name, subject);
  if (kind->section == kOfEnv && !std::ranges::count(subject.offered, name)) {
    ThrowUnknown(name, subject);
  }
  PerturbationArm arm = {.name = text, .kind = name};
  arm.strength = equals < text.size() ? ParseStrength(text, equals + 1) : kind->strength;
  arm.overrides = {fmt::format("{}.{}={}", kind->section, name, *arm.strength)};
  if (kind->is_seen && !subject.has_pictures) {
    arm.note = fmt::format("{} cannot have an effect: the policy sees no pictures", text);
  }
  return arm;
}

// A strength out of range shall not show after the other arms have run.
void RequireValid(const PerturbationArm& arm, ExperimentOptions experiment) {
  std::ranges::copy(arm.overrides, std::back_inserter(experiment.overrides));
  Task(experiment).CreateEnv();
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
    RequireValid(arms.back(), experiment);
  }
  return arms;
}

}  // namespace dp_bench::experiment
