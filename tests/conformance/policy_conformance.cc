// The contract of every policy plugin (policy.h), whatever it computes. It loads the library
// through the plugin host, as dp_bench does.
//   policy_conformance --plugin=libdpb_policy_unet_hybrid.so --params=params.json --obs=rgb
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conformance_main.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/networks/diffusion_policy.h"
#include "graph/graph_runtime.h"
#include "graph/onnx.h"
#include "policy/device.h"
#include "policy/guarded_policy.h"
#include "train/fit_normalizer.h"
#include "wrong_calls.h"

namespace dp_bench::conformance {
namespace {

// Rounding of float32 sums in another order (another batch size), in units of the normalized
// action.
constexpr double kOtherBatchSize = 1e-4;
// The CPU's own kernels against LibTorch's general ones, relative to the largest value.
constexpr double kOtherKernels = 1e-4;
// Adam on one batch whose target is one constant action: any policy can learn that.
constexpr double kOverfitFactor = 0.5;
constexpr double kLearned = 70.0;  // mean error of actions that are 130 or 480
constexpr std::int64_t kRows = 4;

// A GPU, or else its substitute (support/distant_device/distant_device.h), which finds the faults
// that only a GPU would show: a tensor that stayed on the CPU, a pointer that is dereferenced. It
// is loaded only then, because LibTorch accepts one kind of accelerator in a process, and before
// LibTorch first looks for one. It lies beside this program, in a build and in an installation.
const void* LoadSubstitute() {
  const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  const void* const library = dlopen((folder / DPB_DISTANT_DEVICE).c_str(), RTLD_NOW);
  if (library == nullptr) std::cerr << "no substitute for a GPU: " << dlerror() << "\n";
  return library;
}
// Whether the substitute stands for a GPU. Asked for only in the process of the checks, because
// CUDA that started before a fork cannot be used after it.
bool IsSubstituted() {
  static const void* const substitute = at::hasCUDA() ? nullptr : LoadSubstitute();
  return substitute != nullptr;
}

bool HasDepth() { return subject().obs == "rgbd"; }
bool HasCameras() { return subject().obs == "rgb" || HasDepth(); }
bool HasTask() { return subject().obs == "task"; }

// The middle of the observations' names. It is another one for every build of the plugin, so that a
// policy cannot know the names without reading shape_meta.
const std::string& RandomWord() {
  static const std::string word = "x" + Plugin().Sha256().substr(0, 6);
  return word;
}

// The first key and the last one but the task: [2] and [3, 2].
std::string PositionKey() { return "a_" + RandomWord(); }
std::string PointsKey() { return "k_" + RandomWord(); }
std::string TaskName() { return "t_" + RandomWord(); }

PolicySpec MakeSpec() {
  PolicySpec spec;
  std::vector<KeySpec>& keys = spec.shape_meta.obs;
  keys.push_back({.name = PositionKey(), .shape = {2}});
  const std::vector<std::string> cameras = {"left", "right"};
  for (const std::string& camera : cameras) {
    if (!HasDepth()) break;
    keys.push_back({.name = "depth_" + RandomWord() + camera,
                    .type = KeyType::kDepth,
                    .shape = {1, 24, 32},
                    .dtype = DType::kUInt16});
  }
  for (const std::string& camera : cameras) {
    if (!HasCameras()) break;
    keys.push_back({.name = "image_" + RandomWord() + camera,
                    .type = KeyType::kRgb,
                    .shape = {3, 24, 32},
                    .dtype = DType::kUInt8});
  }
  keys.push_back({.name = PointsKey(), .shape = {3, 2}});
  if (HasTask()) keys.push_back({.name = TaskName(), .type = KeyType::kTask, .shape = {3}});
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.horizons = {.horizon = 16, .n_obs_steps = 2, .n_action_steps = 8};
  return spec;
}

Config Params() { return Config::FromJson(subject().params.dump(), "params"); }

std::unique_ptr<Policy> MakePolicy() {
  torch::manual_seed(7);
  return Catalogue().Create<Policy>(Plugin().name, Params(), MakeSpec());
}

// Without the host's guard, for the suite WrongCalls (wrong_calls.h).
std::unique_ptr<Policy> MakeBarePolicy() {
  return Catalogue().CreateBare<Policy>(Plugin().name, Params(), MakeSpec());
}

KeyStats StatsOf(std::size_t n) {
  return {.min = std::vector<double>(n, 0.0),
          .max = std::vector<double>(n, 512.0),
          .mean = std::vector<double>(n, 256.0),
          .std = std::vector<double>(n, 100.0),
          .count = 100};
}

Normalizer MakeNormalizer(const KeyStats& action = StatsOf(2)) {
  Normalizer::Fields fields = {train::FitKey(PositionKey(), StatsOf(2), NormalizeMode::kLimits),
                               train::FitKey(PointsKey(), StatsOf(6), NormalizeMode::kLimits),
                               train::FitKey("action", action, NormalizeMode::kLimits)};
  for (const KeySpec& key : MakeSpec().shape_meta.obs) {
    if (key.type == KeyType::kRgb) {
      fields.insert(train::FitKey(key.name, {}, NormalizeMode::kImage));
    }
    if (key.type == KeyType::kTask) {
      fields.insert(train::FitKey(key.name, StatsOf(3), NormalizeMode::kIdentity));
    }
    if (key.type != KeyType::kDepth) continue;
    fields.insert(train::FitKey(key.name, {.min = {0.05}, .max = {1.5}}, NormalizeMode::kDepth));
  }
  return Normalizer(std::move(fields));
}

// Noise whose row i depends only on `rows[i]`.
NoiseSource MakeNoise(const std::vector<std::uint64_t>& rows, std::uint64_t major = 0) {
  std::vector<NoiseKey> keys;
  for (const std::uint64_t row : rows) keys.push_back({.seed = row, .major = major});
  return NoiseSource(keys);
}

// Observations of `n_steps` steps whose row i depends only on `rows[i]`.
TensorMap MakeObs(const std::vector<std::uint64_t>& rows, int n_steps = 2) {
  const auto batch = static_cast<std::int64_t>(rows.size());
  NoiseSource source = MakeNoise(rows, /*major=*/99);
  TensorMap obs;
  for (const KeySpec& key : MakeSpec().shape_meta.obs) {
    Shape shape = {batch, n_steps};
    shape.insert(shape.end(), key.shape.begin(), key.shape.end());
    const double full = key.type == KeyType::kRgb     ? 255.0
                        : key.type == KeyType::kDepth ? 2000.0
                        : key.type == KeyType::kTask  ? 1.0
                                                      : 512.0;
    obs[key.name] = (source.Uniform(StreamId::kEnvStart, shape) * full).to(ToScalarType(key.dtype));
  }
  return obs;
}

Batch MakeBatch(const Policy& policy, const std::vector<std::uint64_t>& rows) {
  const auto batch = static_cast<std::int64_t>(rows.size());
  return {.obs = MakeObs(rows, policy.n_train_obs_steps()),
          .action = torch::tensor({450.0F, 100.0F}).expand({batch, 16, 2}).contiguous(),
          .is_pad = torch::zeros({batch, 16}, torch::kBool)};
}

TensorMap MoveTo(c10::Device device, TensorMap tensors) {
  for (auto& [key, tensor] : tensors) tensor = tensor.to(device);
  return tensors;
}

Batch MoveTo(c10::Device device, Batch batch) {
  return {.obs = MoveTo(device, std::move(batch.obs)),
          .action = batch.action.to(device),
          .is_pad = batch.is_pad.to(device)};
}

torch::Tensor Predict(Policy& policy, const std::vector<std::uint64_t>& rows,
                      c10::Device device = torch::kCPU) {
  NoiseSource noise = MakeNoise(rows);
  return policy.PredictAction(MoveTo(device, MakeObs(rows)), noise).cpu();
}

constexpr double kLeastGradient = 1e-2;  // of a bias before a softmax: zero but for rounding

void ExpectClose(const torch::Tensor& actual, const torch::Tensor& expected,
                 const std::string& what, double least_scale = 1e-3) {
  const double scale = std::max(expected.abs().max().item<double>(), least_scale);
  EXPECT_LE((actual.cpu() - expected).abs().max().item<double>(), kOtherKernels * scale) << what;
}

class PolicyConformance : public testing::Test {
 protected:
  static void SetUpTestSuite() { IsSubstituted(); }
  void SetUp() override { policy_->SetNormalizer(MakeNormalizer()); }

