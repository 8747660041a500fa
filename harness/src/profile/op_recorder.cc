// See op_recorder.h.
#include "profile/op_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "dp_bench/error.h"
#include "policy/device.h"

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;

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
  if (event.bytes > 0.0) args["bytes"] = event.bytes;
  return fmt::format(
      R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})",
      Json(event.name).dump(-1, ' ', false, Json::error_handler_t::replace), NameOf(event.kind),
      kProcess, event.thread, Microseconds(begin), Microseconds(Nanoseconds(event.end_us) - begin),
      args.dump());
}

}  // namespace

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
          .needsOutputs(true)
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
  moves_within_.clear();
  return std::exchange(events_, {});
}

std::unique_ptr<at::ObserverContext> OpRecorder::Start(const at::RecordFunction& call) {
  OpRecorder* recorder = current_op_recorder;
  return recorder == nullptr ? nullptr : std::make_unique<Call>(recorder->Add(call));
}

void OpRecorder::End(const at::RecordFunction& call, at::ObserverContext* context) {
  OpRecorder* recorder = current_op_recorder;
  if (recorder == nullptr || context == nullptr) return;
  recorder->Close(call, static_cast<Call*>(context)->index);
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
    event.bytes = bytes_.AtStart(call);
  }
  const auto index = static_cast<int>(events_.size());
  own.push_back(index);
  is_counted_.push_back(is_counted);
  moves_within_.push_back(false);
  event.begin_us = Now();
  events_.push_back(std::move(event));
  return index;
}

void OpRecorder::Close(const at::RecordFunction& call, int index) {
  policy::Synchronize(device_);
  const double now = Now();
  const std::lock_guard lock(mutex_);
  OpEvent& event = events_[static_cast<std::size_t>(index)];
  event.end_us = now;
  const auto place = static_cast<std::size_t>(index);
  if (moves_within_[place]) {
    event.bytes = 0.0;
  } else if (event.kind == OpKind::kOperator) {
    event.bytes += bytes_.AtEnd(call);
  }
  if (event.parent >= 0 && (moves_within_[place] || event.bytes > 0.0)) {
    moves_within_[static_cast<std::size_t>(event.parent)] = true;
  }
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
    total.bytes += event.bytes;
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
    sum.bytes += total.bytes;
    sum.product_us += total.product_us;
    if (total.bytes > 0.0) sum.bytes_us += total.self_us;
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
