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

namespace dp_bench::conformance {

/// The test subject: a plugin file, the params for its instances and, for policies, the
/// observations: low_dim, rgb (low_dim and cameras) or rgbd (these with depth).
struct Subject {
  std::filesystem::path plugin_file;
  nlohmann::json params = nlohmann::json::object();
  std::string obs = "low_dim";
  bool is_isolated = false;  // envs: in a separate process
};

/// The subject of this program.
inline Subject& subject() {
  static Subject subject;
  return subject;
}

/// Reads the command line into `subject()` and runs all tests. Returns 2 for a wrong command line.
inline int RunConformance(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kPlugin = "--plugin=";
  constexpr std::string_view kParams = "--params=";
  constexpr std::string_view kObs = "--obs=";
  bool understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kPlugin)) {
      subject().plugin_file = argument.substr(kPlugin.size());
    } else if (argument.starts_with(kParams)) {
      std::ifstream file{std::string(argument.substr(kParams.size()))};
      subject().params = nlohmann::json::parse(file);
    } else if (argument.starts_with(kObs)) {
      subject().obs = argument.substr(kObs.size());
    } else if (argument == "--isolate") {
      subject().is_isolated = true;
    } else {
      understood = false;
    }
  }
  if (!understood || subject().plugin_file.empty()) {
    std::cerr << "expected --plugin=FILE [--params=FILE] [--obs=low_dim|rgb|rgbd] [--isolate]\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}

}  // namespace dp_bench::conformance
