// Includes are loaded depth first and merged in the order of the text. The stack of open files
// detects cycles. The number of files is limited because includes can multiply.
#include "config/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "config/document.h"
#include "config/name.h"
#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/split.h"
#include "core/utf8.h"

namespace dp_bench::config {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kMaxConfigFiles = 256;
constexpr std::size_t kMaxIncludeDepth = 16;  // each level merges everything below it again

// The name of the config in run and checkpoint folders. Such a folder may come from anywhere.
constexpr const char* kFolderConfig = "config.json";

constexpr const char* kDatasetPlugin = "/dataset/plugin";
constexpr const char* kDatasetPath = "/dataset/params/path";

// Which part of the episodes validates is the experiment's, the rest of the section is the data's.
constexpr const char* kValRatio = "val_ratio";

// Removes what `belongs` names below /dataset. Returns the keys, those of a map as one.
std::set<std::string> DropDataset(JsonSource* source,
                                  const std::function<bool(const std::string& pointer)>& belongs) {
  constexpr std::size_t kShownDepth = 3;  // dataset.params.keys
  std::set<std::string> dropped;
  const auto drop = [&](const auto& self, const std::string& pointer, Json* object) -> void {
    for (auto member = object->begin(); member != object->end();) {
      const std::string place = ChildPointer(pointer, member.key());
      const bool has_members = member->is_object() && !member->empty();
      if (has_members) self(self, place, &*member);
      const bool is_gone = has_members ? member->empty() : belongs(place);
      if (!is_gone) {
        ++member;
        continue;
      }
      std::vector<std::string> keys = PointerKeys(place);
      keys.resize(std::min(keys.size(), kShownDepth));
      dropped.insert(fmt::format("{}", fmt::join(keys, ".")));
      member = object->erase(member);
    }
  };
  const auto dataset = source->value.find("dataset");
  if (dataset != source->value.end() && dataset->is_object()) drop(drop, "/dataset", &*dataset);
  return dropped;
}

bool IsOfData(const std::string& pointer) { return pointer != ChildPointer("/dataset", kValRatio); }

// Merges two files. Settings for one reader are none for another.
void MergeFile(JsonSource over, JsonSource* base) {
  const std::string plugin = core::TextAt(over.value, kDatasetPlugin);
  const std::string other = core::TextAt(base->value, kDatasetPlugin);
  if (!plugin.empty() && !other.empty() && plugin != other) DropDataset(base, &IsOfData);
  MergeJsonSource(std::move(over), base);
}

// Every run of earlier versions has these keys in its config.json, which can still be run again.
void DropRetiredKeys(Json* config) {
  for (const auto& [section, key] : {std::pair("training", "auto_batch"),
                                     {"training", "sample_steps"},
                                     {"training", "early_stop"},
                                     {"logging", "denoising_every"},
                                     {"logging", "histogram_every"}}) {
    const auto found = config->find(section);
    if (found != config->end() && found->is_object()) found->erase(key);
  }
}

class IncludeLoader {
 public:
  JsonSource Load(const fs::path& file, const std::string& asked_by = "") {
    CheckCycle(file, asked_by);
    if (open_.empty() && file.filename() == kFolderConfig) {
      folder_ = fs::weakly_canonical(fs::absolute(file).parent_path());
    }
    open_.push_back(fs::weakly_canonical(file));
    JsonSource own = ReadJsonSource(file);
    CountKeys(own, file);
    const auto include_origin = own.origins.find("/include");
    const std::string place = include_origin == own.origins.end() ? "" : include_origin->second;

    // the includes first, then the file's own keys over them
    JsonSource merged;
    for (const fs::path& include : IncludePaths(TakeMember("include", &own), place)) {
      const fs::path path = (file.parent_path() / include).lexically_normal();
      if (!fs::exists(path)) {
        throw ConfigError("{}: the included file '{}' does not exist (looked at {})", place,
                          include.string(), path.string());
      }
      RequireInFolder(path, include, place);
      MergeFile(Load(path, place), &merged);
    }
    if (folder_) {
      EscapeReferences(&own.value);  // its references were resolved when it was written
      DropRetiredKeys(&own.value);
    }
    const std::string origin = own.origins[""];
    MergeFile(std::move(own), &merged);
    merged.origins[""] = origin;
    open_.pop_back();
    return merged;
  }