  std::unique_ptr<Policy> policy_ = MakePolicy();
};

TEST_F(PolicyConformance, PredictsOneFiniteChunkPerRow) {
  const torch::Tensor action = Predict(*policy_, {1, 2, 3, 4});
  EXPECT_EQ(action.sizes(), torch::IntArrayRef({kRows, 8, 2}));
  EXPECT_EQ(action.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(action.isfinite().all().item<bool>());
}

TEST_F(PolicyConformance, TakesTheNamesOfObservationsFromShapeMeta) {
  std::string names;
  for (const KeySpec& key : MakeSpec().shape_meta.obs) names += " " + key.name;
  try {
    Predict(*policy_, {1, 2, 3, 4});
  } catch (const Error& error) {
    FAIL() << error.what() << "\nHere the observations are called" << names
           << ". Does the policy expect other names than those of shape_meta?";
  }
}

TEST_F(PolicyConformance, TrainsOnObservationsWithinTheHorizon) {
  EXPECT_GE(policy_->n_train_obs_steps(), MakeSpec().horizons.n_obs_steps);
  EXPECT_LE(policy_->n_train_obs_steps(), MakeSpec().horizons.horizon);
}

TEST_F(PolicyConformance, EqualNoiseGivesEqualActions) {
  EXPECT_TRUE(torch::equal(Predict(*policy_, {1, 2, 3, 4}), Predict(*policy_, {1, 2, 3, 4})));
}

TEST_F(PolicyConformance, ARowDependsNeitherOnItsCompanionsNorOnItsPlace) {
  const torch::Tensor first = Predict(*policy_, {1, 2, 3, 4});
  const torch::Tensor second = Predict(*policy_, {9, 8, 1, 7});
  EXPECT_TRUE(torch::equal(first[0], second[2]));
}

TEST_F(PolicyConformance, TheNumberOfThreadsChangesNoBit) {
  const int n_threads = at::get_num_threads();
  std::vector<torch::Tensor> actions;
  for (const int n : {1, 2, 3}) {
    at::set_num_threads(n);
    policy_->WeightsChanged();  // drops the caches that were derived from the weights
    actions.push_back(Predict(*policy_, {1, 2, 3, 4}));
  }
  at::set_num_threads(n_threads);
  EXPECT_TRUE(torch::equal(actions[0], actions[1]));
  EXPECT_TRUE(torch::equal(actions[0], actions[2]));
}

TEST_F(PolicyConformance, ARowAloneGivesTheSameActionUpToRounding) {
  const torch::Tensor together = Predict(*policy_, {1, 2, 3, 4})[1];
  const torch::Tensor alone = Predict(*policy_, {2})[0];
  const double difference = (together - alone).abs().max().item<double>();
  EXPECT_LE(difference, kOtherBatchSize * 256.0);
}

TEST_F(PolicyConformance, SavedAndLoadedWeightsGiveEqualActions) {
  const torch::Tensor expected = Predict(*policy_, {1, 2, 3, 4});
  const std::unique_ptr<Policy> other = MakePolicy();
  other->SetNormalizer(MakeNormalizer());
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : other->module().parameters()) parameter.add_(0.25);
  }
  other->WeightsChanged();
  Predict(*other, {1, 2, 3, 4});  // fills caches that must be dropped with the old weights

