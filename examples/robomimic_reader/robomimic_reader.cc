// Reads demonstrations from an HDF5 file with robomimic's layout:
//
//   data/demo_<n>                       attribute num_samples: N steps
//   data/demo_<n>/actions               [N, Da]
//   data/demo_<n>/{rewards,dones}       [N], optional; only their length is checked
//   data/demo_<n>/obs/<key>             numbers [N, D...] or pictures uint8 [N, H, W, 3]
//   mask/<filter key>                   names of demonstrations
//
// Source: https://robomimic.github.io/docs/datasets/overview.html
#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "hdf5_file.h"

namespace robomimic_reader {
namespace {

using dp_bench::DType;
using dp_bench::Error;
using dp_bench::ErrorCode;
using dp_bench::KeySpec;
using dp_bench::KeyType;

constexpr std::string_view kPrefix = "demo_";

class RobomimicReader final : public dp_bench::Dataset {
 public:
  // Checks the headers of all demonstrations, so that a training cannot fail in the middle. Steps
  // stay in the file until they are read.
  explicit RobomimicReader(const dp_bench::Config& params)
      : RobomimicReader(
            params.Require<std::string>("path", "HDF5 file, relative to the current directory"),
            params.GetOptional<std::string>(
                "filter_key", "list of demonstrations in mask/, such as train; none for all"),
            params.Get<std::vector<std::string>>(
                "obs", {}, "observations to read; empty for all of the first demonstration"),
            params.GetInRange("fps", 20.0, 0.001, 1e5, "steps per second")) {}

  const dp_bench::DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }

  // Hdf5File lets one thread at a time read.
  void Read(int key, std::int64_t begin, std::int64_t end,
            std::span<std::byte> out) const override {
    if (key < 0 || static_cast<std::size_t>(key) >= spec_.keys.size() || begin < 0 || begin > end ||
        end > ends_.back()) {
      file_.Fail("data", "expected steps in 0 to " + std::to_string(ends_.back()) +
                             " of an existing key, found " + std::to_string(begin) + " to " +
                             std::to_string(end) + " of key " + std::to_string(key));
    }
    const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
    const std::size_t wanted = static_cast<std::size_t>(end - begin) * spec.ByteSize();
    if (out.size() != wanted) {
      file_.Fail(spec.name, "expected a buffer of " + std::to_string(wanted) + " bytes, found " +
                                std::to_string(out.size()));
    }
    auto demo = static_cast<std::size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
    for (; begin < end; ++demo) {
      const std::int64_t start = demo == 0 ? 0 : ends_[demo - 1];
      const std::int64_t stop = std::min(end, ends_[demo]);
      const std::size_t n_bytes = static_cast<std::size_t>(stop - begin) * spec.ByteSize();
      file_.ReadRows(ArrayPath(demos_[demo], spec.name), begin - start, stop - start, spec.dtype,
                     out.first(n_bytes));
      out = out.subspan(n_bytes);
      begin = stop;
    }
  }

 private:
  RobomimicReader(const std::string& path, const std::optional<std::string>& filter_key,
                  const std::vector<std::string>& obs, double fps)
      : file_(path), demos_(FindDemos(filter_key)) {
    spec_.fps = fps;
    const std::vector<std::string> found =
        obs.empty() ? file_.Names("data/" + demos_[0] + "/obs") : obs;
    std::set<std::string> names(found.begin(), found.end());  // alphabetical, as the spec needs it
    if (!names.insert("action").second) {
      file_.Fail("data/" + demos_[0] + "/obs", "an observation must not be called 'action'");
    }
    for (const std::string& name : names) spec_.keys.push_back(ReadKey(demos_[0], name));
    for (const std::string& demo : demos_) AddDemo(demo);
  }

  static std::string ArrayPath(const std::string& demo, const std::string& key) {
    return "data/" + demo + (key == "action" ? "/actions" : "/obs/" + key);
  }

