#include "compare/published_rate.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "core/errors.h"

namespace dp_bench::compare {
namespace {

std::optional<double> WholeNumber(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void RefusePublished(std::string_view text) {
  throw UsageError(
      "--published '{}': expected successes and episodes (403/500), a rate and episodes (0.806/500 "
      "or 80.6%/500), or a rate alone",
      text);
}

// ln of the probability of k successes in n episodes whose rate has the density Beta(a, b).
double LogBetaBinomial(int k, int n, double a, double b) {
  const auto log_beta = [](double x, double y) {
    return boost::math::lgamma(x) + boost::math::lgamma(y) - boost::math::lgamma(x + y);
  };
  return -std::log(n + 1.0) - log_beta(n - k + 1.0, k + 1.0) + log_beta(k + a, n - k + b) -
         log_beta(a, b);
}

// 2.5 % of the probability are below the first, 2.5 % above the second.
void Predict(PublishedCheck* check) {
  const int n = check->published.n;
  const double a = check->ours.n_success + 0.5;
  const double b = check->ours.n - check->ours.n_success + 0.5;
  double below = 0.0;
  int low = 0;
  int high = n;
  bool has_low = false;
  for (int k = 0; k <= n; ++k) {
    below += std::exp(LogBetaBinomial(k, n, a, b));
    if (!has_low && below > 0.025) {
      low = k;
      has_low = true;
    }
    if (below >= 0.975) {
      high = k;
      break;
    }
  }
  check->predicted_low = static_cast<double>(low) / n;
  check->predicted_high = static_cast<double>(high) / n;
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
  const std::optional<double> number = WholeNumber(first);
  if (!number || !(*number >= 0.0)) RefusePublished(text);
  PublishedRate published;
  if (slash != std::string_view::npos) {
    const std::optional<double> n = WholeNumber(text.substr(slash + 1));
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
    Predict(&check);
  } else {
    check.difference = {.difference = published.rate - check.ours.rate,
                        .low = published.rate - check.ours.high,
                        .high = published.rate - check.ours.low};
    check.p_exact = BinomialExactP(n_success, n, published.rate);
    check.predicted_low = check.ours.low;
    check.predicted_high = check.ours.high;
  }
  const double size = std::abs(check.difference.difference);
  if (size > 0.0) check.n_to_detect = EpisodesToDetect(check.ours.rate, size);
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
          {"n_to_detect", check.n_to_detect}};
}

}  // namespace dp_bench::compare
