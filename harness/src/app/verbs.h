// The verbs that need LibTorch, and gate with what it needs LibTorch for (app/light has the
// others). Each Add* declares its options on a CLI11 app and returns the function to run, whose
// result is the exit code.
#pragma once

#include <string>
#include <vector>

#include "app/options.h"
#include "interop/feature_map.h"
#include "task/dataset_conversion.h"

namespace dp_bench::app {

/// Prints a line per feature of LeRobot: "observation.state: agent_pos".
void PrintBindings(const std::vector<interop::FeatureBinding>& bindings);

/// Copies datasets, with a progress bar. Stop signals interrupt it. Returns the exit code.
int ConvertWithProgress(const std::vector<task::DatasetConversion>& conversions,
                        plugin::PluginCatalogue& catalogue);

/// doctor --env. Makes the env, resets it, plays an episode of random actions for up to 20 s, draws
/// it, measures that, asks whether the seed decides, and proposes a task config. Returns 1 if the
/// seed does not decide. Throws what the env throws.
int ExamineEnv(task::ExperimentOptions asked, bool as_json);

/// doctor --url. Asks the policy behind `url` about observations of the env: whether its answers
/// are a function of (observation, seed), how long they take, and how many per second 1, 2, 4 and 8
/// clients get. Returns the exit code, 1 if they are not.
int ExaminePolicy(task::ExperimentOptions asked, const std::string& url,
                  const std::string& protocol, bool as_json);

Verb AddRun(CLI::App* app);
Verb AddTrain(CLI::App* app);
Verb AddEval(CLI::App* app);
Verb AddGateWithRollouts(CLI::App* app);
Verb AddReplay(CLI::App* app);
Verb AddDiff(CLI::App* app);
Verb AddCollect(CLI::App* app);
Verb AddDataset(CLI::App* app);
Verb AddExport(CLI::App* app);
Verb AddDiagnose(CLI::App* app);
Verb AddDistill(CLI::App* app);
Verb AddCorrect(CLI::App* app);
Verb AddDoctor(CLI::App* app);
Verb AddImport(CLI::App* app);
Verb AddInspect(CLI::App* app);
Verb AddPlugins(CLI::App* app);
Verb AddKeys(CLI::App* app);
Verb AddProfile(CLI::App* app);
Verb AddServe(CLI::App* app);
Verb AddSuite(CLI::App* app);
Verb AddView(CLI::App* app);
Verb AddBench(CLI::App* app);

}  // namespace dp_bench::app
