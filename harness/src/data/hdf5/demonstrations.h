// Demonstrations in HDF5 files. An episode is a group with an array of actions and a group of
// observations:
//
//   robomimic, LIBERO   data/demo_<n>/{actions, obs/<key>, rewards, dones, states}, mask/<filter
//   key> ACT, ALOHA          {action, base_action, observations/{qpos, qvel, images/<camera>}}
//
// Sources: https://robomimic.github.io/docs/datasets/overview.html and the recording scripts of
// https://github.com/tonyzhaozh/act.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/hdf5/h5_file.h"

namespace dp_bench::hdf5 {

/// The attribute in which dp_bench notes the type of an array that it wrote, a Name(KeyType).
inline constexpr const char* kTypeAttribute = "dp_bench_type";

/// The attribute of such an array with the names of the numbers of a step, a list in JSON.
inline constexpr const char* kChannelsAttribute = "dp_bench_channels";

/// The attribute with the rate, at the root. robomimic has it in the JSON text env_args.
inline constexpr const char* kRateAttribute = "fps";

struct Demonstration {
  std::string Path(const std::string& array) const {
    return group.empty() ? array : group + "/" + array;
  }

  std::size_t file = 0;
  std::string group;  // in the file; empty for the root
  std::int64_t n_steps = 0;
};

struct DemonstrationQuery {
  std::filesystem::path path;             // a file, or a folder of them
  std::optional<std::string> action;      // the array, below the episode's group; none to look
  std::optional<std::string> filter_key;  // a list of demonstrations in mask/
};

/// *.hdf5, *.h5 and *.hdf, in any case.
bool IsHdf5Name(const std::filesystem::path& path);

/// Whether there are files with such names in it.
bool HasHdf5Files(const std::filesystem::path& folder);

class DemonstrationFiles {
 public:
  /// Looks for episodes in all files, in the order of the numbers in their names. Warns of what it
  /// leaves out. Throws Error{kData} that lists what the file holds if there is none.
  explicit DemonstrationFiles(const DemonstrationQuery& query);

  const std::vector<Demonstration>& demonstrations() const { return demonstrations_; }

  /// Below the group of every episode.
  const std::string& action() const { return action_; }

  /// None if the files do not say it.
  std::optional<double> fps() const { return fps_; }

  /// The arrays of observations of the first episode, and what else dp_bench wrote as keys.
  struct NamedArray {
    std::string key;
    std::string array;  // below the group of the episode
  };
  std::vector<NamedArray> Observations() const;

  /// Notes an array that is not read, for one warning about all of them.
  void LeaveOut(const std::string& array, const std::string& why);
  void WarnOfLeftOut() const;

  /// Notes the observations that only episodes after the first one have.
  void LeaveOutLater();

  /// May be called from several threads. Only some files stay open.
  std::shared_ptr<const H5File> Open(std::size_t file) const;
  std::shared_ptr<const H5File> Open(const Demonstration& demonstration) const {
    return Open(demonstration.file);
  }

 private:
  struct Search;

  void AddFile(std::size_t file, const DemonstrationQuery& query);
  bool FindBelow(const std::string& group, int depth, Search* search);
  bool HasAction(const std::string& group, Search* search);
  bool IsAboveEpisodes(const std::string& group, int depth, Search* search);
  bool IsStray(const std::string& group, int depth, const std::optional<std::string>& asked,
               Search* search);
  void AddListed(const std::string& filter_key, Search* search);
  void CountSteps();
  void ReadRate(const H5File& file, std::size_t index);
  void AddBelow(const H5File& file, const Demonstration& of, const std::string& group,
                const std::string& begin, int depth, std::vector<NamedArray>* arrays) const;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> files_;
  std::vector<Demonstration> demonstrations_;
  std::string action_;
  std::optional<double> fps_;
  std::vector<std::string> left_out_;  // arrays, with the reason
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::size_t, std::shared_ptr<const H5File>>> open_;  // newest first
};

}  // namespace dp_bench::hdf5
