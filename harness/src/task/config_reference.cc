#include "task/config_reference.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "config/document.h"
#include "config/references.h"
#include "control/env_runner_config.h"
#include "core/errors.h"
#include "data/collector.h"
#include "data/mixture.h"
#include "data/task_key.h"
#include "graph/graph_policy.h"
#include "interop/lerobot_export.h"
#include "planner/create_from_checkpoint.h"
#include "plugin/isolated_env.h"
#include "policy/guarded_policy.h"
#include "rollout/perturbed_env.h"
#include "task/task.h"
#include "train/ema.h"
#include "train/optimizer.h"
#include "train/train_config.h"

namespace dp_bench::task {
namespace {

template <class Section>
void ReadSection(const Config& section) {
  Section::FromConfig(section);
}

constexpr KeyMeaning kPluginMeaning = "name of the plugin, as `dp_bench plugins` lists it";

void ReadParams(const Config& section) {
  section.Sub("params", "what the plugin reads; see the tables of the plugins");
}

// For plugins that some verbs do not need.
void ReadOptionalPlugin(const Config& section) {
  if (section.Has("plugin")) section.Require<std::string>("plugin", kPluginMeaning);
  ReadParams(section);
}

constexpr ConfigSection kSections[] = {
    {"env", "the env plugin",
     [](const Config& section) {
       section.Require<std::string>("plugin", kPluginMeaning);
       ReadParams(section);
       rollout::ActionPerturbation::FromConfig(section);
     }},
    {"policy", "the policy plugin",
     [](const Config& section) {
       ReadOptionalPlugin(section);
       graph::ReadBackend(section);
       planner::ReadWeightFormat(section);
     }},
    {"task_key", "what a policy of several tasks observes as `task`: a vector for each task",
     &ReadSection<data::TaskKey>},
    {"dataset", "the dataset plugin, or several of them, and the split",
     [](const Config& section) {
       ReadOptionalPlugin(section);
       data::MixtureConfig::Find(section);
       train::SplitConfig::FromConfig(section);
     }},
    {"collect", "demonstrations by the env's expert; used when dataset.plugin is not given",
     &ReadSection<data::CollectConfig>},
    {"training", "the training loop", &ReadSection<train::TrainingConfig>},
    {"lerobot", "noted by `import`, for `export --format lerobot`",
     [](const Config& section) { interop::ReadLerobotMap(section); }},
    {"optimizer", "AdamW, Adam or SGD", &ReadSection<train::OptimizerConfig>},
    {"ema", "the averaged weights that are evaluated", &ReadSection<train::EmaConfig>},
    {"dataloader", "batches of the training",
     [](const Config& section) { train::DataLoaderConfig::FromConfig(section, true); }},
    {"val_dataloader", "batches of the validation",
     [](const Config& section) { train::DataLoaderConfig::FromConfig(section, false); }},
    {"checkpoint", "which checkpoints are kept, and their parts",
     &ReadSection<train::CheckpointConfig>},
    {"logging", "what TensorBoard shows of a training", &ReadSection<train::LoggingConfig>},
    {"multi_run", "several training seeds with `dp_bench run`, as with `--seeds`",
     &ReadSection<MultiRunConfig>},
    {"normalizer", "scaling of observations and actions", &ReadSection<train::NormalizerConfig>},
    {"env_runner", "evaluation",
     [](const Config& section) {
       control::EnvRunnerConfig::FromConfig(section);
       plugin::ReadIsolation(section);
     }},
};

// Read separately, because the env may supply missing values.
constexpr ConfigSection kTopLevel = {"top level", "horizons, shared by all, and the name",
                                     [](const Config& config) {
                                       Horizons::FromConfig(config);
                                       ReadTaskName(config, "<env plugin>");
                                     }};
constexpr ConfigSection kShapeMeta = {
    "shape_meta", "observation keys and action, shared by dataset, policy and env",
    &ReadSection<ShapeMeta>};

// Specs with and without depth, because some policies refuse depth.
std::vector<PolicySpec> PolicySpecs() {
  const KeySpec state = {.name = "<low_dim>", .shape = {2}};
  const KeySpec rgb = {
      .name = "<rgb>", .type = KeyType::kRgb, .shape = {3, 96, 96}, .dtype = DType::kUInt8};
  const KeySpec depth = {
      .name = "<depth>", .type = KeyType::kDepth, .shape = {1, 96, 96}, .dtype = DType::kUInt16};
  const KeySpec action = {.name = "action", .shape = {2}};
  return {{.shape_meta = {.obs = {state, rgb}, .action = action}, .horizons = {}},
          {.shape_meta = {.obs = {depth, state, rgb}, .action = action}, .horizons = {}}};
}

// While it exists, new weights keep whatever is in their memory: drawing those of all policies in
// all their variants takes half a minute, and their keys do not depend on them.
class WithoutRandomWeights {
 public:
  WithoutRandomWeights() {
    static const bool is_registered = [] {
      const auto add = [](const char* name) {
        return new torch::Library(torch::Library::IMPL, name, kMode, __FILE__, __LINE__);
      };
      add("_")->fallback(torch::CppFunction::makeFallthrough());
      torch::Library& functions = *add("aten");
      // NOLINTBEGIN(performance-unnecessary-value-param): LibTorch passes the generator by value
      functions.impl("uniform_",
                     [](at::Tensor& weights, double, double,
                        std::optional<at::Generator>) -> at::Tensor& { return weights; });
      functions.impl("normal_",
                     [](at::Tensor& weights, double, double,
                        std::optional<at::Generator>) -> at::Tensor& { return weights; });
      // NOLINTEND(performance-unnecessary-value-param)
      return true;
    }();
    static_cast<void>(is_registered);
  }

