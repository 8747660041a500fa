// See op_work.h.
#include "profile/op_work.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace dp_bench::profile {
namespace {

using torch::Tensor;

constexpr double kPerMultiplyAdd = 2.0;

bool IsTensor(c10::ArrayRef<const c10::IValue> inputs, std::size_t i) {
  return i < inputs.size() && inputs[i].isTensor() && inputs[i].toTensor().defined();
}

// a [..., N, K] times b [..., K, M].
std::optional<double> ProductWork(c10::ArrayRef<const c10::IValue> inputs, std::size_t first) {
  if (!IsTensor(inputs, first) || !IsTensor(inputs, first + 1)) return std::nullopt;
  const Tensor& b = inputs[first + 1].toTensor();
  return kPerMultiplyAdd * static_cast<double>(inputs[first].toTensor().numel()) *
         static_cast<double>(b.size(-1));
}

// x [..., K] times w^T, or w times x [K, ...]; w [N, K].
std::optional<double> WeightProduct(c10::ArrayRef<const c10::IValue> inputs, std::size_t weight,
                                    std::size_t x) {
  if (!IsTensor(inputs, weight) || !IsTensor(inputs, x)) return std::nullopt;
  return kPerMultiplyAdd * static_cast<double>(inputs[x].toTensor().numel()) *
         static_cast<double>(inputs[weight].toTensor().size(0));
}

// Each number of the smaller side (input or output) is multiplied with one kernel: numel times the
// size of a kernel per channel of that side. `places` is the number of spatial positions of the
// output, or of the input of a transposed convolution.
double KernelProduct(const Tensor& weight, std::int64_t places) {
  return kPerMultiplyAdd * static_cast<double>(weight.numel()) * static_cast<double>(places);
}

// [B, C, ...] -> B * ...
std::int64_t PlacesOf(const Tensor& x) { return x.numel() / std::max<std::int64_t>(1, x.size(1)); }

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
std::optional<double> Convolution(c10::ArrayRef<const c10::IValue> inputs) {
  if (!IsTensor(inputs, 0) || !IsTensor(inputs, 1) || inputs.size() < 7) return std::nullopt;
  const Tensor& x = inputs[0].toTensor();
  const Tensor& weight = inputs[1].toTensor();
  if (inputs[6].toBool()) return KernelProduct(weight, PlacesOf(x));
  const std::vector<std::int64_t> stride = inputs[3].toIntVector();
  const std::vector<std::int64_t> padding = inputs[4].toIntVector();
  const std::vector<std::int64_t> dilation = inputs[5].toIntVector();
  std::int64_t places = x.size(0);
  for (std::int64_t d = 2; d < x.dim(); ++d) {
    const auto i = std::min<std::size_t>(static_cast<std::size_t>(d - 2), stride.size() - 1);
    const std::int64_t reach = dilation[i] * (weight.size(d) - 1) + 1;
    places *= (x.size(d) + 2 * padding[i] - reach) / stride[i] + 1;
  }
  return KernelProduct(weight, places);
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask): a product as large as the forward one for each requested gradient.
std::optional<double> ConvolutionBackward(c10::ArrayRef<const c10::IValue> inputs) {
  if (!IsTensor(inputs, 0) || !IsTensor(inputs, 1) || !IsTensor(inputs, 2) || inputs.size() < 11) {
    return std::nullopt;
  }
  const c10::List<bool> wanted = inputs[10].toBoolList();
  const double n = (wanted.get(0) ? 1.0 : 0.0) + (wanted.get(1) ? 1.0 : 0.0);
  const Tensor& places_of = inputs[inputs[7].toBool() ? 1 : 0].toTensor();
  return n * KernelProduct(inputs[2].toTensor(), PlacesOf(places_of));
}

// q [B, T, d] and kv [B, S, 2 d], or q [B, T, 3 d] with all three. The forward pass has two
// products of that size: scores and sums of v. The backward pass has one for the gradient of each
// of their four operands.
std::optional<double> AttentionProduct(c10::ArrayRef<const c10::IValue> inputs, double n_products) {
  if (!IsTensor(inputs, 0)) return std::nullopt;
  const Tensor& q = inputs[0].toTensor();
  const bool is_packed = !IsTensor(inputs, 1);
  const auto width = static_cast<double>(is_packed ? q.size(2) / 3 : q.size(2));
  const auto n_keys = static_cast<double>(is_packed ? q.size(1) : inputs[1].toTensor().size(1));
  return n_products * kPerMultiplyAdd * static_cast<double>(q.size(0) * q.size(1)) * n_keys * width;
}

double BytesOf(const c10::IValue& value) {
  if (value.isTensor()) {
    const Tensor& tensor = value.toTensor();
    return tensor.defined() && tensor.layout() == torch::kStrided
               ? static_cast<double>(tensor.nbytes())
               : 0.0;
  }
  double bytes = 0.0;
  if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) bytes += BytesOf(tensor);
  }
  return bytes;
}

}  // namespace

std::optional<double> ProductFlops(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  if (name == "aten::mm" || name == "aten::bmm") return ProductWork(inputs, 0);
  if (name == "aten::addmm" || name == "aten::baddbmm") return ProductWork(inputs, 1);
  if (name == "mkldnn::_linear_pointwise") return WeightProduct(inputs, /*weight=*/1, /*x=*/0);
  if (name == "dp_bench::product") return WeightProduct(inputs, /*weight=*/0, /*x=*/1);
  if (name == "dp_bench::conv2d" && IsTensor(inputs, 0) && IsTensor(inputs, 1)) {
    return KernelProduct(inputs[0].toTensor(), PlacesOf(inputs[1].toTensor()));
  }
  if (name == "dp_bench::attention") return AttentionProduct(inputs, 2.0);
  if (name == "dp_bench::attention_backward") return AttentionProduct(inputs, 4.0);
  if (name == "aten::convolution") return Convolution(inputs);
  if (name == "aten::convolution_backward") return ConvolutionBackward(inputs);
  return std::nullopt;
}

const ByteCounter::Traits& ByteCounter::TraitsOf(const at::RecordFunction& call) {
  const std::string key = std::string(call.name()) + "." + call.overload_name();
  const auto known = traits_.find(key);
  if (known != traits_.end()) return known->second;
  Traits traits;
  const auto schema = call.operator_schema();
  if (schema) {
    traits.is_mutable = schema->is_mutable();
    traits.moves_nothing = (schema->hasAnyAliasInfo() && !schema->is_mutable()) ||
                           key.starts_with("aten::empty") || key.starts_with("aten::resize_");
    for (std::size_t i = 0; i < schema->arguments().size(); ++i) {
      const c10::AliasInfo* alias = schema->arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) traits.written.push_back(i);
    }
  }
  return traits_.emplace(key, std::move(traits)).first->second;
}

double ByteCounter::AtStart(const at::RecordFunction& call) {
  const Traits& traits = TraitsOf(call);
  if (traits.moves_nothing) return 0.0;
  const c10::ArrayRef<const c10::IValue> inputs = call.inputs();
  double bytes = 0.0;
  for (const c10::IValue& input : inputs) bytes += BytesOf(input);
  for (const std::size_t i : traits.written) {
    if (i < inputs.size()) bytes += BytesOf(inputs[i]);
  }
  return bytes;
}

double ByteCounter::AtEnd(const at::RecordFunction& call) {
  const Traits& traits = TraitsOf(call);
  if (traits.moves_nothing || traits.is_mutable) return 0.0;
  double bytes = 0.0;
  for (const c10::IValue& output : call.outputs()) bytes += BytesOf(output);
  return bytes;
}

}  // namespace dp_bench::profile
