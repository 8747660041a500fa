#include "remote/policy_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/errors.h"

namespace dp_bench::remote {
namespace {

using Clock = net::Connection::Clock;

constexpr int kConnections = 8;

// An episode that asked nothing while the others asked this often each has ended.
constexpr std::uint64_t kRoundsOfSilence = 8;

// A server may answer with a page; it is printed with every episode.
constexpr std::size_t kMaxRefusal = 2000;

// How many questions the server plans at once, if it says so.
int BatchOf(const wire::Map& metadata) {
  const auto* const n = OwnEntry<std::int64_t>(metadata, "micro_batch");
  constexpr std::int64_t kMost = 64;  // that serve lets in, unless told otherwise
  return n == nullptr ? kConnections : static_cast<int>(std::clamp<std::int64_t>(*n, 1, kMost));
}

Question BlankQuestion(const PolicySpec& spec) {
  Question question;
  for (const KeySpec& key : spec.shape_meta.obs) {
    Shape shape = key.StorageShape();
    shape.insert(shape.begin(), spec.horizons.n_obs_steps);
    question.obs.emplace(key.name, Array(key.dtype, shape));
  }
  return question;
}

// Before an overloaded server is asked again, and for all connections to notice that it has gone.
constexpr std::chrono::milliseconds kPause{50};

}  // namespace

PolicyClient::PolicyClient(PolicyClientOptions options, std::unique_ptr<Dialect> dialect,
                           const PolicySpec& spec)
    : options_(std::move(options)), dialect_(std::move(dialect)), spec_(spec) {
  if (options_.url.empty() && options_.server == nullptr) {
    throw ConfigError(
        "expected policy.params.url, the address of a policy server, or policy.params.command, "
        "which starts one; found neither");
  }
  lines_.resize(1);
  try {
    Open(lines_.front());
  } catch (const net::NetError& error) {
    throw PluginError("the policy server cannot be asked: {}{}. Is it running?", error.what(),
                      Ending());
  } catch (Error& error) {
    error.AddContext("while the policy server " + options_.url + " greeted");
    throw;
  }
  dialect_->Ask(BlankQuestion(spec));  // finds names that clash before an episode begins
  n_at_once_ = static_cast<std::size_t>(options_.n_connections.value_or(BatchOf(metadata_)));
  lines_.resize(n_at_once_);
}

void PolicyClient::Open(Line& line) {
  line.Close();
  if (options_.server != nullptr) {
    try {
      options_.url = options_.server->Url();
    } catch (const Error& error) {
      throw net::NetError(net::NetFault::kDisconnected, error.what());
    }
    line.n_starts = options_.server->n_starts();
  }
  const auto until = Clock::now() + options_.connect_time;
  auto connection = dialect_->Connect(options_.url, options_.api_key, until);
  metadata_ = dialect_->Greet(*connection, until);
  line.connection = std::move(connection);  // only now: a refused greeting must not be forgotten
  counts_.n_reconnects += line.was_open ? 1 : 0;
  line.was_open = true;
}

// The line was connected, but the server has gone since, or is another process now.
bool PolicyClient::IsLost(const Line& line) const {
  ServerProcess* const server = options_.server;
  if (line.connection == nullptr) return false;
  if (server == nullptr) return line.connection->IsBroken();
  return !server->IsRunning() || server->n_starts() != line.n_starts;
}

// Returns once the server can be asked. It may need some time to start again.
void PolicyClient::AwaitServer() {
  const bool is_there = std::ranges::any_of(
      lines_, [&](const Line& line) { return line.connection != nullptr && !IsLost(line); });
  if (is_there) return;
  const auto until = Clock::now() + options_.connect_time;
  while (true) {
    try {
      Open(lines_.front());
      return;
    } catch (const std::exception& error) {
      const bool may_return = options_.server == nullptr || options_.server->IsRunning();
      if (!may_return || Clock::now() >= until) {
        throw UnavailableError("the policy server has gone: {}", error.what());
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

// With a stateful server, that of the episode, or for a new one that of an episode which has ended;
// else the one that was not used for the longest time.
std::size_t PolicyClient::LineFor(const Question& question, std::span<const char> is_taken) {
  std::size_t oldest = lines_.size();
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const bool is_own = lines_[i].episode == question.seed;
    if (dialect_->is_stateful() && is_own && question.step > 0) return i;
    if (i < is_taken.size() && is_taken[i]) continue;
    if (oldest == lines_.size() || lines_[i].last_used < lines_[oldest].last_used) oldest = i;
  }
  const bool is_there = oldest < lines_.size();
  const bool may_run = is_there && lines_[oldest].episode &&
                       clock_ - lines_[oldest].last_used < kRoundsOfSilence * RunningEpisodes();
  if (is_there && !may_run) return oldest;
  if (lines_.size() >= most_lines_) return is_there ? oldest : 0;
  lines_.emplace_back();
  return lines_.size() - 1;
}

// How many episodes run, if they ask in turn: the lines that were used within two rounds of them.
// Those of ended episodes must not count, or else there would be more of them with each one.
std::size_t PolicyClient::RunningEpisodes() const {
  std::size_t n = n_at_once_;
  while (true) {
    const auto n_recent = static_cast<std::size_t>(std::ranges::count_if(
        lines_, [&](const Line& line) { return line.episode && clock_ - line.last_used < 2 * n; }));
    if (n_recent <= n) return n;
    n = n_recent;
  }
}

void PolicyClient::Send(Line& line, const Question& question, Clock::time_point until) {
  if (line.connection == nullptr || IsLost(line)) Open(line);
  line.last_used = ++clock_;
  if (dialect_->is_stateful() && (question.step == 0 || line.episode != question.seed)) {
    if (question.step > 0) {
      throw net::NetError(net::NetFault::kDisconnected,
                          "the connection was lost, and the server has forgotten the episode");
    }
    for (Line& other : lines_) {  // an episode that begins again is no longer on its old line
      if (other.episode == question.seed) other.episode.reset();
    }
    if (auto begin = dialect_->Begin(question)) line.connection->Send(std::move(*begin), until);
    line.episode = question.seed;
    line.step.reset();
  }
  if (dialect_->is_stateful()) RequireNextStep(line, question);
  line.step = question.step;
  line.connection->Send(dialect_->Ask(question), until);
}

// A second episode with the same seed would be answered from the memory of the first.
void PolicyClient::RequireNextStep(const Line& line, const Question& question) {
  if (!line.step || question.step > *line.step) return;
  throw DataError(
      "two episodes with the seed {} are played at once, and the server knows an episode by its "
      "seed: it was asked about step {} after step {}. Play them one after the other "
      "(env_runner.n_envs=1), or give the splits other start seeds",
      question.seed, question.step, *line.step);
}

void PolicyClient::RequireChunk(const Reply& reply) const {
  const auto n_actions = static_cast<std::size_t>(spec_.horizons.n_action_steps);
  const auto n = static_cast<std::size_t>(spec_.shape_meta.action_dim());
  const bool is_single = reply.shape.size() == 1 && n_actions == 1;
  const bool fits = !reply.shape.empty() && reply.shape.size() <= 2 &&
                    reply.shape.back() == spec_.shape_meta.action_dim() &&
                    reply.actions.size() >= n_actions * n && (reply.shape.size() == 2 || is_single);
  if (fits) return;
  throw DataError(
      "the server's actions have shape {}, expected [{} or more, {}] (n_action_steps, action)",
      ToString(reply.shape), n_actions, n);
}

// Returns false if the question should be asked again.
bool PolicyClient::Receive(Line& line, Clock::time_point until, Outcome* outcome) {
  const Reply reply = dialect_->Read(line.connection->Receive(until));
  if (!reply.refusal.empty()) {
    outcome->fault = "policy_error: " + reply.refusal.substr(0, kMaxRefusal);
    if (reply.is_overloaded) return false;
    // if it was of the beginning, another answer follows
    if (dialect_->is_stateful()) line.Close();
    return true;
  }
  RequireChunk(reply);
  const auto n =
      static_cast<std::size_t>(spec_.horizons.n_action_steps * spec_.shape_meta.action_dim());
  outcome->fault.clear();
  outcome->chunk.assign(reply.actions.begin(),
                        reply.actions.begin() + static_cast<std::ptrdiff_t>(n));
  return true;
}

// The server lets no more connections in than there are.
void PolicyClient::NoteFull() {
  const auto n_open =
      std::ranges::count_if(lines_, [](const Line& line) { return line.connection != nullptr; });
  most_lines_ = static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, n_open));
}

std::string PolicyClient::FaultOf(const net::NetError& error, bool is_connected) {
  const bool has_ended = options_.server != nullptr && !options_.server->IsRunning();
  if (error.fault() != net::NetFault::kTimeout || has_ended) {
    return fmt::format("policy_disconnected: {}{}", error.what(), Ending());
  }
  ++counts_.n_timeouts;
  const auto time = is_connected ? options_.answer_time : options_.connect_time;
  return fmt::format("policy_timeout: {} (policy.params.{} is {:g} s)", error.what(),
                     is_connected ? "timeout" : "connect_timeout",
                     1e-3 * static_cast<double>(time.count()));
}

// Of the server's program, if that is why it does not answer.
std::string PolicyClient::Ending() const {
  const std::string how = options_.server == nullptr ? "" : options_.server->Ending();
  return how.empty() ? "" : "; its program " + how;
}

// Asks the waiting questions at once. Returns those to ask again.
std::vector<std::size_t> PolicyClient::AskWave(std::span<const Question> questions,
                                               std::span<const std::size_t> waiting,
                                               std::vector<Outcome>* outcomes) {
  std::vector<std::size_t> again;
  std::vector<Attempt> sent;
  std::vector<char> is_taken;
  may_be_gone_ = false;
  const auto lose = [&](std::size_t chosen, std::size_t question, const net::NetError& error) {
    Line& line = lines_[chosen];
    if (line.connection == nullptr && !line.was_open) NoteFull();
    may_be_gone_ =
        may_be_gone_ || line.connection == nullptr || error.fault() == net::NetFault::kDisconnected;
    (*outcomes)[question].fault = FaultOf(error, line.connection != nullptr);
    line.Close();
    line.last_used = ++clock_;  // the others are tried first
    // a stateful server has forgotten the episode
    if (!dialect_->is_stateful() || questions[question].step == 0) again.push_back(question);
  };
  for (const std::size_t question : waiting) {
    const std::size_t chosen = LineFor(questions[question], is_taken);
    is_taken.resize(lines_.size());
    is_taken[chosen] = 1;
    const auto until = Clock::now() + options_.answer_time;
    try {
      Send(lines_[chosen], questions[question], until);
      sent.push_back({question, chosen, until});
    } catch (const net::NetError& error) {
      lose(chosen, question, error);
    } catch (const std::exception& error) {  // also of a socket or a thread that cannot be made
      (*outcomes)[question].fault = fmt::format("policy_error: {}", error.what());
    }
  }
  for (const Attempt& attempt : sent) {
    Line& line = lines_[attempt.line];
    Outcome& outcome = (*outcomes)[attempt.question];
    try {
      if (!Receive(line, attempt.until, &outcome)) {
        line.step.reset();  // the same one is asked about again
        again.push_back(attempt.question);
      }
    } catch (const net::NetError& error) {
      lose(attempt.line, attempt.question, error);
    } catch (const std::exception& error) {
      line.Close();
      outcome.fault = fmt::format("policy_error: {}", error.what());
    }
  }
  return again;
}

std::vector<Outcome> PolicyClient::Ask(std::span<const Question> questions) {
  std::vector<Outcome> outcomes(questions.size());
  std::vector<int> n_attempts(questions.size());
  std::vector<std::size_t> waiting(questions.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i] = i;
  counts_.n_questions += questions.size();
  while (!waiting.empty()) {
    const std::size_t n = std::min(waiting.size(), n_at_once_);
    const std::vector<std::size_t> wave(waiting.begin(),
                                        waiting.begin() + static_cast<std::ptrdiff_t>(n));
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
    const std::vector<std::size_t> again = AskWave(questions, wave, &outcomes);
    for (const std::size_t question : again) {
      if (++n_attempts[question] > options_.n_retries) continue;
      ++counts_.n_retries;
      waiting.push_back(question);
    }
    if (may_be_gone_ || (!again.empty() && !waiting.empty())) std::this_thread::sleep_for(kPause);
    if (may_be_gone_) AwaitServer();
  }
  for (const Outcome& outcome : outcomes) counts_.n_faults += outcome.chunk.empty() ? 1 : 0;
  return outcomes;
}

}  // namespace dp_bench::remote
