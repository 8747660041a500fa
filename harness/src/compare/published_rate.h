// Is a published success rate credible, given our own episodes?
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "compare/intervals.h"

namespace dp_bench::compare {

/// What others reported.
struct PublishedRate {
  double rate = 0.0;
  int n_success = 0;  // rate * n, rounded
  int n = 0;          // 0: not published; the rate counts as exact
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PublishedRate, rate, n_success, n)

/// Reads "403/500", a rate with its episodes ("0.806/500", "80.6%/500"), or a rate alone. Throws
/// Error{kUsage}.
PublishedRate ParsePublishedRate(std::string_view text);

struct PublishedCheck {
  PublishedRate published;
  RateInterval ours;  // Wilson, 95 %
  /// Published minus ours, 95 % (Newcombe). For an exact rate that is `published` minus `ours`.
  DifferenceInterval difference;
  /// Two-sided: Fisher's exact test of two independent runs; for an exact rate the binomial one.
  double p_exact = 1.0;
  /// The rates that as many episodes like ours have with 95 %: beta-binomial, from Jeffreys's prior
  /// Beta(1/2, 1/2). For an exact rate the same as `ours`.
  double predicted_low = 0.0;
  double predicted_high = 1.0;
  /// Episodes that show this difference with power 80 %: of each side, for an exact rate of ours.
  std::optional<int> n_to_detect;

  bool is_credible() const { return p_exact >= 0.05; }
};

/// `n_success` of `n` independent episodes are ours; n > 0.
PublishedCheck CheckPublished(const PublishedRate& published, int n_success, int n);

/// With format and verdict: "credible", "ours is lower" or "ours is higher".
nlohmann::json ToJson(const PublishedCheck& check);

}  // namespace dp_bench::compare