  const auto from = policy_->module().named_parameters();
  const auto to = other->module().named_parameters();
  ASSERT_EQ(from.size(), to.size());
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : from) to[item.key()].data().copy_(item.value());
  }
  other->WeightsChanged();
  EXPECT_TRUE(torch::equal(Predict(*other, {1, 2, 3, 4}), expected));
}

// The mean loss of the settings' `overfit_steps` steps on a batch, which the optimizer follows if
// there is one.
double MeanLoss(Policy& policy, const Batch& batch, torch::optim::Adam* optimizer) {
  const int n_steps = subject().settings.overfit_steps;
  double sum = 0.0;
  for (int step = 0; step < n_steps; ++step) {
    NoiseSource noise = MakeNoise({1, 2, 3, 4}, static_cast<std::uint64_t>(step));
    const LossOutput output = policy.ComputeLoss(batch, noise);
    EXPECT_EQ(output.loss.dim(), 0);
    sum += output.loss.item<double>();
    if (optimizer == nullptr) continue;
    optimizer->zero_grad();
    plugin::ComputeGradients(policy, output.loss);
    optimizer->step();
  }
  policy.WeightsChanged();
  return sum / n_steps;
}

// `dp_bench export --format torchscript` gives other programs these graphs.
TEST_F(PolicyConformance, ItsGraphsPlanAsItDoes) {
  if (policy::DiffusionPolicy::Find(*policy_) == nullptr) {
    GTEST_SKIP() << "not a dp_bench::policy::DiffusionPolicy";
  }
  const graph::PolicyGraphs graphs = graph::MakePolicyGraphs(*policy_, MakeNormalizer());
  const auto runtime = graph::MakeTorchScriptRuntime(graphs);
  for (const std::vector<std::uint64_t>& rows :
       {std::vector<std::uint64_t>{1, 2, 3, 4}, std::vector<std::uint64_t>{2}}) {
    NoiseSource noise = MakeNoise(rows);
    const torch::Tensor planned = graph::PredictWithGraphs(graphs, *runtime, MakeObs(rows), noise);
    EXPECT_LE((planned - Predict(*policy_, rows)).abs().max().item<double>(),
              kOtherBatchSize * 256.0)
        << rows.size() << " rows";
  }
  EXPECT_FALSE(graph::ToOnnx(graphs.encoder, "condition").empty());
  EXPECT_FALSE(graph::ToOnnx(graphs.denoiser, "prediction").empty());
}