 private:
  // A config from a checkpoint or run must not include other files of this machine, not even
  // through a symbolic link.
  void RequireInFolder(const fs::path& path, const fs::path& include, const std::string& place) {
    if (!folder_) return;
    const fs::path below = fs::weakly_canonical(path).lexically_relative(*folder_);
    if (!below.empty() && *below.begin() != "..") return;
    throw ConfigError(
        "{}: the included file '{}' is outside {}. A {} counts as that of a run or checkpoint. "
        "Such a folder may come from anywhere, so its config includes only files of the folder. "
        "Give your own config another name.",
        place, include.string(), folder_->string(), kFolderConfig);
  }

  void CountKeys(const JsonSource& own, const fs::path& file) {
    n_keys_ += own.origins.size();
    if (n_keys_ <= kMaxConfigKeys) return;
    throw ConfigError("{}: a config and its includes have at most {} keys, these have more",
                      file.string(), kMaxConfigKeys);
  }

  void CheckCycle(const fs::path& file, const std::string& asked_by) {
    if (++n_files_ > kMaxConfigFiles) {
      throw ConfigError("{}: more than {} config files are included", asked_by, kMaxConfigFiles);
    }
    if (open_.size() >= kMaxIncludeDepth) {
      throw ConfigError("{}: files include each other more than {} deep", asked_by,
                        kMaxIncludeDepth);
    }
    const auto cycle = std::find(open_.begin(), open_.end(), fs::weakly_canonical(file));
    if (cycle == open_.end()) return;
    std::vector<std::string> chain;
    for (auto it = cycle; it != open_.end(); ++it) chain.push_back(it->string());
    throw ConfigError("{}: the files include each other: {} -> {}", asked_by,
                      fmt::join(chain, " -> "), *chain.begin());
  }

  static std::vector<fs::path> IncludePaths(const Json& include, const std::string& place) {
    if (include.is_null()) return {};
    if (include.is_string()) return {include.get<std::string>()};
    if (!include.is_array() || !std::ranges::all_of(include, &Json::is_string)) {
      throw ConfigError("{}: include: expected a path or an array of paths, found {}", place,
                        Describe(include));
    }
    const auto paths = include.get<std::vector<std::string>>();
    return {paths.begin(), paths.end()};
  }

