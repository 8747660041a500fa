// See usual_value.h.
#include "inspect/usual_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench::inspect {
namespace {

constexpr double kMadToDeviation = 1.483;  // of a normal distribution

}  // namespace

double UsualValue::Distance(double value) const { return std::abs(value - median) / deviation; }

double MedianOf(std::vector<double> values) {
  DPB_ASSERT(!values.empty());
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

UsualValue UsualOf(const std::vector<double>& values, double smallest) {
  DPB_ASSERT(smallest > 0.0);
  UsualValue usual = {.median = MedianOf(values)};
  std::vector<double> distances = values;
  for (double& value : distances) value = std::abs(value - usual.median);
  usual.deviation = std::max(kMadToDeviation * MedianOf(std::move(distances)), smallest);
  return usual;
}

std::vector<std::string> DescribeRuns(const std::string& key,
                                      const std::vector<UnusualEpisode>& found) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0; begin < found.size();) {
    std::size_t end = begin + 1;
    while (end < found.size() && found[end].episode == found[end - 1].episode + 1 &&
           found[end].what == found[begin].what) {
      ++end;
    }
    const std::int64_t first = found[begin].episode;
    const std::int64_t last = found[end - 1].episode;
    std::string text = first == last ? fmt::format("'{}' in episode {}", key, first)
                                     : fmt::format("'{}' in episodes {} to {}", key, first, last);
    text += ", from step 0";
    if (!found[begin].what.empty()) text += ": " + found[begin].what;
    runs.push_back(std::move(text));
    begin = end;
  }
  return runs;
}

}  // namespace dp_bench::inspect
