// See diagnosis.h.
#include "diagnose/diagnosis.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "data/key_check.h"
#include "data/sequence_sampler.h"
#include "diagnose/coverage_checks.h"
#include "diagnose/data_checks.h"
#include "diagnose/log_checks.h"
#include "dp_bench/error.h"
#include "planner/policy_planner.h"
#include "planner/policy_weights.h"
#include "train/fit_normalizer.h"
#include "train/train_config.h"

namespace dp_bench::diagnose {
namespace {

constexpr std::uint64_t kWeightsSeed = 7;
constexpr int kProcessBatches = 8;
constexpr std::int64_t kProbeRows = 64;

// The low-dimensional observations that both the policy and the data have.
ObsScales ScalesOf(const Normalizer& normalizer, const Demonstrations& data,
                   const ShapeMeta& meta) {
  ObsScales scales;
  for (const KeySpec& key : meta.obs) {
    const Signal* signal = data.Find(key.name);
    if (key.type != KeyType::kLowDim || signal == nullptr) continue;
    const torch::Tensor scale = normalizer.fields().at(key.name).scale.contiguous();
    if (signal->dim != scale.numel()) continue;  // one for all numbers
    const float* values = scale.const_data_ptr<float>();
    scales[key.name] = {values, values + scale.numel()};
  }
  return scales;
}

class Examination {
 public:
  explicit Examination(const DiagnosisCase& subject)
      : subject_(subject),
        data_(DataOf(subject)),
        split_(SplitOf(subject)),
        scheduler_(train::SchedulerOf(subject.config)) {}

  Diagnosis Run() {
    Examine();
    Diagnosis diagnosis;
    AddEvidence({.sample = sample_ ? &*sample_ : nullptr,
                 .scheduler = scheduler_,
                 .log = log_ ? &*log_ : nullptr,
                 .precision = precision_},
                &diagnosis);
    diagnosis.findings = std::move(findings_);
    return diagnosis;
  }

 private:
  void Examine() {
    data::RequireKeys(subject_.dataset.spec(), subject_.spec.shape_meta);
    Append(CheckData(data_, subject_.spec.horizons, &split_));
    Append({CheckImages(subject_.dataset, subject_.spec.shape_meta)});
    if (subject_.make_env) {
      Append(CheckEnv(*subject_.make_env(), subject_.dataset.spec().fps, data_,
                      subject_.spec.shape_meta));
    }
    if (subject_.log) {
      log_ = ReadLogCurves(*subject_.log);
      Append(CheckLog(*log_));
    }
    if (Find(findings_, "data.not_finite")->is_problem()) return;  // nothing can be normalized
    normalizer_ = subject_.checkpoint != nullptr
                      ? planner::NormalizerOf(*subject_.checkpoint)
                      : train::FitNormalizer(
                            subject_.dataset, subject_.spec.shape_meta,
                            train::NormalizerConfig::FromConfig(subject_.config.Sub("normalizer")));
    Append(CheckNormalizer(normalizer_, data_, scheduler_));
    ExamineNetwork();
  }

  static std::vector<std::string> KeyNames(const ShapeMeta& meta) {
    std::vector<std::string> names = {"action"};
    for (const KeySpec& key : meta.obs) names.push_back(key.name);
    return names;
  }

  static Demonstrations DataOf(const DiagnosisCase& subject) {
    Demonstrations data = ReadDemonstrations(subject.dataset, KeyNames(subject.spec.shape_meta));
    data.is_sample = subject.is_sample;
    return data;
  }

  static data::Split SplitOf(const DiagnosisCase& subject) {
    const auto config = train::SplitConfig::FromConfig(subject.config.Sub("dataset"));
    return data::SplitEpisodes(std::ssize(subject.dataset.episode_ends()), config.val_ratio,
                               config.max_train_episodes, config.seed);
  }

  void Append(Findings more) { std::ranges::move(more, std::back_inserter(findings_)); }

  std::unique_ptr<Policy> NewPolicy(const std::vector<std::string>& overrides = {}) const {
    torch::manual_seed(kWeightsSeed);  // LibTorch draws the initial weights
    std::unique_ptr<Policy> policy = subject_.make_policy(overrides);
    policy->SetNormalizer(normalizer_);
    return policy;
  }

  std::unique_ptr<Policy> Trained(planner::Weights weights,
                                  const std::vector<std::string>& overrides = {}) const {
    std::unique_ptr<Policy> policy = NewPolicy(overrides);
    planner::LoadPolicyWeights(*subject_.checkpoint, *policy, weights);
    policy->WeightsChanged();
    return policy;
  }