TEST_F(PolicyConformance, OverfitsOneBatch) {
  const Settings& settings = subject().settings;
  std::cout << "Adam, learning rate " << settings.overfit_lr << ", " << settings.overfit_steps
            << R"( steps; {"conformance": {"overfit_lr": ..., "overfit_steps": ...}} in )"
            << "conformance.json changes them\n";
  const Batch batch = MakeBatch(*policy_, {1, 2, 3, 4});
  torch::optim::Adam optimizer(policy_->module().parameters(),
                               torch::optim::AdamOptions(settings.overfit_lr));
  const double before = MeanLoss(*policy_, batch, nullptr);
  MeanLoss(*policy_, batch, &optimizer);
  const double after = MeanLoss(*policy_, batch, nullptr);
  EXPECT_TRUE(std::isfinite(before)) << "the loss of new weights is " << before;
  EXPECT_LT(after, kOverfitFactor * before)
      << "expected training on one batch to halve the mean loss, found " << before << " before and "
      << after << " after it";
}

TEST_F(PolicyConformance, ActionsAreInTheUnitsOfTheData) {
  const torch::Tensor actions = Predict(*policy_, {1, 2, 3, 4});
  KeyStats other = StatsOf(2);  // the same range of normalized actions for [1000, 1001]
  for (double& low : other.min) low = 1000.0;
  for (double& high : other.max) high = 1001.0;
  policy_->SetNormalizer(MakeNormalizer(other));
  const torch::Tensor expected = actions / 512.0 + 1000.0;
  EXPECT_TRUE(torch::allclose(Predict(*policy_, {1, 2, 3, 4}), expected, 0.0, 1e-3))
      << "the normalizer was changed so that an action of 0 becomes 1000 and one of 512 becomes "
         "1001; the predicted actions did not change accordingly. Does PredictAction return "
         "normalizer.Unnormalize(\"action\", ...)?";
}

