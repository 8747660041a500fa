// A policy behind a server: the observations of each row are a question, the server's actions the
// chunk.
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/policy.h"
#include "remote/remote_client.h"

namespace dp_bench::remote {
namespace {

class RemotePolicy final : public Policy {
 public:
  RemotePolicy(const Config& params, const PolicySpec& spec) : spec_(spec), client_(params, spec) {}

  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer& /*normalizer*/) override {}  // the server's affair
  bool is_trainable() const override { return false; }
  torch::nn::Module& module() override { return module_; }
  std::vector<std::string> RowFaults() const override { return faults_; }

  std::string Provenance() const override { return client_.Provenance(); }

  LossOutput ComputeLoss(const Batch& /*batch*/, NoiseSource& /*noise*/) override {
    throw Error(ErrorCode::kUsage, "a remote policy cannot be trained; use eval --policy remote");
  }

  // Padding rows are copies of the first row, which is asked once.
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    std::vector<std::size_t> asked;  // rows, one for each question
    std::vector<Question> questions;
    std::vector<std::size_t> question_of_row;
    for (std::size_t row = 0; row < noise.rows().size(); ++row) {
      const NoiseKey& key = noise.rows()[row];
      const auto found = std::ranges::find_if(asked, [&](std::size_t other) {
        return AsksTheSame(noise.rows()[other], key) && AreEqual(obs, other, row);
      });
      question_of_row.push_back(static_cast<std::size_t>(found - asked.begin()));
      if (found != asked.end()) continue;
      asked.push_back(row);
      questions.push_back(MakeQuestion(obs, row, key));
    }
    const std::vector<Outcome> outcomes = client_.Ask(questions);

    const std::int64_t n_actions = spec_.horizons.n_action_steps;
    const std::int64_t n_dims = spec_.shape_meta.action_dim();
    torch::Tensor chunks = torch::full({noise.batch_size(), n_actions, n_dims},
                                       std::numeric_limits<float>::quiet_NaN());
    faults_.assign(question_of_row.size(), "");
    for (std::size_t row = 0; row < question_of_row.size(); ++row) {
      const Outcome& outcome = outcomes[question_of_row[row]];
      faults_[row] = outcome.fault;
      if (outcome.chunk.empty()) continue;
      std::copy(outcome.chunk.begin(), outcome.chunk.end(),
                chunks.data_ptr<float>() + static_cast<std::int64_t>(row) * n_actions * n_dims);
    }
    return chunks;
  }

 private:
  // Several samples of one plan differ in the seed that the server draws with.
  static std::uint64_t SeedOf(const NoiseKey& key) {
    return key.seed ^ (static_cast<std::uint64_t>(key.minor) << 40U);
  }

  static bool AsksTheSame(const NoiseKey& a, const NoiseKey& b) {
    return SeedOf(a) == SeedOf(b) && a.major == b.major;
  }

  // Whether two rows have the same observation, bit for bit.
  bool AreEqual(const TensorMap& obs, std::size_t a, std::size_t b) const {
    return std::ranges::all_of(spec_.shape_meta.obs, [&](const KeySpec& key) {
      const torch::Tensor& rows = obs.find(key.name)->second;
      const torch::Tensor first = rows[static_cast<std::int64_t>(a)].to(torch::kCPU).contiguous();
      const torch::Tensor second = rows[static_cast<std::int64_t>(b)].to(torch::kCPU).contiguous();
      return std::memcmp(first.data_ptr(), second.data_ptr(), first.nbytes()) == 0;
    });
  }

  // Images come as [B, To, C, H, W], and servers get [To, H, W, C].
  Question MakeQuestion(const TensorMap& obs, std::size_t row, const NoiseKey& key) const {
    Question question{.seed = SeedOf(key), .step = key.major};
    for (const KeySpec& spec : spec_.shape_meta.obs) {
      torch::Tensor window = obs.find(spec.name)->second[static_cast<std::int64_t>(row)];
      if (spec.is_image()) window = window.permute({0, 2, 3, 1});
      Array array = ToArray(window);
      if (array.dtype() != spec.dtype) {
        throw Error(ErrorCode::kInternal, "the observation '" + spec.name + "' has another type");
      }
      question.obs.emplace(spec.name, std::move(array));
    }
    return question;
  }

  PolicySpec spec_;
  torch::nn::Module module_{"remote"};
  RemoteClient client_;
  std::vector<std::string> faults_;
};

}  // namespace
}  // namespace dp_bench::remote

DPB_EXPORT_PLUGIN(dp_bench::Policy, "remote", "1.0.0",
                  (&dp_bench::CreateInstance<dp_bench::Policy, dp_bench::remote::RemotePolicy,
                                             dp_bench::Config, dp_bench::PolicySpec>))
