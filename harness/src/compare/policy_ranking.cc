#include "compare/policy_ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>

#include "compare/sequential_test.h"
#include "core/errors.h"

namespace dp_bench::compare {
namespace {

constexpr double kAlpha = 0.05;
constexpr std::size_t kBets = 24;

// 0.02 to about 45. The best bet is about mean over variance of the differences, which is large for
// means over many tasks.
std::array<double, kBets> Bets() {
  std::array<double, kBets> bets;
  for (std::size_t k = 0; k < kBets; ++k) bets[k] = 0.02 * std::pow(1.4, static_cast<double>(k));
  return bets;
}

// ln(1 + tanh(x)); finite for every x
double LogFactor(double x) { return std::numbers::ln2 - std::log1p(std::exp(-2.0 * x)); }

// Equal differences are counted once: those of single episodes have three values.
double LogWealth(const std::map<double, int>& counts, double sign) {
  static const std::array<double, kBets> kAll = Bets();
  std::array<double, kBets> log_wealth = {};
  for (std::size_t k = 0; k < kBets; ++k) {
    for (const auto& [difference, n] : counts) {
      log_wealth[k] += n * LogFactor(sign * kAll[k] * difference);
    }
  }
  return LogMeanEvidence(log_wealth);
}

using LetterColumn = std::vector<bool>;  // which runs have this letter

bool IsWithin(const LetterColumn& inner, const LetterColumn& outer) {
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] && !outer[i]) return false;
  }
  return true;
}

// A column that adds nothing is absorbed by one that contains it.
void InsertAndAbsorb(const LetterColumn& column, std::vector<LetterColumn>* columns) {
  for (const LetterColumn& other : *columns) {
    if (IsWithin(column, other)) return;
  }
  std::erase_if(*columns, [&](const LetterColumn& other) { return IsWithin(other, column); });
  columns->push_back(column);
}

// A column with both runs becomes two columns, each without one of them.
std::vector<LetterColumn> Separated(const std::vector<LetterColumn>& columns, std::size_t a,
                                    std::size_t b) {
  std::vector<LetterColumn> separated;
  for (const LetterColumn& column : columns) {
    if (!(column[a] && column[b])) separated.push_back(column);
  }
  for (const LetterColumn& column : columns) {
    if (!(column[a] && column[b])) continue;
    for (const std::size_t removed : {a, b}) {
      LetterColumn part = column;
      part[removed] = false;
      InsertAndAbsorb(part, &separated);
    }
  }
  return separated;
}

std::string Letter(std::size_t index) {
  if (index < 26) return std::string(1, static_cast<char>('a' + index));
  return fmt::format("({})", index + 1);
}

}  // namespace

std::string RankText(const RankInterval& rank) {
  if (rank.best == rank.worst) return fmt::format("{}", rank.best);
  return fmt::format("{} to {}", rank.best, rank.worst);
}

PairEvidence EvidenceOf(std::span<const double> differences) {
  std::map<double, int> counts;
  for (const double difference : differences) {
    DPB_ASSERT(difference >= -1.0 && difference <= 1.0);
    if (difference != 0.0) ++counts[difference];  // a tie leaves all wealth as it is
  }
  return {.log_a_better = LogWealth(counts, 1.0), .log_b_better = LogWealth(counts, -1.0)};
}

void NameDifferences(std::span<RankedPair> pairs) {
  std::vector<double> log_evidence;
  for (const RankedPair& pair : pairs) {
    log_evidence.push_back(pair.evidence.log_a_better);
    log_evidence.push_back(pair.evidence.log_b_better);
  }
  const std::vector<bool> is_named = NameDrops(log_evidence, kAlpha);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].is_different = is_named[2 * i] || is_named[2 * i + 1];
  }
}

std::vector<RankInterval> RankIntervals(std::size_t n, std::span<const RankedPair> pairs) {
  struct Claim {
    double log_evidence;
    std::size_t better;
    std::size_t worse;
  };
  std::vector<Claim> claims;
  for (const RankedPair& pair : pairs) {
    DPB_ASSERT(pair.a < n && pair.b < n);
    claims.push_back({pair.evidence.log_a_better, pair.a, pair.b});
    claims.push_back({pair.evidence.log_b_better, pair.b, pair.a});
  }
  std::ranges::stable_sort(claims, std::ranges::greater(), &Claim::log_evidence);
  std::vector<RankInterval> ranks(n, {.best = 1, .worst = static_cast<int>(n)});
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const auto n_left = static_cast<double>(claims.size() - i);
    if (claims[i].log_evidence < std::log(n_left / kAlpha)) break;
    ++ranks[claims[i].worse].best;
    --ranks[claims[i].better].worst;
  }
  return ranks;
}

std::vector<std::string> LetterDisplay(
    std::size_t n, std::span<const std::pair<std::size_t, std::size_t>> different) {
  std::vector<LetterColumn> columns = {LetterColumn(n, true)};
  for (const auto& [a, b] : different) {
    DPB_ASSERT(a < n && b < n && a != b);
    columns = Separated(columns, a, b);
  }
  // columns that begin with the first runs come first
  std::ranges::sort(columns, std::greater<>());
  std::vector<std::string> letters(n);
  for (std::size_t column = 0; column < columns.size(); ++column) {
    for (std::size_t run = 0; run < n; ++run) {
      if (columns[column][run]) letters[run] += Letter(column);
    }
  }
  return letters;
}

std::vector<std::string> LettersByRate(std::span<const double> rates,
                                       std::span<const RankedPair> pairs) {
  std::vector<std::size_t> order(rates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return rates[i]; });
  std::vector<std::size_t> place(rates.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<std::pair<std::size_t, std::size_t>> different;
  for (const RankedPair& pair : pairs) {
    if (pair.is_different) different.emplace_back(place[pair.a], place[pair.b]);
  }
  const std::vector<std::string> sorted = LetterDisplay(rates.size(), different);
  std::vector<std::string> letters(rates.size());
  for (std::size_t i = 0; i < rates.size(); ++i) letters[i] = sorted[place[i]];
  return letters;
}

}  // namespace dp_bench::compare