// Equal observations for all rows, so that crops do not matter.
TensorMap UniformObs(int n_steps) {
  TensorMap obs = MakeObs({1, 2, 3, 4}, n_steps);
  for (auto& [key, values] : obs) values.fill_(key == TaskName() ? 1 : 100);
  return obs;
}

// The predicted sequence begins at the oldest observation, so the steps to execute begin at index
// To - 1. Any other eight steps of this one differ from those eight in four or more, a mean error
// of 175, so a chunk with an error below kLearned fits one beginning only.
TEST_F(PolicyConformance, TheChunkBeginsAtTheCurrentStep) {
  const Horizons horizons = MakeSpec().horizons;
  const int current = horizons.n_obs_steps - 1;
  torch::Tensor sequence = torch::full({horizons.horizon}, 130.0F);
  sequence.index_fill_(0, torch::tensor({0, 3, 5, 7, 8, 11, 15}), 480.0);
  Batch batch = MakeBatch(*policy_, {1, 2, 3, 4});
  batch.obs = UniformObs(policy_->n_train_obs_steps());
  batch.action = sequence.view({1, -1, 1}).expand({kRows, -1, 2}).contiguous();

  // The beginning that fits the policy's chunk best, and the mean error of the actions from there.
  const auto find_beginning = [&] {
    NoiseSource noise = MakeNoise({1, 2, 3, 4});
    const torch::Tensor chunk = policy_->PredictAction(UniformObs(horizons.n_obs_steps), noise)
                                    .mean(at::IntArrayRef({0, 2}));  // [Ta]
    const torch::Tensor errors =
        (sequence.unfold(0, horizons.n_action_steps, 1) - chunk).abs().mean(1);
    return std::pair(errors.argmin().item<std::int64_t>(), errors.min().item<double>());
  };
  torch::optim::Adam optimizer(policy_->module().parameters(), torch::optim::AdamOptions(3e-3));
  for (int round = 0; round < 6; ++round) {
    MeanLoss(*policy_, batch, &optimizer);
    const auto [begin, error] = find_beginning();
    if (error >= kLearned) continue;
    EXPECT_EQ(begin, current)
        << "after overfitting, the predicted actions fit better to steps that begin at index "
        << begin << " of the sequence than to those that begin at To - 1 = " << current;
    return;
  }
  GTEST_SKIP() << "the policy learns too slowly to tell";
}

TEST_F(PolicyConformance, EveryParameterGetsAFiniteGradient) {
  NoiseSource noise = MakeNoise({1, 2, 3, 4});
  plugin::ComputeGradients(*policy_,
                           policy_->ComputeLoss(MakeBatch(*policy_, {1, 2, 3, 4}), noise).loss);
  for (const auto& item : policy_->module().named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

TEST_F(PolicyConformance, AnotherDeviceComputesTheSame) {
  const c10::Device other = policy::OpenDevice(IsSubstituted() ? "hpu" : "cuda");
  const auto loss_on = [&](c10::Device device) {
    policy_->module().train();
    NoiseSource noise = MakeNoise({1, 2, 3, 4});
    const LossOutput output =
        policy_->ComputeLoss(MoveTo(device, MakeBatch(*policy_, {1, 2, 3, 4})), noise);
    plugin::ComputeGradients(*policy_, output.loss);
    return output.loss.detach();
  };
  const torch::Tensor loss = loss_on(torch::kCPU);
  std::map<std::string, torch::Tensor> gradients;
  for (const auto& item : policy_->module().named_parameters()) {
    gradients[item.key()] = item.value().grad().clone();
    item.value().mutable_grad().reset();
  }
  const torch::Tensor action = Predict(*policy_, {1, 2, 3, 4});

  policy_->module().to(other);
  policy_->WeightsChanged();
  policy_->SetNormalizer(MakeNormalizer());
  ExpectClose(loss_on(other), loss, "loss");
  for (const auto& item : policy_->module().named_parameters()) {
    ExpectClose(item.value().grad(), gradients.at(item.key()), item.key(), kLeastGradient);
  }
  for (int i = 0; i < 3; ++i) {  // from the second on, a graph may be replayed
    ExpectClose(Predict(*policy_, {1, 2, 3, 4}, other), action, "action");
  }
}

TEST_F(PolicyConformance, EqualNoiseGivesEqualLoss) {
  NoiseSource first = MakeNoise({1, 2, 3, 4});
  NoiseSource second = MakeNoise({1, 2, 3, 4});
  const Batch batch = MakeBatch(*policy_, {1, 2, 3, 4});
  EXPECT_TRUE(torch::equal(policy_->ComputeLoss(batch, first).loss,
                           policy_->ComputeLoss(batch, second).loss));
}

TEST_F(PolicyConformance, PredictionSeesWeightsThatTheOptimizerChanged) {
  const torch::Tensor before = Predict(*policy_, {1, 2, 3, 4});
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : policy_->module().parameters()) parameter.add_(0.1);
  }
  policy_->WeightsChanged();
  EXPECT_FALSE(torch::equal(Predict(*policy_, {1, 2, 3, 4}), before));
}