  std::vector<fs::path> open_;      // files being loaded, the outermost first
  std::optional<fs::path> folder_;  // includes must stay inside it
  int n_files_ = 0;
  std::size_t n_keys_ = 0;
};

std::string Joined(const std::vector<std::string>& texts, const char* none) {
  return texts.empty() ? none : fmt::format("{}", fmt::join(texts, ", "));
}

// Finds <config_dir>/<folder>/<name>.json. The first folder that has one wins.
std::map<std::string, fs::path> ListNamed(const ConfigRequest& request, const std::string& folder) {
  std::map<std::string, fs::path> files;
  for (const fs::path& config_dir : request.config_dirs) {
    std::error_code ignored;  // a folder that cannot be listed has no names
    for (const fs::directory_entry& entry : fs::directory_iterator(config_dir / folder, ignored)) {
      if (entry.path().extension() != ".json") continue;
      files.try_emplace(entry.path().stem().string(), entry.path());
    }
  }
  return files;
}

fs::path FindNamed(const ConfigRequest& request, const std::string& option,
                   const std::string& folder, const std::string& name) {
  const std::map<std::string, fs::path> files = ListNamed(request, folder);
  if (const auto found = files.find(name); found != files.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [available, path] : files) names.push_back(available);
  std::vector<std::string> searched;
  for (const fs::path& dir : request.config_dirs) searched.push_back((dir / folder).string());
  throw ConfigError("{} {}: there is no config of this name{}. Available: {} (in {})", option, name,
                    DidYouMean(name, names), Joined(names, "none"), Joined(searched, "no folder"));
}

// The task file for --env and --obs. <env>.json itself may already have the requested obs.
JsonSource LoadTask(const ConfigRequest& request) {
  JsonSource plain = IncludeLoader().Load(FindNamed(request, "--env", "task", request.env));
  const std::string obs = core::TextAt(plain.value, "/env/params/obs");
  if (request.obs.empty() || obs == request.obs) return plain;
  const std::map<std::string, fs::path> files = ListNamed(request, "task");
  const std::string begin = request.env + "_";
  if (const auto found = files.find(begin + request.obs); found != files.end()) {
    return IncludeLoader().Load(found->second);
  }
  std::vector<std::string> available;
  if (!obs.empty()) available.push_back(obs);
  for (const auto& [name, path] : files) {
    if (name.starts_with(begin)) available.push_back(name.substr(begin.size()));
  }
  throw ConfigError("--obs {}: there is no task config {}{}.json. --env {} has: {}", request.obs,
                    begin, request.obs, request.env, Joined(available, "none"));
}

// A policy's own config has the rest.
void KeepEnv(JsonSource* task, JsonSource* merged) {
  merged->value.erase("env");
  Json kept = Json::object();
  for (const char* member : {"name", "env", "env_runner"}) {
    if (task->value.contains(member)) kept[member] = std::move(task->value[member]);
  }
  task->value = std::move(kept);
}

// env.params.task must already be set: an env without tasks would refuse it as an unread key.
void SetTask(const ConfigRequest& request, JsonSource* merged) {
  if (!merged->value.contains(Json::json_pointer("/env/params/task"))) {
    throw ConfigError(
        "--task {}: this env has a single task; the config {} sets no env.params.task",
        request.task, merged->origins[""]);
  }
  ApplyOverride("env.params.task=" + request.task, merged);
}

// The file of an origin "configs/task/pusht.json:7".
std::string FileOf(const std::string& origin) { return origin.substr(0, origin.rfind(':')); }

// What the file that names another dataset says about it. A copy in another folder has the same
// name. What another plugin's params mean is not known, so they stay.
void LeaveOutOtherData(const std::string& path, DatasetReaders& readers, JsonSource* merged) {
  const std::string other = core::TextAt(merged->value, kDatasetPath);
  if (other.empty() || core::NameOf(other) == core::NameOf(path)) return;
  const std::string file = FileOf(OriginOf(*merged, "/dataset/params/path"));
  const bool is_known = readers.IsFormatReader(core::TextAt(merged->value, kDatasetPlugin));
  std::set<std::string> keys = DropDataset(merged, [&](const std::string& pointer) {
    const bool is_reader = pointer == "/dataset/plugin" || pointer.starts_with("/dataset/params/");
    return IsOfData(pointer) && (is_known || !is_reader) &&
           FileOf(OriginOf(*merged, pointer)) == file;
  });
  for (const char* own : {"dataset.plugin", "dataset.params", "dataset.params.path"})
    keys.erase(own);
  if (keys.empty()) return;
  merged->notes.push_back(
      fmt::format("--dataset {}: leaves out what {} says about {}: {}. To keep it, give "
                  "dataset.params.path={} instead.",
                  path, file, other, fmt::join(keys, ", "), path));
}

// Sets dataset.params.path, and the plugin if the config has none or that of another format.
void SetDatasetPath(const ConfigRequest& request, JsonSource* merged) {
  const std::string& path = request.dataset;
  DPB_ASSERT(request.readers != nullptr);
  LeaveOutOtherData(path, *request.readers, merged);
  const std::string reader = request.readers->ReaderOf(path);
  const std::string plugin = core::TextAt(merged->value, kDatasetPlugin);
  if (request.is_collected || (request.readers->IsFormatReader(plugin) && plugin != reader)) {
    DropDataset(merged, [](const std::string& pointer) {
      return pointer == "/dataset/plugin" || pointer.starts_with("/dataset/params");
    });
  }
  JsonSource source;
  if (!merged->value.contains(Json::json_pointer(kDatasetPlugin)))
    source.value["dataset"]["plugin"] = reader;
  source.value["dataset"]["params"]["path"] = EscapeReferences(path);
  source.origins["/dataset"] = source.origins["/dataset/params"] =
      source.origins["/dataset/params/path"] = "command line: --dataset " + path;
  MergeJsonSource(std::move(source), merged);
}

// The config of a run has all keys of the choices that it made. With another choice, some of them
// mean something else or are unknown.
void DropKeysOfOtherChoices(const Json& run, JsonSource* merged) {
  constexpr std::array<std::array<const char*, 3>, 5> kKeysOfChoices = {
      {{"training", "lr_scheduler", "lr_num_cycles"},
       {"training", "lr_scheduler", "lr_power"},
       {"training", "lr_scheduler", "lr_end"},
       {"optimizer", "name", "momentum"},
       {"optimizer", "name", "nesterov"}}};
  for (const auto& [section, choice, key] : kKeysOfChoices) {
    const std::string place = fmt::format("/{}/{}", section, choice);
    const std::string before = core::TextAt(run, place);
    const auto object = merged->value.find(section);
    if (before.empty() || before == core::TextAt(merged->value, place)) continue;
    if (object == merged->value.end() || !object->is_object()) continue;
    const std::string pointer = fmt::format("/{}/{}", section, key);
    if (fs::path(FileOf(OriginOf(*merged, pointer))).filename() != kFolderConfig) continue;
    object->erase(key);
    merged->origins.erase(pointer);
  }
}

constexpr std::string_view kOverrideOrigin = "command line: ";
constexpr std::string_view kOptionOrigin = "command line: --";  // as in "--dataset"

std::vector<std::string> OverrideKeys(std::string_view path, const std::string& override_text) {
  std::vector<std::string> keys = core::Split(path, '.');
  for (const std::string& key : keys) {
    if (key.empty()) {
      throw UsageError("override '{}': expected key.key=value, found an empty key", override_text);
    }
  }
  if (keys.size() >= kMaxConfigDepth) {
    throw UsageError("override '{:.80}...': nested deeper than {} levels", override_text,
                     kMaxConfigDepth);
  }
  return keys;
}

Json ParseValue(const std::string& text, const Json* existing, const std::string& origin) {
  Json value = text;
  // the value is parsed like a file, with the same limits and check for duplicate keys
  if (Json::accept(text)) {
    Json parsed = ParseJsonSource(fmt::format("{{\"value\": {}}}", text), origin).value["value"];
    const bool stays_text =
        existing && existing->is_string() && !HasReference(*existing) && !parsed.is_null();
    if (!stays_text || parsed.is_string()) value = std::move(parsed);
  }
  return value;
}

// Some keys take a switch or a factor (env_runner.realtime). For the others, the code that reads
// the key refuses the wrong type.
bool IsNumberOrSwitch(const Json& value) { return value.is_number() || value.is_boolean(); }

bool SameType(const Json& a, const Json& b) {
  return a.type() == b.type() || (IsNumberOrSwitch(a) && IsNumberOrSwitch(b)) || a.is_null() ||
         b.is_null();
}

// Also of the keys inside a value, which a file may have set before.
void SetOrigins(const Json& value, const std::string& place, const std::string& origin,
                JsonSource* source) {
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    const std::string pointer = ChildPointer(place, key);
    source->origins[pointer] = origin;
    SetOrigins(member, pointer, origin, source);
  }
}

}  // namespace

