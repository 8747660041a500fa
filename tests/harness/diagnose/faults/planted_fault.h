// Plants faults into a healthy training of the task in reach_task.h, and diagnoses it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "diagnose/diagnosis.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "harness/diagnose/reach_task.h"
#include "run/checkpoint.h"

namespace dp_bench::diagnose {

inline const std::string kScheduler = "policy.params.noise_scheduler.";

/// A training and its possible faults.
struct Subject {
  explicit Subject(bool has_images = false) : dataset(has_images), env{.has_images = has_images} {}

  ReachDataset dataset;
  ReachEnvParams env;
  std::vector<std::string> overrides;  // of the config
  bool is_trained = false;
  std::function<void(ArrayMap&)> edit_ema;  // of the trained checkpoint
  std::function<void(Normalizer::Fields&)> edit_normalizer;
  std::vector<std::string> log;  // lines; empty: there is none
  bool has_own_log = false;      // the log of the trained checkpoint's training
  std::function<std::unique_ptr<Policy>(std::unique_ptr<Policy>)> wrap;
};

using Plant = std::function<void(Subject& subject)>;

struct Case {
  std::string name;
  std::string id;  // of the finding; empty: none
  Plant plant;
  bool has_images = false;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }

/// A policy that is another one, but for what a subclass changes.
class ForwardingPolicy : public Policy {
 public:
  explicit ForwardingPolicy(std::unique_ptr<Policy> inner) : inner_(std::move(inner)) {}

  const PolicySpec& spec() const override { return inner_->spec(); }
  torch::nn::Module& module() override { return inner_->module(); }
  void SetNormalizer(const Normalizer& normalizer) override { inner_->SetNormalizer(normalizer); }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    return inner_->PredictAction(obs, noise);
  }
  LossOutput ComputeLoss(const Batch& batch, NoiseSource& noise) override {
    return inner_->ComputeLoss(batch, noise);
  }
  void WeightsChanged() override { inner_->WeightsChanged(); }

 private:
  std::unique_ptr<Policy> inner_;
};

/// Makes a `P` of a policy and these values.
template <class P, class... Values>
auto Wrap(Values... values) {
  return [=](std::unique_ptr<Policy> inner) {
    return std::make_unique<P>(std::move(inner), values...);
  };
}

// The planted fault.

void Nothing(Subject& subject);

Plant Overrides(std::vector<std::string> overrides);

/// With the checkpoint of a healthy training.
Plant Trained(std::vector<std::string> overrides);

double HealthyLoss(int step);

Plant Data(std::function<void(ReachDataset&)> change);

Plant EmaWeights(std::function<void(const std::string& name, std::span<float> values)> edit);

/// 400 steps of a loss, and every 40 steps a validation loss.
Plant Log(std::function<double(int step)> loss,
          std::function<double(int step)> val_loss = HealthyLoss);

// The diagnosis.

Diagnosis FullDiagnosis(Subject& subject);

Findings DiagnoseSubject(Subject& subject);

/// Whether the fault is among the problems.
void ExpectNamed(const Case& fault);

/// Whether the fault is confirmed, as a problem or as a note.
void ExpectConfirmed(const Case& fault);

void ExpectNoProblem(const Case& healthy);

}  // namespace dp_bench::diagnose