  // In the order of their numbers, as robomimic reads them.
  std::vector<std::string> FindDemos(const std::optional<std::string>& filter_key) const {
    const std::string source = filter_key.has_value() ? "mask/" + *filter_key : "data";
    std::map<std::int64_t, std::string> demos;
    for (const std::string& name :
         filter_key.has_value() ? file_.Strings(source) : file_.Names(source)) {
      std::int64_t number = 0;
      const char* const end = name.data() + name.size();
      if (!name.starts_with(kPrefix) ||
          std::from_chars(name.data() + kPrefix.size(), end, number).ptr != end ||
          kPrefix.data() + std::to_string(number) != name) {
        file_.Fail(source,
                   "expected the name of a demonstration, such as demo_0, found '" + name + "'");
      }
      if (!demos.emplace(number, name).second) file_.Fail(source, name + " is there twice");
    }
    if (demos.empty()) file_.Fail(source, "expected demonstrations, found none");
    std::vector<std::string> names;
    for (const auto& [number, name] : demos) names.push_back(name);
    return names;
  }

  // The spec of a key according to the header of one demonstration's array.
  KeySpec ReadKey(const std::string& demo, const std::string& name) const {
    const std::string path = ArrayPath(demo, name);
    const ArrayHeader header = file_.Header(path);
    const dp_bench::Shape& shape = header.shape;  // [N, ...]
    if (std::ranges::find(shape, 0) != shape.end()) {
      file_.Fail(path, "expected data, found shape " + dp_bench::ToString(shape));
    }
    if (header.dtype == "uint8" && shape.size() == 4 && shape[3] == 3 && name != "action") {
      return {.name = name,
              .type = KeyType::kRgb,
              .shape = {3, shape[1], shape[2]},
              .dtype = DType::kUInt8};
    }
    const std::size_t max_rank = name == "action" ? 2 : 3;
    if ((header.dtype != "float32" && header.dtype != "float64") || shape.size() > max_rank) {
      file_.Fail(path, std::string("expected ") +
                           (name == "action" ? "float32 or float64 [N, Da]"
                                             : "float32 or float64 [N, D...], or pictures uint8 "
                                               "[N, H, W, 3]") +
                           ", found " + header.dtype + " " + dp_bench::ToString(shape) +
                           (name == "action" ? ""
                                             : "; name the observations to read in "
                                               "dataset.params.obs"));
    }
    return {.name = name,
            .shape = shape.size() == 1 ? dp_bench::Shape{1}
                                       : dp_bench::Shape(shape.begin() + 1, shape.end())};
  }

  void RequireLength(const std::string& path, std::int64_t n_steps) const {
    const std::int64_t found = file_.Header(path).shape[0];
    if (found == n_steps) return;
    file_.Fail(path, "expected " + std::to_string(n_steps) +
                         " steps, as num_samples of the demonstration says, found " +
                         std::to_string(found));
  }

  void AddDemo(const std::string& demo) {
    const std::string group = "data/" + demo;
    const std::int64_t n_steps = file_.Attribute(group, "num_samples");
    if (n_steps < 1) {
      file_.Fail(group, "expected num_samples of 1 or more, found " + std::to_string(n_steps));
    }
    for (const KeySpec& key : spec_.keys) {
      const std::string path = ArrayPath(demo, key.name);
      const KeySpec found = ReadKey(demo, key.name);
      RequireLength(path, n_steps);
      if (found == key) continue;
      file_.Fail(path, "expected steps of " + std::string(Name(key.dtype)) + " " +
                           dp_bench::ToString(key.StorageShape()) + ", as in " + demos_[0] +
                           ", found " + std::string(Name(found.dtype)) + " " +
                           dp_bench::ToString(found.StorageShape()));
    }
    for (const char* const name : {"/rewards", "/dones"}) {
      if (file_.Has(group + name)) RequireLength(group + name, n_steps);
    }
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + n_steps);
  }

  Hdf5File file_;
  std::vector<std::string> demos_;
  dp_bench::DatasetSpec spec_;
  std::vector<std::int64_t> ends_;
};

}  // namespace
}  // namespace robomimic_reader

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "robomimic_reader", "0.1.0",
                  &dp_bench::CreateInstance<dp_bench::Dataset, robomimic_reader::RobomimicReader>)
