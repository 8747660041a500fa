// The command line that the conformance programs share: --plugin=FILE [--params=FILE]
// [--obs=KIND] [--isolate].
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "own_process.h"
#include "plugin/catalogue.h"
#include "time_limit.h"
#include "wrong_calls.h"

namespace dp_bench::conformance {

/// What a plugin may say about its own checks: the object "conformance" in the file of its params.
struct Settings {
  int overfit_steps = 100;    // policies: steps of Adam on one batch
  double overfit_lr = 1e-2;   // and its learning rate
  int expert_seeds = 5;       // envs: the expert must succeed in one of them
  double call_timeout = 20;   // envs: how long a call may take [s]
  double test_timeout = 250;  // how long a check may take [s]
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Settings, overfit_steps, overfit_lr, expert_seeds, call_timeout,
                                   test_timeout)

/// The test subject: a plugin file, the params for its instances and, for policies, the
/// observations: low_dim, rgb (low_dim and cameras), rgbd (these with depth) or task (low_dim and
/// a task key).
struct Subject {
  std::filesystem::path plugin_file;
  nlohmann::json params = nlohmann::json::object();
  Settings settings;
  std::string obs = "low_dim";
  bool is_isolated = false;  // envs: in a separate process
};

/// The subject of this program.
inline Subject& subject() {
  static Subject subject;
  return subject;
}

/// The plugins of this program: the one that it tests.
inline plugin::PluginCatalogue& Catalogue() {
  static plugin::PluginCatalogue catalogue({});
  return catalogue;
}

/// The plugin that it tests, loaded.
inline const plugin::PluginInfo& Plugin() {
  static const plugin::PluginInfo plugin = Catalogue().LoadFile(subject().plugin_file);
  return plugin;
}

/// Throws nlohmann::json::exception or std::runtime_error for a file that is no params.
inline void ReadParams(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json params = nlohmann::json::parse(file);
  const nlohmann::json given = params.value("conformance", nlohmann::json::object());
  params.erase("conformance");
  nlohmann::json settings = subject().settings;
  for (const auto& setting : given.items()) {
    if (!settings.contains(setting.key())) {
      throw std::runtime_error("expected settings among " + settings.dump() + ", found '" +
                               setting.key() + "'");
    }
    settings[setting.key()] = setting.value();
  }
  settings.get_to(subject().settings);
  subject().params = params;
}

/// False for an argument that is not understood.
inline bool ReadArgument(std::string_view argument) {
  constexpr std::string_view kPlugin = "--plugin=";
  constexpr std::string_view kParams = "--params=";
  constexpr std::string_view kObs = "--obs=";
  if (argument.starts_with(kPlugin)) {
    subject().plugin_file = argument.substr(kPlugin.size());
  } else if (argument.starts_with(kParams)) {
    ReadParams(std::string(argument.substr(kParams.size())));
  } else if (argument.starts_with(kObs)) {
    subject().obs = argument.substr(kObs.size());
  } else {
    subject().is_isolated = subject().is_isolated || argument == "--isolate";
    return argument == "--isolate";
  }
  return true;
}

/// Reads the command line into `subject()` and runs all tests. Returns 2 for a wrong command line.
inline int RunConformance(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  testing::InitGoogleTest(&argc, argv);
  bool is_understood = true;
  try {
    for (int i = 1; i < argc; ++i) {
      if (std::string_view(argv[i]) == kWrongCallsOnly) continue;
      is_understood = ReadArgument(argv[i]) && is_understood;
    }
  } catch (const std::exception& error) {
    std::cerr << "--params: " << error.what() << "\n";
    return 2;
  }
  if (!is_understood || subject().plugin_file.empty()) {
    std::cerr
        << "expected --plugin=FILE [--params=FILE] [--obs=low_dim|rgb|rgbd|task] [--isolate]\n";
    return 2;
  }
  ChooseWrongCalls(arguments);
  const auto checks = [] {
    const Settings& settings = subject().settings;
    testing::UnitTest::GetInstance()->listeners().Append(
        new TimeLimit(settings.call_timeout, settings.test_timeout));  // GoogleTest owns it
    return RUN_ALL_TESTS();
  };
  return HasOnlyWrongCalls(arguments) ? checks() : RunInOwnProcess(checks);
}

}  // namespace dp_bench::conformance
