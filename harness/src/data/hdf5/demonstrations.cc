#include "data/hdf5/demonstrations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/errors.h"
#include "core/json.h"
#include "data/reader/keyed_dataset.h"

namespace dp_bench::hdf5 {
namespace {

namespace fs = std::filesystem;
using Object = H5File::ObjectKind;

constexpr int kMaxDepth = 4;              // of groups below another
constexpr std::size_t kMaxArrays = 1000;  // of observations
constexpr std::size_t kMaxOpenFiles = 16;
constexpr std::size_t kMaxListed = 30;  // in a message

const std::vector<std::string> kActions = {"actions", "action"};
const std::vector<std::string> kObservations = {"obs", "observations", "observation"};
const std::string kImages = "images/";  // of ACT

// Arrays beside the observations. They are keys if dp_bench wrote them as keys.
const std::vector<std::string> kOtherArrays = {"rewards", "dones", "states"};
constexpr const char* kBaseAction = "base_action";

std::string Join(const std::string& group, const std::string& name) {
  return group.empty() ? name : group + "/" + name;
}

std::vector<fs::path> ListFiles(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  std::vector<std::string> others;  // that are not read
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const bool is_named = IsHdf5Name(entry.path());
    if (is_named && entry.is_regular_file()) {
      files.push_back(entry.path());
    } else if (is_named || HasHdf5Files(entry.path())) {
      others.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(others, &NaturalLess);
  if (files.empty()) {
    throw DataError("{}: expected HDF5 files (*.hdf5, *.h5), found {}", path.string(),
                    others.empty() ? "none"
                                   : "them only in folders in it; name one of these: " +
                                         reader::ListFirst(others));
  }
  if (!others.empty()) {
    reader::WarnUser(
        fmt::format("{}: only the files in the folder itself are read; left out folders with HDF5 "
                    "files, and names without a file ({}): {}",
                    path.string(), others.size(), reader::ListFirst(others)));
  }
  std::ranges::sort(files, [](const fs::path& a, const fs::path& b) {
    return NaturalLess(a.filename().string(), b.filename().string());
  });
  return files;
}

// "data/demo_0/obs/ (a group), action float32 [50, 7]", for messages.
void Describe(const H5File& file, const std::string& group, int depth,
              std::vector<std::string>* lines) {
  for (const std::string& name : file.Names(group)) {
    if (lines->size() > kMaxListed) return;
    const std::string path = Join(group, name);
    const Object kind = file.Find(path);
    if (kind == Object::kGroup) {
      lines->push_back(path + "/");
      if (depth > 0) Describe(file, path, depth - 1, lines);
    } else if (kind == Object::kArray) {
      lines->push_back(path);
    } else {
      lines->push_back(path + " (a link that leads nowhere in the file)");
    }
  }
}

[[noreturn]] void RefuseLayout(const H5File& file, const std::string& wanted) {
  std::vector<std::string> lines;
  Describe(file, "", 2, &lines);
  if (lines.size() > kMaxListed) {
    lines.resize(kMaxListed);
    lines.push_back("...");
  }
  file.Fail("",
            "expected {}; found {}. Name the arrays in dataset.params.keys, relative to the group "
            "of an episode.",
            wanted, lines.empty() ? "nothing" : fmt::format("{}", fmt::join(lines, ", ")));
}

}  // namespace

bool IsHdf5Name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".hdf5" || extension == ".h5" || extension == ".hdf";
}

bool HasHdf5Files(const fs::path& folder) {
  std::error_code error;  // a folder that cannot be listed has none
  const fs::directory_iterator entries(folder, error);
  return std::ranges::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return IsHdf5Name(entry.path()) && !entry.is_directory(error);
  });
}

struct DemonstrationFiles::Search {
  const H5File& file;
  std::size_t index;  // of the file
  std::optional<std::string> action;
  std::set<std::string> seen = {};  // groups without actions: several links may lead to one
  std::vector<std::string> left_out = {};
  std::vector<std::string> strays = {};  // actions above episodes, or in groups of an episode
};

