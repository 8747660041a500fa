// See chrome_trace.h. The format: "Trace Event Format", the document of the Chromium project.
#include "inspect/chrome_trace.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

namespace dp_bench::profile {
namespace {

using Json = nlohmann::json;

constexpr int kProcess = 1;

const char* CategoryOf(OpKind kind) {
  switch (kind) {
    case OpKind::kOperator:
      return "operator";
    case OpKind::kBackward:
      return "backward";
    case OpKind::kScope:
      return "scope";
  }
  return "";
}

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
      Json(event.name).dump(-1, ' ', false, Json::error_handler_t::replace), CategoryOf(event.kind),
      kProcess, event.thread, Microseconds(begin), Microseconds(Nanoseconds(event.end_us) - begin),
      args.dump());
}

}  // namespace

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
