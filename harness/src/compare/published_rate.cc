#include "compare/published_rate.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "core/errors.h"
#include "core/json.h"
#include "core/parse_number.h"

namespace dp_bench::compare {
namespace {

[[noreturn]] void RefusePublished(std::string_view text) {
  throw UsageError(
      "--published '{}': expected successes and episodes (403/500), a rate and episodes (0.806/500 "
      "or 80.6%/500), or a rate alone",
      text);
}

double LogBeta(double x, double y) {
  return boost::math::lgamma(x) + boost::math::lgamma(y) - boost::math::lgamma(x + y);
}

// The number of successes in n episodes whose rate has the density Beta(a, b): the largest with at
// most `below` of the probability under it. Each probability follows from the one before.
int BetaBinomialQuantile(int n, double a, double b, double below) {
  double log_p = LogBeta(a, n + b) - LogBeta(a, b);  // of 0 successes
  double sum = std::exp(log_p);
  int k = 0;
  while (k < n && sum <= below) {
    log_p += std::log((n - k) * (k + a) / ((k + 1.0) * (n - k - 1.0 + b)));
    sum += std::exp(log_p);
    ++k;
  }
  return k;
}

// 2.5 % of the probability are below the first, 2.5 % above the second.
void Predict(PublishedCheck* check) {
  const int n = check->published.n;
  const double a = check->ours.n_success + 0.5;
  const double b = check->ours.n - check->ours.n_success + 0.5;
  check->predicted_low = static_cast<double>(BetaBinomialQuantile(n, a, b, 0.025)) / n;
  // from the other end, where the sum of small probabilities is exact too
  check->predicted_high = static_cast<double>(n - BetaBinomialQuantile(n, b, a, 0.025)) / n;
}

// Twice the smaller tail.
double BinomialExactP(int n_success, int n, double rate) {
  const boost::math::binomial of_rate(n, rate);
  const double at_most = cdf(of_rate, n_success);
  const double at_least = n_success == 0 ? 1.0 : cdf(complement(of_rate, n_success - 1));
  return std::min(1.0, 2.0 * std::min(at_most, at_least));
}

}  // namespace

PublishedRate ParsePublishedRate(std::string_view text) {
  constexpr int kMostEpisodes = 100'000'000;
  const std::size_t slash = text.find('/');
  std::string_view first = text.substr(0, slash);
  const bool is_percentage = first.ends_with('%');
  if (is_percentage) first.remove_suffix(1);
  const auto number = core::ParseNumber<double>(first);
  if (!number || !(*number >= 0.0)) RefusePublished(text);
  PublishedRate published;
  if (slash != std::string_view::npos) {
    const auto n = core::ParseNumber<double>(text.substr(slash + 1));
    if (!n || !(*n >= 1.0) || *n > kMostEpisodes || *n != std::floor(*n)) RefusePublished(text);
    published.n = static_cast<int>(*n);
  }
  const bool is_count =
      published.n > 0 && !is_percentage && first.find('.') == std::string_view::npos;
  const double rate = is_count ? *number / published.n : *number / (is_percentage ? 100.0 : 1.0);
  if (!(rate <= 1.0)) RefusePublished(text);
  published.n_success = static_cast<int>(std::lround(rate * published.n));
  published.rate = rate;
  return published;
}

PublishedCheck CheckPublished(const PublishedRate& published, int n_success, int n) {
  DPB_ASSERT(n > 0 && n_success >= 0 && n_success <= n);
  PublishedCheck check = {.published = published, .ours = WilsonInterval(n_success, n)};
  if (published.n > 0) {
    const RateInterval theirs = WilsonInterval(published.n_success, published.n);
    check.difference = NewcombeInterval(check.ours, theirs);
    check.p_exact = FisherExactP(check.ours, theirs);
    check.n_to_detect = EpisodesToDetect(check.ours.rate, published.rate);
    Predict(&check);
  } else {
    check.difference = {.difference = published.rate - check.ours.rate,
                        .low = published.rate - check.ours.high,
                        .high = published.rate - check.ours.low};
    check.p_exact = BinomialExactP(n_success, n, published.rate);
    check.n_to_detect = EpisodesToDetectFrom(published.rate, check.ours.rate);
    check.predicted_low = check.ours.low;
    check.predicted_high = check.ours.high;
  }
  return check;
}

nlohmann::json ToJson(const PublishedCheck& check) {
  const char* verdict = check.is_credible()                 ? "credible"
                        : check.difference.difference > 0.0 ? "ours is lower"
                                                            : "ours is higher";
  return {{"format", "dp_bench.compare.published.v1"},
          {"verdict", verdict},
          {"published", check.published},
          {"ours", check.ours},
          {"difference", check.difference},
          {"p_exact", check.p_exact},
          {"predicted_low", check.predicted_low},
          {"predicted_high", check.predicted_high},
          {"n_to_detect", core::OrNull(check.n_to_detect)}};
}

}  // namespace dp_bench::compare
