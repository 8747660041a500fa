// Reads episodes from a CSV file: a header, then one step per line. The column `episode` numbers
// the episodes, columns `action.0`, `action.1`, ... are the action, and `<key>.0`, `<key>.1`, ...
// an observation. Replace it by a reader of your own format; the contract is in dp_bench/dataset.h.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "dp_bench/dataset.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"

namespace {

using dp_bench::Error;
using dp_bench::ErrorCode;

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') cells.emplace_back();
    if (c != ',' && c != '\r') cells.back() += c;
  }
  return cells;
}

class MyDataset final : public dp_bench::Dataset {
 public:
  // Everything that can be wrong is checked here, so that a training cannot fail in the middle.
  explicit MyDataset(const dp_bench::Config& params)
      : path_(params.Require<std::string>("path", "CSV file, relative to the current directory")) {
    spec_.fps = params.GetOptionalInRange("fps", 0.001, 1e5, "steps per second; none if unknown")
                    .value_or(0.0);
    std::ifstream file(path_);
    std::string line;
    if (!std::getline(file, line)) Fail(1, "expected a header, found nothing; is it a file?");
    ReadHeader(Cells(line));
    for (int number = 2; std::getline(file, line); ++number) ReadStep(number, Cells(line));
    ends_.push_back(n_steps_);
    if (n_steps_ == 0) Fail(2, "expected steps, found none");
  }

  const dp_bench::DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends_; }

 private:
  // Called by several threads at once: it only reads members. Read has checked the range.
  void DoRead(int key, std::int64_t begin, std::int64_t, std::span<std::byte> out) const override {
    const auto index = static_cast<std::size_t>(key);
    const auto width = static_cast<std::size_t>(spec_.keys[index].NumElements());
    std::memcpy(out.data(), values_[index].data() + static_cast<std::size_t>(begin) * width,
                out.size());
  }

  [[noreturn]] void Fail(int line, const std::string& what) const {
    throw Error(ErrorCode::kData, path_ + ", line " + std::to_string(line) + ": " + what);
  }

  void ReadHeader(const std::vector<std::string>& names) {
    std::map<std::string, std::int64_t> widths;  // in alphabetical order, as the spec needs it
    for (const std::string& name : names) {
      const std::string key = name.substr(0, name.rfind('.'));
      column_keys_.push_back(key);
      if (key == "episode") continue;
      if (name != key + "." + std::to_string(widths[key]++))
        Fail(1, "unexpected column '" + name + "'");
    }
    if (!widths.contains("action")) Fail(1, "expected a column action.0, found none");
    if (std::ranges::count(column_keys_, "episode") != 1) Fail(1, "expected one column episode");
    for (const auto& [name, width] : widths) spec_.keys.push_back({.name = name, .shape = {width}});
    values_.resize(spec_.keys.size());
  }

  void ReadStep(int line, const std::vector<std::string>& cells) {
    if (cells.size() != column_keys_.size())
      Fail(line, "expected " + std::to_string(column_keys_.size()) + " cells");
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (column_keys_[i] == "episode") {
        ReadEpisode(line, cells[i]);
        continue;
      }
      double value = 0.0;
      const char* const end = cells[i].data() + cells[i].size();
      const auto [parsed, error] = std::from_chars(cells[i].data(), end, value);
      if (parsed != end || error == std::errc::invalid_argument)
        Fail(line, "expected a number, found '" + cells[i] + "'");
      if (error != std::errc() || !(std::abs(value) <= std::numeric_limits<float>::max()))
        Fail(line, "expected a number in the range of float32, found '" + cells[i] + "'");
      values_[static_cast<std::size_t>(KeyIndex(column_keys_[i]))].push_back(
          static_cast<float>(value));
    }
    ++n_steps_;
  }

  // The episode of the next step.
  void ReadEpisode(int line, const std::string& name) {
    if (name.empty()) Fail(line, "expected an episode, found an empty cell");
    if (name == last_episode_) return;
    if (!episodes_.insert(name).second)
      Fail(line, "expected the steps of episode '" + name + "' one after the other");
    if (!last_episode_.empty()) ends_.push_back(n_steps_);
    last_episode_ = name;
  }

  std::string path_;
  dp_bench::DatasetSpec spec_;
  std::vector<std::string> column_keys_;
  std::vector<std::vector<float>> values_;  // by key
  std::vector<std::int64_t> ends_;
  std::set<std::string> episodes_;
  std::string last_episode_;
  std::int64_t n_steps_ = 0;
};

// Whether `--dataset PATH` is read by this plugin. Leave it out if only configs should name it.
bool IsCsv(const std::filesystem::path& path) { return path.extension() == ".csv"; }

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Dataset, "my_dataset", "0.1.0",
                  &dp_bench::CreateInstance<dp_bench::Dataset, MyDataset>, &IsCsv)