DemonstrationFiles::DemonstrationFiles(const DemonstrationQuery& query)
    : path_(query.path), files_(ListFiles(query.path)) {
  for (std::size_t i = 0; i < files_.size(); ++i) AddFile(i, query);
  CountSteps();
}

void DemonstrationFiles::AddFile(std::size_t index, const DemonstrationQuery& query) {
  const std::shared_ptr<const H5File> file = Open(index);
  Search search{.file = *file, .index = index, .action = query.action};
  if (!action_.empty()) search.action = action_;
  const std::size_t n_before = demonstrations_.size();
  if (query.filter_key) {
    AddListed(*query.filter_key, &search);
  } else {
    FindBelow("", kMaxDepth, &search);
  }
  if (demonstrations_.size() == n_before) {
    RefuseLayout(*file, search.action ? fmt::format("groups with an array '{}'", *search.action)
                                      : "robomimic's layout (data/demo_<n>/actions and obs/<key>) "
                                        "or ACT's (action and observations/<key>)");
  }
  if (!search.left_out.empty()) {
    reader::WarnUser(fmt::format("{}: left out groups without an array '{}' ({}): {}",
                                 files_[index].string(), action_, search.left_out.size(),
                                 reader::ListFirst(search.left_out)));
  }
  if (!search.strays.empty()) {
    reader::WarnUser(fmt::format("{}: left out actions that are above or inside episodes ({}): {}",
                                 files_[index].string(), search.strays.size(),
                                 reader::ListFirst(search.strays)));
  }
  ReadRate(*file, index);
}

bool HasObservations(const H5File& file, const std::string& group) {
  return std::ranges::any_of(kObservations, [&](const std::string& name) {
    return file.Find(Join(group, name)) == Object::kGroup;
  });
}

bool DemonstrationFiles::HasAction(const std::string& group, Search* search) {
  for (const std::string& name :
       search->action ? std::vector<std::string>{*search->action} : kActions) {
    const Object kind = search->file.Find(Join(group, name));
    if (kind != Object::kArray && kind != Object::kBrokenLink) continue;
    action_ = name;
    search->action = name;
    return true;
  }
  return false;
}

// Whether there are episodes with observations below a group. Notes other groups with actions.
bool DemonstrationFiles::IsAboveEpisodes(const std::string& group, int depth, Search* search) {
  if (depth == 0) return false;
  const std::optional<std::string> asked = search->action;
  for (const std::string& name : search->file.Names(group)) {
    const std::string path = Join(group, name);
    if (std::ranges::find(kObservations, name) != kObservations.end()) continue;
    if (search->file.Find(path) != Object::kGroup) continue;
    if (!search->seen.insert(search->file.Identity(path)).second) continue;
    if (HasAction(path, search)) {
      if (HasObservations(search->file, path)) return true;
      search->left_out.push_back(path);
      search->action = asked;
    }
    if (IsAboveEpisodes(path, depth - 1, search)) return true;
  }
  return false;
}

// Whether the actions that were found in `group` are not those of an episode.
bool DemonstrationFiles::IsStray(const std::string& group, int depth,
                                 const std::optional<std::string>& asked, Search* search) {
  if (!group.empty() && HasObservations(search->file, group)) return false;
  Search below{.file = search->file,
               .index = search->index,
               .action = asked,
               .seen = {search->file.Identity(group)}};
  const std::string found = action_;
  const bool is_stray = IsAboveEpisodes(group, depth, &below);
  action_ = found;
  if (!is_stray) {
    search->strays.insert(search->strays.end(), below.left_out.begin(), below.left_out.end());
  }
  return is_stray;
}

