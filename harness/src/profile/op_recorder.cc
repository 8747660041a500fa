#include "profile/op_recorder.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "dp_bench/error.h"
#include "policy/device.h"

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;
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

// A product with the weight w [N, K]: every element of the other factor is multiplied N times, and
// every element of the result has K products.
std::optional<double> WeightProduct(c10::ArrayRef<const c10::IValue> inputs, std::size_t weight,
                                    int side, std::size_t other) {
  if (!IsTensor(inputs, weight) || !IsTensor(inputs, other)) return std::nullopt;
  return kPerMultiplyAdd * static_cast<double>(inputs[other].toTensor().numel()) *
         static_cast<double>(inputs[weight].toTensor().size(side));
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

// x [rows, width] and the first weight [hidden, width]: a product has the size of x w^T.
std::optional<double> FeedForwardProduct(c10::ArrayRef<const c10::IValue> inputs,
                                         double n_products) {
  const std::optional<double> one = WeightProduct(inputs, /*weight=*/1, 0, /*other=*/0);
  return one ? std::optional(n_products * *one) : std::nullopt;
}

// x [tokens, d], the weights of the projections and the number of keys. The backward pass has two
// products for each of the forward pass.
std::optional<double> ProjectedAttentionProduct(c10::ArrayRef<const c10::IValue> inputs,
                                                double n_passes) {
  if (!IsTensor(inputs, 0) || !IsTensor(inputs, 1) || !IsTensor(inputs, 2) || inputs.size() < 4) {
    return std::nullopt;
  }
  const Tensor& x = inputs[0].toTensor();
  const auto per_token =
      static_cast<double>(inputs[1].toTensor().numel() + inputs[2].toTensor().numel() +
                          2 * inputs[3].toInt() * x.size(1));
  return n_passes * kPerMultiplyAdd * static_cast<double>(x.size(0)) * per_token;
}

// LibTorch's callbacks are plain functions, so they find the recorder here.
std::atomic<OpRecorder*> current_op_recorder = nullptr;

// "torch::autograd::CppNode<dp_bench::policy::(anonymous namespace)::TapProduct>" -> "TapProduct
// backward". Names that LibTorch gives do not change: "MmBackward0".
std::string ReadableName(std::string_view name) {
  constexpr std::string_view kNode = "torch::autograd::CppNode<";
  if (!name.starts_with(kNode) || !name.ends_with('>')) return std::string(name);
  name.remove_suffix(1);
  return std::string(name.substr(name.rfind(':') + 1)) + " backward";
}

OpKind KindOf(at::RecordScope scope) {
  if (scope == at::RecordScope::USER_SCOPE) return OpKind::kScope;
  if (scope == at::RecordScope::BACKWARD_FUNCTION) return OpKind::kBackward;
  return OpKind::kOperator;
}

// The trace: "Trace Event Format", the document of the Chromium project.

constexpr int kProcess = 1;

std::int64_t Nanoseconds(double us) { return std::llround(us * 1e3); }

// [ns] -> "12.345": µs as the format requires, without floating-point rounding
std::string Microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string Metadata(const char* what, std::uint64_t thread, const std::string& name) {
  return Json{
      {"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}}
      .dump();
}

std::string Complete(const OpEvent& event) {
  const std::int64_t begin = Nanoseconds(event.begin_us);
  Json args = Json::object();
  if (event.flops > 0.0) args["flops"] = event.flops;
  return fmt::format(
      R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})",
      Json(event.name).dump(-1, ' ', false, Json::error_handler_t::replace), NameOf(event.kind),
      kProcess, event.thread, Microseconds(begin), Microseconds(Nanoseconds(event.end_us) - begin),
      args.dump());
}

}  // namespace

std::optional<double> ProductFlops(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  if (name == "aten::mm" || name == "aten::bmm") return ProductWork(inputs, 0);
  if (name == "aten::addmm" || name == "aten::baddbmm") return ProductWork(inputs, 1);
  if (name == "mkldnn::_linear_pointwise")
    return WeightProduct(inputs, /*weight=*/1, 0, /*other=*/0);
  if (name == "dp_bench::product") return WeightProduct(inputs, /*weight=*/0, 1, /*other=*/1);
  const bool is_convolution = name == "dp_bench::conv2d" || name == "dp_bench::time_conv";
  if (is_convolution && IsTensor(inputs, 0) && IsTensor(inputs, 1)) {
    return KernelProduct(inputs[0].toTensor(), PlacesOf(inputs[1].toTensor()));
  }
  if (name == "dp_bench::attention") return AttentionProduct(inputs, 2.0);
  if (name == "dp_bench::attention_backward") return AttentionProduct(inputs, 4.0);
  if (name == "dp_bench::feed_forward") return FeedForwardProduct(inputs, 2.0);
  if (name == "dp_bench::feed_forward_backward") return FeedForwardProduct(inputs, 4.0);
  if (name == "dp_bench::projected_attention") return ProjectedAttentionProduct(inputs, 1.0);
  if (name == "dp_bench::projected_attention_backward") {
    return ProjectedAttentionProduct(inputs, 2.0);
  }
  if (name == "aten::convolution") return Convolution(inputs);
  if (name == "aten::convolution_backward") return ConvolutionBackward(inputs);
  return std::nullopt;
}