 private:
  static constexpr c10::DispatchKey kMode = c10::DispatchKey::TESTING_ONLY_GenericMode;
  const c10::impl::IncludeDispatchKeyGuard mode_{kMode};
};

std::vector<config::KeyRead> PluginKeys(PluginKind kind, const std::string& name,
                                        plugin::PluginCatalogue& catalogue) {
  if (kind == PluginKind::kEnv) {
    return config::FindKeys([&](const Config& params) { catalogue.DescribeEnv(name, params); });
  }
  if (kind == PluginKind::kDataset) {
    return config::FindKeys([&](const Config& params) { catalogue.Create<Dataset>(name, params); });
  }
  if (kind == PluginKind::kDatasetWriter) {
    // without a path, the writer reads its params and writes nothing
    const DatasetSpec spec = {.keys = {{.name = "<key>", .shape = {1}}}, .fps = 1.0};
    return config::FindKeys(
        [&](const Config& params) { catalogue.Create<DatasetWriter>(name, params, spec); });
  }
  const WithoutRandomWeights cheap;
  std::vector<config::KeyRead> keys;
  for (const PolicySpec& spec : PolicySpecs()) {
    const auto create = [&](const Config& params) { catalogue.Create<Policy>(name, params, spec); };
    config::MergeKeys(config::FindKeys(create), &keys);
  }
  return keys;
}

void AppendPlugins(PluginKind kind, const std::string& wanted, plugin::PluginCatalogue& catalogue,
                   std::vector<config::KeySection>* sections) {
  if (!wanted.empty()) catalogue.Find(kind, wanted);  // throws if there is none
  for (const plugin::PluginInfo& plugin : catalogue.List()) {
    const bool is_wanted = wanted.empty() || plugin.name == wanted;
    if (plugin.kind != kind || !plugin.refused.empty() || !is_wanted) continue;
    sections->push_back(
        {.name = fmt::format("{}.params of {}", plugin::KindName(kind), plugin.name),
         .meaning = fmt::format("the {} plugin {}", plugin::KindName(kind), plugin.name),
         .keys = PluginKeys(kind, plugin.name, catalogue)});
  }
}

// Removes values that are not known yet.
void DropReferences(nlohmann::json* value) {
  for (auto member = value->begin(); member != value->end();) {
    if (member->is_structured()) DropReferences(&*member);
    member = config::HasReference(*member) ? value->erase(member) : std::next(member);
  }
}

void RequireSection(const std::string& wanted, const std::vector<ConfigSection>& sections) {
  std::vector<std::string> names;
  for (const ConfigSection& section : sections) {
    if (section.name == wanted) return;
    names.emplace_back(section.name);
  }
  throw UsageError("a config has no section '{}'; its sections are: {}", wanted,
                   fmt::join(names, ", "));
}

}  // namespace

std::span<const ConfigSection> ConfigSections() { return kSections; }

nlohmann::json WithDefaults(const nlohmann::json& config) {
  config::JsonSource source = {.value = config};
  DropReferences(&source.value);
  const auto document = std::make_shared<config::ConfigDocument>(std::move(source));
  document->StartNotes();  // a required key that is missing is no error
  const Config root(document);
  const auto read = [](const auto& section) {
    try {
      section();
    } catch (const Error&) {
      // the code that needs the section reports it
    }
  };
  read([&] { Horizons::FromConfig(root); });
  read([&] {
    const Config env = root.Sub("env");
    if (env.Has("plugin")) ReadTaskName(root, env.Get<std::string>("plugin"));
  });
  for (const ConfigSection& section : kSections) {
    read([&] { section.read(root.Sub(section.name)); });
  }
  return document->Copy("");
}

std::vector<config::KeySection> ConfigReference(const KeyRequest& request,
                                                plugin::PluginCatalogue& catalogue) {
  std::vector<ConfigSection> all = {kTopLevel, kShapeMeta};
  all.insert(all.end(), std::begin(kSections), std::end(kSections));
  if (!request.section.empty()) RequireSection(request.section, all);

  const auto is_wanted = [&](std::string_view name) {
    return request.section.empty() || request.section == name;
  };
  std::vector<config::KeySection> sections;
  for (const ConfigSection& section : all) {
    if (!is_wanted(section.name)) continue;
    sections.push_back(
        {.name = section.name, .meaning = section.meaning, .keys = config::FindKeys(section.read)});
  }
  if (is_wanted("env")) AppendPlugins(PluginKind::kEnv, request.env, catalogue, &sections);
  if (is_wanted("dataset")) {
    AppendPlugins(PluginKind::kDataset, request.dataset, catalogue, &sections);
  }
  if (is_wanted("dataset") && request.dataset.empty()) {
    AppendPlugins(PluginKind::kDatasetWriter, "", catalogue, &sections);
  }
  if (is_wanted("policy")) AppendPlugins(PluginKind::kPolicy, request.policy, catalogue, &sections);
  return sections;
}

}  // namespace dp_bench::task