std::shared_ptr<ConfigDocument> LoadConfigDocument(const ConfigRequest& request) {
  JsonSource merged;
  merged.origins[""] = "command line";
  const auto add = [&merged](JsonSource source) {
    merged.origins[""] = source.origins[""];
    MergeFile(std::move(source), &merged);
  };
  const auto add_file = [&add](const fs::path& file) { add(IncludeLoader().Load(file)); };

  if (!request.config.empty()) add_file(request.config);
  const Json of_run = request.config.filename() == kFolderConfig ? merged.value : Json();
  if (!request.env.empty()) {
    JsonSource own = merged;
    JsonSource task = LoadTask(request);
    if (request.takes_env_only) KeepEnv(&task, &merged);
    add(std::move(task));
    own.value = {{"dataset", own.value.value("dataset", Json::object())}};
    MergeFile(std::move(own), &merged);
  }
  if (request.env.empty() && !request.obs.empty()) {
    throw UsageError("--obs {}: give --env too; --obs selects the observations of an env",
                     request.obs);
  }
  if (!request.policy.empty()) add_file(FindNamed(request, "--policy", "policy", request.policy));
  if (!request.dataset.empty()) {
    if (fs::exists(request.dataset)) {
      SetDatasetPath(request, &merged);
    } else if (request.dataset.find('/') != std::string::npos) {
      throw ConfigError("--dataset {}: this path does not exist", request.dataset);
    } else {
      add_file(FindNamed(request, "--dataset", "dataset", request.dataset));
    }
  }
  if (!request.task.empty()) SetTask(request, &merged);
  for (const std::string& override_text : request.overrides) ApplyOverride(override_text, &merged);
  DropKeysOfOtherChoices(of_run, &merged);
  ResolveReferences(&merged, request.defaults);
  return std::make_shared<ConfigDocument>(std::move(merged));
}