// Whether `group` is an episode. If not, looks at the groups in it.
bool DemonstrationFiles::FindBelow(const std::string& group, int depth, Search* search) {
  const std::optional<std::string> asked = search->action;
  if (HasAction(group, search)) {
    if (!IsStray(group, depth, asked, search)) {
      demonstrations_.push_back({.file = search->index, .group = group});
      return true;
    }
    search->strays.push_back(Join(group, *search->action));
    search->action = asked;
  }
  if (!search->seen.insert(search->file.Identity(group)).second || depth == 0) return false;
  bool has_episode = false;
  std::vector<std::string> others;
  for (const std::string& name : search->file.Names(group)) {
    const std::string path = Join(group, name);
    if (search->file.Find(path) != Object::kGroup) continue;
    const bool is_known = search->seen.contains(search->file.Identity(path));
    const std::size_t n_before = demonstrations_.size();
    const bool is_episode = FindBelow(path, depth - 1, search);
    has_episode = has_episode || is_episode;
    if (demonstrations_.size() == n_before && !is_known) others.push_back(path);
  }
  if (has_episode) {
    search->left_out.insert(search->left_out.end(), others.begin(), others.end());
  }
  return false;
}

// robomimic's order is that of the numbers too.
void DemonstrationFiles::AddListed(const std::string& filter_key, Search* search) {
  const std::string mask = "mask/" + filter_key;
  if (search->file.Find(mask) != Object::kArray) {
    const bool has_masks = search->file.Find("mask") == Object::kGroup;
    search->file.Fail(
        mask, "expected a list of demonstrations; the file has {}",
        has_masks ? fmt::format("the filter keys {}", fmt::join(search->file.Names("mask"), ", "))
                  : "no filter keys");
  }
  std::vector<std::string> names = search->file.Texts(mask);
  std::ranges::sort(names, &NaturalLess);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    search->file.Fail(mask, *twice + " is there twice");
  }
  for (const std::string& name : names) {
    const std::string group = Join("data", name);
    if (!HasAction(group, search)) {
      search->file.Fail(mask, "it names '{}', but there are no actions in /{}", name, group);
    }
    demonstrations_.push_back({.file = search->index, .group = group});
  }
}

// Leaves out episodes without steps.
void DemonstrationFiles::CountSteps() {
  std::vector<std::string> empty;
  for (Demonstration& demonstration : demonstrations_) {
    const std::shared_ptr<const H5File> file = Open(demonstration);
    const std::string path = demonstration.Path(action_);
    demonstration.n_steps = file->Header(path).shape[0];
    if (demonstration.n_steps == 0) empty.push_back(file->Describe(demonstration.group));
    const auto stated = file->NumberAttribute(demonstration.group, "num_samples");
    if (!stated || *stated == static_cast<double>(demonstration.n_steps)) continue;
    file->Fail(path, "expected {} steps, as num_samples of the demonstration says, found {}",
               *stated, demonstration.n_steps);
  }
  if (empty.empty()) return;
  if (empty.size() == demonstrations_.size()) {
    Open(0)->Fail("", "expected episodes with steps, found only empty ones");
  }
  reader::WarnUser(fmt::format("{}: {} of {} episodes have no steps and are left out: {}",
                               path_.string(), empty.size(), demonstrations_.size(),
                               reader::ListFirst(empty)));
  std::erase_if(demonstrations_, [](const Demonstration& one) { return one.n_steps == 0; });
}

void DemonstrationFiles::ReadRate(const H5File& file, std::size_t index) {
  std::optional<double> fps = file.NumberAttribute("", kRateAttribute);
  if (const bool is_robomimic = file.Find("data") == Object::kGroup; is_robomimic && !fps) {
    const nlohmann::json env =
        core::TryParseJson(file.TextAttribute("data", "env_args").value_or(""));
    const nlohmann::json rate = core::ValueAt(env, "/env_kwargs/control_freq");
    if (rate.is_number()) fps = rate.get<double>();
  }
  if (fps && !(*fps >= reader::kMinFps && *fps <= reader::kMaxFps)) {
    file.Fail("", "expected a rate of {} to {} Hz, found {}", reader::kMinFps, reader::kMaxFps,
              *fps);
  }
  if (index > 0 && fps != fps_) {
    file.Fail("", "expected the rate of {}, {} Hz; found {} Hz", files_[0].string(),
              fps_.value_or(0.0), fps.value_or(0.0));
  }
  fps_ = fps;
}

