#include "planner/policy_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <utility>

#include "core/errors.h"
#include "policy/normalize_mode.h"

namespace dp_bench::planner {
namespace {

/// Parameters and buffers, sharing memory with the module.
TensorMap NamedTensors(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

std::vector<std::string> Differences(const TensorMap& wanted, const ArrayMap& found) {
  std::vector<std::string> problems;
  for (const auto& [name, tensor] : wanted) {
    const auto array = found.find(name);
    if (array == found.end()) {
      problems.push_back(fmt::format("{}: missing, expected {}", name, ToString(tensor.sizes())));
    } else if (tensor.sizes() != at::IntArrayRef(array->second.shape()) ||
               ToDType(tensor.scalar_type()) != array->second.dtype()) {
      problems.push_back(fmt::format("{}: expected {} {}, found {} {}", name,
                                     Name(ToDType(tensor.scalar_type())), ToString(tensor.sizes()),
                                     Name(array->second.dtype()), ToString(array->second.shape())));
    }
  }
  for (const auto& [name, array] : found) {
    if (!wanted.contains(name)) {
      problems.push_back(
          fmt::format("{}: not part of the policy, found {}", name, ToString(array.shape())));
    }
  }
  return problems;
}

std::vector<std::regex> ToRegexes(const std::vector<std::string>& keys) {
  std::vector<std::regex> patterns;
  for (const std::string& key : keys) {
    try {
      patterns.emplace_back(key, std::regex::ECMAScript);
    } catch (const std::regex_error& fault) {
      throw ConfigError("the tensor key '{}' is not a regular expression: {}", key, fault.what());
    }
  }
  return patterns;
}

/// The names that match any pattern. Each pattern must match at least one name.
std::set<std::string> Matches(const std::set<std::string>& names,
                              const std::vector<std::string>& keys) {
  const std::vector<std::regex> patterns = ToRegexes(keys);
  std::set<std::string> matches;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const auto is_match = [&](const auto& name) { return std::regex_search(name, patterns[i]); };
    if (std::ranges::none_of(names, is_match)) {
      throw ConfigError("the tensor key '{}' matches none of the names: {}", keys[i],
                        fmt::join(names, ", "));
    }
    std::ranges::copy_if(names, std::inserter(matches, matches.end()), is_match);
  }
  return matches;
}

std::set<std::string> Select(std::set<std::string> names, const TensorSelection& selection) {
  const std::set<std::string> excluded = Matches(names, selection.exclude_keys);
  if (!selection.include_keys.empty()) names = Matches(names, selection.include_keys);
  std::erase_if(names, [&](const auto& name) { return excluded.contains(name); });
  return names;
}

/// What stands before all names, up to the first dot, and before none that is wanted.
std::string DescribeWrapper(const TensorMap& wanted, const ArrayMap& found) {
  if (found.empty()) return "";
  const std::string& first = found.begin()->first;
  const std::string prefix = first.substr(0, first.find('.') + 1);
  const auto begins = [&prefix](const auto& item) { return item.first.starts_with(prefix); };
  if (prefix.empty() || !std::ranges::all_of(found, begins) ||
      std::ranges::any_of(wanted, begins)) {
    return "";
  }
  return fmt::format(" the names begin with '{}', as those of a module around the policy do",
                     prefix);
}

void CopyToArray(const torch::Tensor& tensor, Array* array) {
  const DType dtype = ToDType(tensor.scalar_type());
  if (array->dtype() != dtype || tensor.sizes() != at::IntArrayRef(array->shape())) {
    *array = Array(dtype, tensor.sizes().vec());
  }
  if (array->size() == 0) return;
  // LibTorch copies with all its threads, from any device and any strides
  const torch::NoGradGuard no_grad;
  torch::from_blob(array->bytes().data(), tensor.sizes(), tensor.scalar_type()).copy_(tensor);
}

using Numbers = std::vector<double>;

torch::Tensor ToDouble(const Numbers& numbers) { return torch::tensor(numbers, torch::kFloat64); }

const torch::Tensor& Require(const TensorMap& state, const std::string& name) {
  const auto found = state.find(name);
  if (found != state.end()) return found->second;
  throw CheckpointError("the normalizer's state has no tensor '{}'", name);
}

Numbers ReadNumbers(const TensorMap& state, const std::string& name) {
  const auto found = state.find(name);
  return found == state.end() ? Numbers{} : ToNumbers(found->second);
}

std::vector<std::pair<std::string, Numbers KeyStats::*>> StatsMembers() {
  return {{".min", &KeyStats::min},
          {".max", &KeyStats::max},
          {".mean", &KeyStats::mean},
          {".std", &KeyStats::std}};
}

}  // namespace

std::vector<double> ToNumbers(const torch::Tensor& tensor) {
  const torch::Tensor host = tensor.to(torch::kCPU, torch::kFloat64).contiguous();
  const double* data = host.data_ptr<double>();
  return {data, data + host.numel()};
}

ArrayMap ModuleState(const torch::nn::Module& module) { return ToArrays(NamedTensors(module)); }

void CopyModuleState(const torch::nn::Module& module, ArrayMap* arrays) {
  CopyToArrays(NamedTensors(module), arrays);
}

void LoadTensors(const TensorMap& wanted, const ArrayMap& tensors, std::string_view what,
                 std::string_view advice) {
  const std::vector<std::string> problems = Differences(wanted, tensors);
  if (!problems.empty()) {
    throw CheckpointError("{} do not fit the policy:{}\n  {}\n{}", what,
                          DescribeWrapper(wanted, tensors), fmt::join(problems, "\n  "), advice);
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : wanted) tensor.copy_(ToTensor(tensors.find(name)->second));
}

void LoadModuleState(torch::nn::Module& module, const ArrayMap& tensors, std::string_view origin) {
  LoadTensors(NamedTensors(module), tensors, fmt::format("the weights of '{}'", origin),
              "Create the policy from the config of that checkpoint.");
}

std::size_t LoadSelectedState(torch::nn::Module& module, const ArrayMap& tensors,
                              const TensorSelection& selection, std::string_view origin) {
  TensorMap wanted = NamedTensors(module);
  ArrayMap found = tensors;
  std::set<std::string> names;
  for (const auto& [name, tensor] : wanted) names.insert(name);
  for (const auto& [name, array] : found) names.insert(name);
  names = Select(std::move(names), selection);

  const auto is_left_out = [&](const auto& item) { return !names.contains(item.first); };
  std::erase_if(wanted, is_left_out);
  std::erase_if(found, is_left_out);
  LoadTensors(wanted, found, fmt::format("the weights of '{}'", origin),
              "Exclude with exclude_keys the tensors that should keep their initial values, or "
              "change the policy's config.");
  return wanted.size();
}

ArrayMap ToArrays(const TensorMap& tensors) {
  ArrayMap arrays;
  for (const auto& [name, tensor] : tensors) arrays.emplace(name, ToArray(tensor));
  return arrays;
}

void CopyToArrays(const TensorMap& tensors, ArrayMap* arrays) {
  std::erase_if(*arrays, [&](const auto& item) { return !tensors.contains(item.first); });
  for (const auto& [name, tensor] : tensors) CopyToArray(tensor, &(*arrays)[name]);
}

TensorMap ToTensors(const ArrayMap& arrays) {
  TensorMap tensors;
  for (const auto& [name, array] : arrays) tensors.emplace(name, ToTensor(array));
  return tensors;
}

Weights EvaluatedWeights(const run::Checkpoint& checkpoint) {
  return checkpoint.Has(run::kEmaFile) ? Weights::kEma : Weights::kModel;
}

std::string_view WeightsFile(const run::Checkpoint& checkpoint, Weights weights) {
  const bool is_ema = weights == Weights::kEma;
  const std::string_view file = is_ema ? run::kEmaFile : run::kModelFile;
  if (!checkpoint.Has(file)) {
    throw CheckpointError("'{}' was saved without {}; use its other weights: {}",
                          checkpoint.folder().string(), file, is_ema ? "model" : "ema");
  }
  return file;
}

TensorMap NormalizerState(const Normalizer& normalizer) {
  TensorMap state;
  for (const auto& [key, field] : normalizer.fields()) {
    state[key + ".scale"] = field.scale.to(torch::kCPU);
    state[key + ".offset"] = field.offset.to(torch::kCPU);
    for (const auto& [suffix, member] : StatsMembers()) {
      const Numbers& numbers = field.stats.*member;
      if (!numbers.empty()) state[key + suffix] = ToDouble(numbers);
    }
    state[key + ".count"] = torch::tensor(field.stats.count, torch::kInt64);
    state[key + ".mode"] = torch::tensor(static_cast<std::int64_t>(field.mode), torch::kInt64);
  }
  return state;
}

Normalizer NormalizerFromState(const TensorMap& state) {
  constexpr std::string_view kScale = ".scale";
  Normalizer::Fields fields;
  for (const auto& [name, scale] : state) {
    if (!name.ends_with(kScale)) continue;
    const std::string key = name.substr(0, name.size() - kScale.size());

    const auto mode = Require(state, key + ".mode").item<std::int64_t>();
    if (mode < 0 || mode >= std::ssize(policy::kNormalizeModeNames)) {
      throw CheckpointError("the normalizer's state has mode {} for '{}'; expected 0 to 5", mode,
                            key);
    }
    Normalizer::Field field{.scale = scale.to(torch::kFloat32),
                            .offset = Require(state, key + ".offset").to(torch::kFloat32),
                            .mode = static_cast<NormalizeMode>(mode)};
    if (field.scale.dim() != 1 || field.scale.sizes() != field.offset.sizes()) {
      throw CheckpointError(
          "the normalizer's state has scale {} and offset {} for '{}'; expected the same shape [D]",
          ToString(field.scale.sizes().vec()), ToString(field.offset.sizes().vec()), key);
    }
    for (const auto& [suffix, member] : StatsMembers()) {
      field.stats.*member = ReadNumbers(state, key + suffix);
    }
    field.stats.count = Require(state, key + ".count").item<std::int64_t>();
    if (field.stats.min.size() == field.stats.max.size()) {
      field.zero_range_dims = policy::FindZeroRangeDims(field.stats, field.mode);
    }
    fields[key] = std::move(field);
  }
  return Normalizer(std::move(fields));
}

Normalizer NormalizerOf(const run::Checkpoint& checkpoint) {
  return NormalizerFromState(ToTensors(checkpoint.ReadTensors(run::kNormalizerFile)));
}

void LoadPolicyWeights(const run::Checkpoint& checkpoint, Policy& policy, Weights weights) {
  const std::string_view file = WeightsFile(checkpoint, weights);
  LoadModuleState(policy.module(), checkpoint.ReadTensors(file),
                  (checkpoint.folder() / file).string());
  policy.SetNormalizer(NormalizerOf(checkpoint));
  policy.WeightsChanged();
}

}  // namespace dp_bench::planner