TEST_F(PolicyConformance, PredictionLeavesNoGradient) {
  const torch::Tensor action = Predict(*policy_, {1, 2, 3, 4});
  EXPECT_FALSE(action.requires_grad());
  for (const auto& item : policy_->module().named_parameters()) {
    EXPECT_FALSE(item.value().grad().defined()) << item.key();
  }
}

// What a policy must refuse. The host's guard does not check what goes into a policy.
class WrongCalls : public testing::Test {
 protected:
  void SetUp() override { policy_->SetNormalizer(MakeNormalizer()); }

  std::unique_ptr<Policy> policy_ = MakeBarePolicy();
};

TEST_F(PolicyConformance, RefusesWrongInputsWithoutACrash) { ExpectWrongCallsRefused(); }

void ExpectShapeErrorNaming(Policy& policy, const TensorMap& obs, const std::string& key) {
  NoiseSource noise = MakeNoise({1, 2, 3, 4});
  try {
    policy.PredictAction(obs, noise);
    ADD_FAILURE() << "no error for a wrong '" << key << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kShape) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(key));
  }
}

TEST_F(WrongCalls, AMissingKeyIsNamed) {
  TensorMap obs = MakeObs({1, 2, 3, 4});
  obs.erase(PointsKey());
  ExpectShapeErrorNaming(*policy_, obs, PointsKey());
}

TEST_F(WrongCalls, AWrongShapeIsNamed) {
  TensorMap obs = MakeObs({1, 2, 3, 4});
  obs[PositionKey()] = torch::zeros({kRows, 2, 3});
  ExpectShapeErrorNaming(*policy_, obs, PositionKey());
}

TEST_F(WrongCalls, AWrongNumberOfObservationStepsIsNamed) {
  TensorMap obs = MakeObs({1, 2, 3, 4});
  obs[PositionKey()] = torch::zeros({kRows, 1, 2});
  ExpectShapeErrorNaming(*policy_, obs, PositionKey());
}

TEST_F(WrongCalls, WithoutANormalizerItRefuses) {
  const std::unique_ptr<Policy> policy = MakeBarePolicy();
  NoiseSource noise = MakeNoise({1, 2, 3, 4});
  EXPECT_THROW(policy->PredictAction(MakeObs({1, 2, 3, 4}), noise), Error);
  EXPECT_THROW(policy->ComputeLoss(MakeBatch(*policy, {1, 2, 3, 4}), noise), Error);
}

TEST_F(WrongCalls, ANormalizerWithoutTheActionIsRefused) {
  const Normalizer normalizer({train::FitKey(PositionKey(), StatsOf(2), NormalizeMode::kLimits),
                               train::FitKey(PointsKey(), StatsOf(6), NormalizeMode::kLimits)});
  try {
    policy_->SetNormalizer(normalizer);
    ADD_FAILURE() << "no error for a missing statistic";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kData) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr("action"));
  }
}

}  // namespace
}  // namespace dp_bench::conformance

int main(int argc, char** argv) { return dp_bench::conformance::RunConformance(argc, argv); }