Config LoadConfig(const ConfigRequest& request) { return Config(LoadConfigDocument(request)); }

void WriteResolvedConfig(const Config& config, const fs::path& path) {
  core::WriteFileAtomically(path, config.ToJson() + "\n");
}

void ApplyOverride(const std::string& override_text, JsonSource* source) {
  // or else neither the key nor the value could be written into a resolved config
  if (!core::IsUtf8(override_text)) throw UsageError("an override is not valid UTF-8");
  const std::size_t equals = override_text.find('=');
  if (equals == std::string::npos) {
    throw UsageError("override '{}': expected key.key=value", override_text);
  }
  const bool is_object = override_text.compare(equals + 1, 1, "{") == 0;
  const std::string origin =
      std::string(kOverrideOrigin) +
      (is_object ? override_text.substr(0, equals) + "={…}" : core::Printable(override_text));
  const std::vector<std::string> keys =
      OverrideKeys(override_text.substr(0, equals), override_text);

  // follow the key as far as it exists
  const Json* existing = &source->value;
  std::string pointer;
  for (const std::string& key : keys) {
    if (existing && existing->is_object()) {
      const auto member = existing->find(key);
      existing = member == existing->end() ? nullptr : &*member;
    } else if (existing && !existing->is_null()) {
      throw ConfigError("{}: '{}' is not an object but {}, set at {}", origin, DottedKey(pointer),
                        Describe(*existing), source->origins[pointer]);
    }
    pointer = ChildPointer(pointer, key);
  }

  Json value = ParseValue(override_text.substr(equals + 1), existing, origin);
  // a reference may have any type
  const bool has_type = existing && !HasReference(*existing) && !HasReference(value);
  if (has_type && !SameType(*existing, value)) {
    throw ConfigError("{}: expected the type of {}, set at {}; found {}", origin,
                      Describe(*existing), source->origins[pointer], Describe(value));
  }

  // wrap the value in its objects, from the inside out
  JsonSource change;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    Json object = Json::object();
    object[*key] = std::move(value);
    value = std::move(object);
  }
  change.value = std::move(value);
  SetOrigins(change.value, "", origin, &change);
  MergeJsonSource(std::move(change), source);
}

bool IsOverrideOrigin(std::string_view origin) {
  return origin.starts_with(kOverrideOrigin) && !origin.starts_with(kOptionOrigin);
}

}  // namespace dp_bench::config