const char* NameOf(OpKind kind) {
  constexpr std::array kNames = {"operator", "backward", "scope"};
  return kNames.at(static_cast<std::size_t>(kind));
}

struct OpRecorder::Call : public at::ObserverContext {
  explicit Call(int place) : index(place) {}
  int index;  // in events_
};

OpRecorder::OpRecorder(c10::Device device) : device_(device) {
  OpRecorder* none = nullptr;
  DPB_ASSERT(current_op_recorder.compare_exchange_strong(none, this));
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Start, &End)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
}

OpRecorder::~OpRecorder() {
  at::removeCallback(callback_);
  current_op_recorder = nullptr;
}

std::vector<OpEvent> OpRecorder::TakeEvents() {
  const std::lock_guard lock(mutex_);
  for (const auto& [thread, calls] : nested_) DPB_ASSERT(calls.empty());
  is_counted_.clear();
  return std::exchange(events_, {});
}

std::unique_ptr<at::ObserverContext> OpRecorder::Start(const at::RecordFunction& call) {
  OpRecorder* recorder = current_op_recorder;
  return recorder == nullptr ? nullptr : std::make_unique<Call>(recorder->Add(call));
}

void OpRecorder::End(const at::RecordFunction& /*call*/, at::ObserverContext* context) {
  OpRecorder* recorder = current_op_recorder;
  if (recorder == nullptr || context == nullptr) return;
  recorder->Close(static_cast<Call*>(context)->index);
}

int OpRecorder::Add(const at::RecordFunction& call) {
  const std::lock_guard lock(mutex_);
  OpEvent event = {
      .name = ReadableName(call.name()), .kind = KindOf(call.scope()), .thread = call.threadId()};
  std::vector<int>& own = nested_[event.thread];
  const std::vector<int>& around = own.empty() ? nested_[thread_] : own;
  bool is_counted = false;
  if (!around.empty()) {
    event.parent = around.back();
    is_counted = is_counted_[static_cast<std::size_t>(event.parent)];
  }
  if (event.kind == OpKind::kOperator) {
    const std::optional<double> flops = ProductFlops(event.name, call.inputs());
    if (flops && !is_counted) event.flops = *flops;
    is_counted = is_counted || flops.has_value();
  }
  const auto index = static_cast<int>(events_.size());
  own.push_back(index);
  is_counted_.push_back(is_counted);
  event.begin_us = Now();
  events_.push_back(std::move(event));
  return index;
}

void OpRecorder::Close(int index) {
  policy::Synchronize(device_);
  const double now = Now();
  const std::lock_guard lock(mutex_);
  OpEvent& event = events_[static_cast<std::size_t>(index)];
  event.end_us = now;
  std::vector<int>& around = nested_[event.thread];
  DPB_ASSERT(!around.empty() && around.back() == index);
  around.pop_back();
}

double OpRecorder::Now() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
      .count();
}

std::vector<OpTotal> SummarizeOps(std::span<const OpEvent> events, std::string_view scope) {
  std::vector<bool> is_within(events.size());
  std::vector<double> self_us(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {  // parents come before their children
    const OpEvent& event = events[i];
    const auto parent = static_cast<std::size_t>(event.parent);
    is_within[i] = (event.kind == OpKind::kScope && event.name == scope) ||
                   (event.parent >= 0 && is_within[parent]);
    self_us[i] += event.duration_us();
    if (event.parent >= 0) self_us[parent] -= event.duration_us();
  }

  std::map<std::pair<OpKind, std::string_view>, OpTotal> by_name;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!is_within[i]) continue;
    const OpEvent& event = events[i];
    OpTotal& total = by_name[{event.kind, event.name}];
    total.name = event.name;
    total.kind = event.kind;
    ++total.n_calls;
    total.self_us += self_us[i];
    total.total_us += event.duration_us();
    total.flops += event.flops;
    if (event.flops > 0.0) total.product_us += event.duration_us();
  }
  std::vector<OpTotal> totals;
  for (auto& [name, total] : by_name) totals.push_back(std::move(total));
  std::ranges::stable_sort(totals, std::ranges::greater{}, &OpTotal::self_us);
  return totals;
}

WorkTotal SumOf(std::span<const OpTotal> totals) {
  WorkTotal sum;
  for (const OpTotal& total : totals) {
    sum.self_us += total.self_us;
    sum.flops += total.flops;
    sum.product_us += total.product_us;
  }
  return sum;
}

std::string ChromeTrace(std::span<const OpEvent> events, const std::string& process_name) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  text += Metadata("process_name", 0, process_name);
  std::set<std::uint64_t> threads;
  for (const OpEvent& event : events) threads.insert(event.thread);
  for (const std::uint64_t thread : threads) {
    const bool is_main = thread == events.front().thread;
    text += ",\n" + Metadata("thread_name", thread, is_main ? "main" : "autograd");
  }
  for (const OpEvent& event : events) text += ",\n" + Complete(event);
  return text + "\n]}\n";
}

}  // namespace dp_bench::profile
