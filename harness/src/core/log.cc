// spdlog behind core/log.h.
#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "core/console.h"

namespace dp_bench {
namespace {

// The default logger of spdlog writes to standard output, between results, and reports a write that
// failed with another one.
spdlog::logger& StandardErrorLogger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *logger;
}

}  // namespace

void LogInfo(std::string_view message) { StandardErrorLogger().info("{}", Printable(message)); }

void LogWarning(std::string_view message) { StandardErrorLogger().warn("{}", Printable(message)); }

}  // namespace dp_bench
