#include "train/data_parallel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/errors.h"
#include "core/sha256.h"

namespace dp_bench::train {
namespace {

using Json = nlohmann::json;

// CBOR preserves every double, including NaN
std::string Encode(const Json& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

std::vector<torch::Tensor> ParametersOf(std::span<const ParameterGroup> groups) {
  std::vector<torch::Tensor> parameters;
  for (const ParameterGroup& group : groups) {
    parameters.insert(parameters.end(), group.parameters.begin(), group.parameters.end());
  }
  return parameters;
}

}  // namespace

TrainStepResult DataParallel::MeanOverRows(TrainStepResult local) const {
  if (ranks_.size() == 1) return local;
  const Json message = {{"n_rows", local.n_rows}, {"loss", local.loss}, {"parts", local.parts}};
  TrainStepResult mean = local;
  mean.n_rows = 0;
  mean.loss = 0.0;
  mean.parts.clear();
  for (const std::string& bytes : ranks_.AllGather(Encode(message))) {
    const Json of_rank = Json::from_cbor(bytes);
    const auto n_rows = of_rank.at("n_rows").get<std::int64_t>();
    if (n_rows == 0) continue;
    mean.n_rows += n_rows;
    mean.loss += static_cast<double>(n_rows) * of_rank.at("loss").get<double>();
    for (const auto& [name, value] : of_rank.at("parts").items()) {
      mean.parts[name] += static_cast<double>(n_rows) * value.get<double>();
    }
  }
  const auto n_rows = static_cast<double>(std::max<std::int64_t>(mean.n_rows, 1));
  mean.loss /= n_rows;
  for (auto& [name, value] : mean.parts) value /= n_rows;
  return mean;
}

double DataParallel::MeanOverRows(double mean, std::int64_t n_rows) const {
  return MeanOverRows(TrainStepResult{.loss = mean, .n_rows = n_rows}).loss;
}

void DataParallel::SumGradients(std::span<const ParameterGroup> groups) {
  if (ranks_.size() == 1) return;
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> parameters = ParametersOf(groups);
  const auto n_parameters = static_cast<std::int64_t>(parameters.size());
  std::int64_t n_values = 0;
  for (const torch::Tensor& parameter : parameters) n_values += parameter.numel();
  if (!message_.defined()) message_ = torch::empty({n_values + n_parameters});
  float* n_ranks_with = message_.data_ptr<float>() + n_values;

  std::int64_t first = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor part = message_.narrow(0, first, parameters[i].numel());
    const torch::Tensor& gradient = parameters[i].grad();
    if (gradient.defined()) {
      part.view(gradient.sizes()).copy_(gradient);
    } else {
      part.zero_();
    }
    n_ranks_with[i] = gradient.defined() ? 1.0F : 0.0F;
    first += parameters[i].numel();
  }

  ranks_.AllReduceSum(
      std::span(message_.data_ptr<float>(), static_cast<std::size_t>(message_.numel())));

  first = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor sum =
        message_.narrow(0, first, parameters[i].numel()).view(parameters[i].sizes());
    torch::Tensor& gradient = parameters[i].mutable_grad();
    if (gradient.defined()) {
      gradient.copy_(sum);
    } else if (n_ranks_with[i] > 0.0F) {
      gradient = torch::empty_like(parameters[i]).copy_(sum);
    }
    first += parameters[i].numel();
  }
}

void DataParallel::MoveGradientsToRoot(std::span<const ParameterGroup> groups) {
  SumGradients(groups);
  if (is_root()) return;
  for (const torch::Tensor& parameter : ParametersOf(groups)) parameter.mutable_grad().reset();
}

std::vector<std::int64_t> DataParallel::Concatenate(std::span<const std::int64_t> numbers) const {
  std::vector<std::int64_t> all;
  const Json own = std::vector<std::int64_t>(numbers.begin(), numbers.end());
  for (const std::string& bytes : ranks_.AllGather(Encode(own))) {
    const auto of_rank = Json::from_cbor(bytes).get<std::vector<std::int64_t>>();
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  return all;
}

void DataParallel::RequireNoBatchNorm(const torch::nn::Module& module) const {
  if (ranks_.size() == 1) return;
  for (const auto& buffer : module.named_buffers()) {
    // a frozen one has statistics too, but does not count batches
    constexpr std::string_view kCounter = ".num_batches_tracked";
    if (!buffer.key().ends_with(kCounter)) continue;
    throw ConfigError(
        "the policy has a batch norm ('{}'), whose statistics would be those of a rank's rows "
        "instead of the whole batch's. Use group norm "
        "(policy.params.obs_encoder.use_group_norm=true), or one process.",
        buffer.key().substr(0, buffer.key().size() - kCounter.size()));
  }
}

void DataParallel::RequireSame(const std::map<std::string, std::string>& state) const {
  if (ranks_.size() == 1) return;
  const std::vector<std::string> all = ranks_.AllGather(Encode(state));
  const Json of_root = Json::from_cbor(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Json of_rank = Json::from_cbor(all[rank]);
    std::vector<std::string> differing;
    for (const auto& [what, value] : of_root.items()) {
      if (of_rank.at(what) != value) differing.push_back(what);
    }
    if (differing.empty()) continue;
    throw CheckpointError(
        "rank {} differs from rank 0 in: {}. All ranks must see the same run folder, config and "
        "data, and run the same program.",
        rank, fmt::join(differing, ", "));
  }
}

std::string HashOfParameters(const torch::nn::Module& module) {
  core::Sha256 hash;
  for (const auto& parameter : module.named_parameters()) {
    hash.Update(std::as_bytes(std::span(parameter.key())));
    const torch::Tensor values = parameter.value().detach().to(torch::kCPU).contiguous();
    hash.Update(std::span(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()));
  }
  return hash.HexDigest();
}

}  // namespace dp_bench::train