std::vector<DemonstrationFiles::NamedArray> DemonstrationFiles::Observations() const {
  const Demonstration& first = demonstrations_[0];
  const std::shared_ptr<const H5File> file = Open(first);
  std::vector<NamedArray> arrays;
  for (const std::string& group : kObservations) {
    if (file->Find(first.Path(group)) != Object::kGroup) continue;
    AddBelow(*file, first, group, "", kMaxDepth, &arrays);
    break;
  }
  for (const std::string& name : kOtherArrays) {
    const std::string path = first.Path(name);
    if (file->Find(path) != Object::kArray) continue;
    if (file->TextAttribute(path, kTypeAttribute)) arrays.push_back({.key = name, .array = name});
  }
  if (file->Find(first.Path(kBaseAction)) == Object::kArray) {
    arrays.push_back({.key = kBaseAction, .array = kBaseAction});
  }
  return arrays;
}

void DemonstrationFiles::AddBelow(const H5File& file, const Demonstration& of,
                                  const std::string& group, const std::string& begin, int depth,
                                  std::vector<NamedArray>* arrays) const {
  for (const std::string& name : file.Names(of.Path(group))) {
    const std::string array = Join(group, name);
    if (depth > 0 && file.Find(of.Path(array)) == Object::kGroup) {
      const bool is_act = begin.empty() && name + "/" == kImages;
      AddBelow(file, of, array, is_act ? "" : begin + name + "_", depth - 1, arrays);
      continue;
    }
    arrays->push_back({.key = begin + name, .array = array});
    if (arrays->size() > kMaxArrays) {
      file.Fail(of.Path(group), "expected at most {} observations", kMaxArrays);
    }
  }
}

// By their names only, which takes one look at a group.
void DemonstrationFiles::LeaveOutLater() {
  std::map<std::string, std::vector<std::string>> later;  // episodes by array
  std::set<std::string> known;
  std::set<std::string> groups(kObservations.begin(), kObservations.end());
  const Demonstration& first = demonstrations_[0];
  for (const Demonstration& one : demonstrations_) {
    const std::shared_ptr<const H5File> file = Open(one);
    for (const std::string& group : groups) {
      if (file->Find(one.Path(group)) != Object::kGroup) continue;
      for (const std::string& name : file->Names(one.Path(group))) {
        const std::string array = Join(group, name);
        if (&one != &first) {
          if (!known.contains(array)) later[array].push_back(file->Describe(one.group));
          continue;
        }
        known.insert(array);
        // a set may grow while it is walked through: obs/robot comes after obs
        const bool may_nest = std::ranges::count(array, '/') <= kMaxDepth;
        if (may_nest && file->Find(one.Path(array)) == Object::kGroup) groups.insert(array);
      }
    }
    const bool has_base = file->Find(one.Path(kBaseAction)) == Object::kArray;
    if (has_base && &one == &first) known.insert(kBaseAction);
    if (has_base && !known.contains(kBaseAction)) {
      later[kBaseAction].push_back(file->Describe(one.group));
    }
  }
  for (const auto& [array, episodes] : later) {
    LeaveOut(array, fmt::format("in {} of {} episodes, from {} on, but not in the first",
                                episodes.size(), demonstrations_.size(), episodes[0]));
  }
}

void DemonstrationFiles::LeaveOut(const std::string& array, const std::string& why) {
  left_out_.push_back(fmt::format("{} ({})", array, why));
}

void DemonstrationFiles::WarnOfLeftOut() const {
  if (left_out_.empty()) return;
  reader::WarnUser(fmt::format("{}: arrays that are not read ({}): {}", path_.string(),
                               left_out_.size(), reader::ListFirst(left_out_)));
}

std::shared_ptr<const H5File> DemonstrationFiles::Open(std::size_t file) const {
  const std::lock_guard lock(mutex_);
  for (auto it = open_.begin(); it != open_.end(); ++it) {
    if (it->first != file) continue;
    open_.splice(open_.begin(), open_, it);
    return open_.front().second;
  }
  open_.emplace_front(file, std::make_shared<const H5File>(files_[file]));
  if (open_.size() > kMaxOpenFiles) open_.pop_back();
  return open_.front().second;
}

}  // namespace dp_bench::hdf5
