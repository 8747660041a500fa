#include "data/hdf5/demonstrations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/json.h"
#include "data/reader/keyed_dataset.h"
#include "dp_bench/error.h"

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
const std::string kPictures = "images/";  // of ACT

// Arrays beside the observations. They are keys if dp_bench wrote them as keys.
const std::vector<std::string> kOtherArrays = {"rewards", "dones", "states"};
constexpr const char* kBaseAction = "base_action";

std::string Join(const std::string& group, const std::string& name) {
  return group.empty() ? name : group + "/" + name;
}

bool IsHdf5Name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".hdf5" || extension == ".h5" || extension == ".hdf";
}

std::vector<fs::path> ListFiles(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    if (IsHdf5Name(entry.path()) && entry.is_regular_file()) files.push_back(entry.path());
  }
  if (files.empty()) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: expected HDF5 files (*.hdf5, *.h5), found none", path.string()));
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
  file.Fail("", fmt::format(
                    "expected {}; found {}. Name the arrays in dataset.params.keys, relative to "
                    "the group of an episode.",
                    wanted, lines.empty() ? "nothing" : fmt::format("{}", fmt::join(lines, ", "))));
}

}  // namespace

struct DemonstrationFiles::Search {
  const H5File& file;
  std::size_t index;  // of the file
  std::optional<std::string> action;
  std::set<std::string> seen;  // groups: several links may lead to one
  std::vector<std::string> left_out;
};

DemonstrationFiles::DemonstrationFiles(const DemonstrationQuery& query)
    : path_(query.path), files_(ListFiles(query.path)) {
  for (std::size_t i = 0; i < files_.size(); ++i) AddFile(i, query);
  CountSteps();
}

void DemonstrationFiles::AddFile(std::size_t index, const DemonstrationQuery& query) {
  const std::shared_ptr<const H5File> file = Open(index);
  Search search{.file = *file, .index = index, .action = query.action, .seen = {}, .left_out = {}};
  if (!action_.empty()) search.action = action_;
  const std::size_t n_before = demonstrations_.size();
  if (query.filter_key) {
    AddListed(*query.filter_key, &search);
  } else {
    search.seen.insert(file->Identity(""));
    FindBelow("", kMaxDepth, &search);
  }
  if (demonstrations_.size() == n_before) {
    RefuseLayout(*file, search.action
                            ? fmt::format("groups with an array '{}'", *search.action)
                            : "robomimic's layout (data/demo_<n>/actions and obs/<key>) or ACT's "
                              "(action and observations/<key>)");
  }
  if (!search.left_out.empty()) {
    reader::WarnUser(fmt::format("{}: left out groups without an array '{}' ({}): {}",
                                 files_[index].string(), action_, search.left_out.size(),
                                 reader::ListFirst(search.left_out)));
  }
  ReadRate(*file, index);
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

// Whether `group` is an episode. If not, looks at the groups in it.
bool DemonstrationFiles::FindBelow(const std::string& group, int depth, Search* search) {
  if (HasAction(group, search)) {
    demonstrations_.push_back({.file = search->index, .group = group});
    return true;
  }
  if (depth == 0) return false;
  bool has_episode = false;
  std::vector<std::string> others;
  for (const std::string& name : search->file.Names(group)) {
    const std::string path = Join(group, name);
    if (search->file.Find(path) != Object::kGroup) continue;
    if (!search->seen.insert(search->file.Identity(path)).second) continue;
    const std::size_t n_before = demonstrations_.size();
    const bool is_episode = FindBelow(path, depth - 1, search);
    has_episode = has_episode || is_episode;
    if (demonstrations_.size() == n_before) others.push_back(path);
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
        mask, fmt::format("expected a list of demonstrations; the file has {}",
                          has_masks ? fmt::format("the filter keys {}",
                                                  fmt::join(search->file.Names("mask"), ", "))
                                    : "no filter keys"));
  }
  std::vector<std::string> names = search->file.Texts(mask);
  std::ranges::sort(names, &NaturalLess);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    search->file.Fail(mask, *twice + " is there twice");
  }
  for (const std::string& name : names) {
    const std::string group = Join("data", name);
    if (!HasAction(group, search)) {
      search->file.Fail(mask,
                        fmt::format("it names '{}', but there are no actions in /{}", name, group));
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
    file->Fail(path, fmt::format("expected {} steps, as num_samples of the demonstration says, "
                                 "found {}",
                                 *stated, demonstration.n_steps));
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
    const nlohmann::json::json_pointer rate("/env_kwargs/control_freq");
    if (env.is_object() && env.contains(rate) && env.at(rate).is_number()) {
      fps = env.at(rate).get<double>();
    }
  }
  if (fps && !(*fps >= reader::kMinFps && *fps <= reader::kMaxFps)) {
    file.Fail("", fmt::format("expected a rate of {} to {} Hz, found {}", reader::kMinFps,
                              reader::kMaxFps, *fps));
  }
  if (index > 0 && fps != fps_) {
    file.Fail("", fmt::format("expected the rate of {}, {} Hz; found {} Hz", files_[0].string(),
                              fps_.value_or(0.0), fps.value_or(0.0)));
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
      const bool is_act = begin.empty() && name + "/" == kPictures;
      AddBelow(file, of, array, is_act ? "" : begin + name + "_", depth - 1, arrays);
      continue;
    }
    arrays->push_back({.key = begin + name, .array = array});
    if (arrays->size() > kMaxArrays) {
      file.Fail(of.Path(group), fmt::format("expected at most {} observations", kMaxArrays));
    }
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