  void ExamineNetwork() {
    const data::SequenceSampler sampler =
        data::MakeTrainingSampler(subject_.dataset, subject_.spec.horizons, split_.train);
    if (sampler.size() == 0) return;  // data.short_episodes says so
    const TrainingLength length = LengthOf(subject_.config, sampler.size());
    const std::int64_t rows = std::min({length.batch_size, kProbeRows, sampler.size()});
    const std::unique_ptr<Policy> policy = NewPolicy();
    const Probe probe(subject_.dataset, *policy, split_.train, rows, kProcessBatches);
    if (subject_.checkpoint != nullptr) {
      ExamineCheckpoint(probe);
      return;
    }
    sample_ = RecordLosses(*policy, probe);
    Append(CheckProcess(*sample_, scheduler_, /*is_trained=*/false));
    ExaminePrecision(*policy, probe);
    Append(CheckSettings(subject_.config, *policy, length));
    Append(CheckLearning([this] { return NewPolicy(); },
                         train::OptimizerConfig::FromConfig(subject_.config.Sub("optimizer")),
                         probe));
  }

  void ExaminePrecision(Policy& policy, const Probe& probe) {
    const train::MixedPrecision precision =
        train::TrainingConfig::FromConfig(subject_.config.Sub("training")).mixed_precision;
    if (precision == train::MixedPrecision::kNo) {
      precision_ = PrecisionInWords(*sample_, precision);
      return;
    }
    const ProcessSample lower = RecordFirstLoss(policy, probe, precision);
    precision_ = PrecisionInWords(lower, precision);
    Append({CheckPrecision(lower, *sample_, precision)});
  }

  void ExamineCheckpoint(const Probe& probe) {
    const std::unique_ptr<Policy> policy = Trained(planner::EvaluatedWeights(*subject_.checkpoint));
    const Finding weights = CheckWeights(policy->module());
    Append({weights});
    if (weights.is_problem()) return;  // everything else would follow from it
    sample_ = RecordLosses(*policy, probe);
    Append(CheckProcess(*sample_, scheduler_, /*is_trained=*/true));
    if (scheduler_ && sample_->is_complete()) {
      Append(CheckTrainedFor(*sample_, NoiseScheduler(*scheduler_)));
    }
    ExaminePrecision(*policy, probe);
    if (subject_.checkpoint->Has(run::kEmaFile) && subject_.checkpoint->Has(run::kModelFile)) {
      const std::unique_ptr<Policy> model = Trained(planner::Weights::kModel);
      Append({CheckAveragedWeights(*policy, *model, probe)});
    }
    Append(CheckSampling({.policy = *policy,
                          .normalizer = normalizer_,
                          .probe = probe,
                          .scheduler = scheduler_,
                          .make_variant = [this](const std::vector<std::string>& overrides) {
                            return Trained(planner::EvaluatedWeights(*subject_.checkpoint),
                                           overrides);
                          }}));
    if (subject_.make_env && subject_.n_rollouts > 0) Append({CheckRollouts(*policy)});
  }

  Finding CheckRollouts(Policy& policy) const {
    const ObsScales scales = ScalesOf(normalizer_, data_, subject_.spec.shape_meta);
    if (scales.empty()) {
      return LeaveOpen(kUnseenStates, "there are no low-dimensional observations");
    }
    std::vector<std::string> keys;
    for (const auto& [key, scale] : scales) keys.push_back(key);
    const auto config =
        control::EnvRunnerConfig::ForALook(subject_.config.Sub("env_runner"), subject_.n_rollouts);
    try {
      rollout::EnvRunner runner(config, subject_.make_env, subject_.spec.shape_meta,
                                subject_.spec.horizons,
                                /*output_dir=*/{});
      planner::PolicyPlanner planner(policy, torch::kCPU, config.micro_batch);
      return CheckCoverage(data_, split_.train, scales, ObserveRollouts(runner, planner, keys),
                           findings_);
    } catch (const Error& fault) {
      return LeaveOpen(kUnseenStates, fault.what());
    }
  }

  const DiagnosisCase& subject_;
  const Demonstrations data_;
  const data::Split split_;
  std::optional<NoiseSchedulerConfig> scheduler_;
  Normalizer normalizer_;
  std::optional<LogCurves> log_;
  std::optional<ProcessSample> sample_;
  std::string precision_;  // of the network in training
  Findings findings_;
};

}  // namespace

Diagnosis Diagnose(const DiagnosisCase& subject) { return Examination(subject).Run(); }

}  // namespace dp_bench::diagnose
