#include "serve/policy_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/clock.h"
#include "core/errors.h"

namespace dp_bench::serve {
namespace {

constexpr std::size_t kMaxSessions = 256;                    // of a client
constexpr std::size_t kSessionBytes = std::size_t{2} << 30;  // of all clients
constexpr std::size_t kTextBytes = std::size_t{1} << 16;
constexpr std::size_t kIgnoredBytes = std::size_t{4} << 20;

// Refuses messages that are larger than windows of these keys, with room for names and texts.
// Numbers may come as float64, and windows have all steps. What is ignored has no known size: the
// images that a client also sends, if they are not much larger than those that the policy reads.
PolicyServerOptions WithMessageLimit(PolicyServerOptions options, const KeyMap& keys,
                                     std::int64_t n_obs_steps, int n_rows) {
  std::size_t bytes = 0;
  for (const InputKey& key : keys.obs) {
    const auto n = static_cast<std::size_t>(NumElements(key.MessageShape()));
    bytes += 1024 + n * (key.spec.is_image() ? SizeOf(key.spec.dtype) : 8);
  }
  bytes *= static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(n_obs_steps);
  bytes += kTextBytes + (keys.ignored.empty() ? 0 : kIgnoredBytes + 2 * bytes);
  options.net.max_message_bytes = std::min(options.net.max_message_bytes, bytes);
  return options;
}

// A session keeps a window. Every client gets one.
std::size_t SessionLimit(const PolicySpec& spec, int max_clients) {
  std::size_t bytes = 1;
  for (const KeySpec& key : spec.shape_meta.obs) {
    bytes += static_cast<std::size_t>(spec.horizons.n_obs_steps) * key.ByteSize();
  }
  return std::clamp<std::size_t>(kSessionBytes / static_cast<std::size_t>(max_clients) / bytes, 1,
                                 kMaxSessions);
}

Shape AnswerShape(std::size_t n_rows, const PolicySpec& spec, bool is_single) {
  Shape shape = {spec.shape_meta.action_dim()};
  if (!is_single) shape.insert(shape.begin(), spec.horizons.n_action_steps);
  if (n_rows > 1) shape.insert(shape.begin(), static_cast<std::int64_t>(n_rows));
  return shape;
}

}  // namespace

// A request whose rows are being planned.
struct PolicyServer::Pending {
  struct Row {
    std::shared_ptr<Session> session;
    std::vector<float> actions;
    PlanOutcome outcome;
    bool is_planned = false;
  };

  net::ClientId client = 0;
  ClientRequest request;
  wire::ArrayForm form = wire::ArrayForm::kOpenPi;
  std::vector<std::size_t> n_rows;  // of each observation
  std::vector<Row> rows;
  std::atomic<std::size_t> n_missing = 0;
  Batcher::Clock::time_point since = Batcher::Clock::now();
};

PolicyServer::PolicyServer(std::shared_ptr<control::ChunkPlanner> planner, PolicyInfo info,
                           std::unique_ptr<Protocol> protocol, KeyMap keys,
                           PolicyServerOptions options)
    : info_(std::move(info)),
      protocol_(std::move(protocol)),
      keys_(std::move(keys)),
      options_(WithMessageLimit(std::move(options), keys_, info_.spec.horizons.n_obs_steps,
                                planner->batch_size())),
      metadata_(Metadata(info_, keys_, *protocol_)),
      log_(options_.log),
      max_sessions_(SessionLimit(info_.spec, options_.net.max_clients)),
      server_(protocol_->MakeServer(options_.net)),
      batcher_(std::make_unique<Batcher>(std::move(planner), info_.spec, options_.batcher)) {
  log_.Write(
      "start",
      {{"port", port()}, {"policy", info_.name}, {"checkpoint_sha256", info_.checkpoint_sha256}});
  server_->Start(*this);
}

std::string PolicyServer::address() const {
  return fmt::format("{}://{}:{}", protocol_->scheme(), options_.net.host, port());
}

PolicyServer::~PolicyServer() { Stop(std::chrono::milliseconds(0)); }

void PolicyServer::Stop(std::chrono::milliseconds grace) {
  if (batcher_ == nullptr) return;
  server_->Stop(grace);
  batcher_.reset();
  log_.Write("stop", {{"n_requests", counts_.n_requests}, {"n_answers", counts_.n_answers}});
}

void PolicyServer::Replace(std::shared_ptr<control::ChunkPlanner> planner, PolicyInfo info) {
  batcher_->Replace(std::move(planner));
  server_->Post([this, info = std::move(info)] {
    info_ = info;
    metadata_ = Metadata(info_, keys_, *protocol_);
    ++counts_.n_reloads;
    log_.Write("reload", {{"checkpoint_sha256", info_.checkpoint_sha256}});
  });
}

std::optional<net::Outgoing> PolicyServer::Opened(net::ClientId client) {
  clients_[client];
  ++counts_.n_clients;
  ++counts_.n_open;
  log_.Write("open", {{"client", client}});
  return protocol_->Greet(metadata_);
}

void PolicyServer::Closed(net::ClientId client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  log_.Write("close", {{"client", client},
                       {"n_requests", found->second.n_requests},
                       {"n_refused", found->second.n_refused}});
  clients_.erase(found);
  --counts_.n_open;
}

bool PolicyServer::Received(net::ClientId id, net::Bytes bytes) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return false;
  ++counts_.n_requests;
  ++found->second.n_requests;
  counts_.bytes_in += bytes->size();
  ClientRequest request;
  try {
    const wire::Message message =
        wire::Read(std::move(bytes), static_cast<std::int64_t>(options_.net.max_message_bytes));
    protocol_->Read(message, metadata_, &request);
    return Handle(id, found->second, message, request);
  } catch (const Error& error) {
    SendRefusal(id, request, Refusal::kBadRequest, error.what());
  } catch (const std::exception& error) {
    SendRefusal(id, request, Refusal::kFailed, error.what());
  }
  return true;
}

bool PolicyServer::Handle(net::ClientId id, Client& client, const wire::Message& message,
                          ClientRequest& request) {
  switch (request.kind) {
    case ClientRequest::Kind::kInfer:
      return Infer(id, client, message, request);
    case ClientRequest::Kind::kBegin:
      ResetSessions(client, request);
      return false;
    case ClientRequest::Kind::kNothing:
      return false;
    case ClientRequest::Kind::kReset:
      ResetSessions(client, request);
      break;
    case ClientRequest::Kind::kSay:
      break;
  }
  Send(id, std::move(request.said));
  return true;
}

// The first observation of a row may come after the reset of its session.
std::shared_ptr<Session> PolicyServer::SessionOf(Client& client, const SessionKey& key) {
  std::shared_ptr<Session>& session = client.sessions[key];
  if (session != nullptr) return session;
  if (client.sessions.size() > max_sessions_) {
    client.sessions.erase(key);
    throw DataError("this connection has {} sessions already; open another one", max_sessions_);
  }
  session = std::make_shared<Session>(info_.spec);
  const auto whole = client.sessions.find({key.first, std::nullopt});
  if (whole != client.sessions.end()) session->Reset(whole->second->seed());
  return session;
}

// More would delay other clients by more than one plan.
void PolicyServer::RequireOneBatch(std::span<const Observations> observations) const {
  std::size_t n = 0;
  for (const Observations& observation : observations) n += observation.n_rows();
  if (n <= batcher_->batch_size()) return;
  throw DataError("the request has {} rows, expected at most {} (serve --micro-batch)", n,
                  batcher_->batch_size());
}

// Also those of its rows.
void PolicyServer::ResetSessions(Client& client, const ClientRequest& request) {
  SessionOf(client, {request.session, std::nullopt});
  for (const auto& [key, session] : client.sessions) {
    if (key.first == request.session) session->Reset(request.seed);
  }
}

// Everything that may be refused comes first, so that a client can send the same request again.
bool PolicyServer::Infer(net::ClientId id, Client& client, const wire::Message& message,
                         ClientRequest& request) {
  const bool is_single = protocol_->gives_single_actions();
  auto pending = std::make_shared<Pending>();
  pending->client = id;
  pending->form = message.array_form.value_or(wire::ArrayForm::kOpenPi);
  std::vector<Observations> observations;
  for (const wire::Map& map : request.observations) observations.emplace_back(keys_, map);
  RequireOneBatch(observations);
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const std::size_t n = observations[i].n_rows();
    pending->n_rows.push_back(n);
    for (std::size_t row = 0; row < n; ++row) {
      SessionKey key = {request.session, std::nullopt};
      if (request.is_batch || n > 1) key.second = pending->rows.size();
      pending->rows.push_back({.session = SessionOf(client, key)});
      Session& session = *pending->rows.back().session;
      session.Check(observations[i], row);
      pending->n_missing += !is_single || !session.has_action();
    }
  }
  if (pending->n_missing > 0 && !batcher_->HasRoom(pending->n_missing)) {
    SendRefusal(id, request, Refusal::kOverloaded, OverloadText());
    return true;
  }

  std::vector<Batcher::Row> rows;
  std::size_t next = 0;
  for (const Observations& observation : observations) {
    for (std::size_t row = 0; row < observation.n_rows(); ++row, ++next) {
      Session& session = *pending->rows[next].session;
      session.Observe(observation, row);
      const std::span<const float> action = session.NextAction();
      pending->rows[next].actions.assign(action.begin(), action.end());
      if (is_single && !action.empty()) continue;
      pending->rows[next].is_planned = true;
      rows.push_back({.history = &session.history(),
                      .row = session.PlanRowFor(request.seed, request.step),
                      .done = [this, pending, next](PlanOutcome outcome) {
                        pending->rows[next].outcome = std::move(outcome);
                        if (--pending->n_missing > 0) return;
                        server_->Post([this, pending] { Finish(*pending); });
                      }});
    }
  }
  request.observations.clear();  // or else the whole message stays until the plan ends
  pending->request = std::move(request);
  if (rows.empty()) {
    Finish(*pending);
  } else {
    batcher_->Queue(std::move(rows));
  }
  return true;
}

void PolicyServer::Finish(Pending& pending) {
  const bool is_single = protocol_->gives_single_actions();
  Timing timing;
  for (Pending::Row& row : pending.rows) {
    if (!row.is_planned) continue;
    if (row.outcome.chunk.empty()) {
      SendRefusal(pending.client, pending.request, Refusal::kFailed, row.outcome.error);
      return;
    }
    timing.queue_s = std::max(timing.queue_s, row.outcome.queue_s);
    timing.plan_s = std::max(timing.plan_s, row.outcome.plan_s);
    if (is_single) {
      row.session->SetChunk(row.outcome.chunk);
      const std::span<const float> action = row.session->NextAction();
      row.actions.assign(action.begin(), action.end());
    } else {
      row.actions = std::move(row.outcome.chunk);
    }
  }
  std::vector<ClientAnswer> answers;
  auto row = pending.rows.begin();
  for (const std::size_t n : pending.n_rows) {
    ClientAnswer& answer = answers.emplace_back();
    answer.shape = AnswerShape(n, info_.spec, is_single);
    for (std::size_t i = 0; i < n; ++i, ++row) {
      answer.actions.insert(answer.actions.end(), row->actions.begin(), row->actions.end());
    }
  }
  counts_.CountAnswer(core::SecondsSince(pending.since));
  Send(pending.client,
       protocol_->Reply(pending.request, answers, timing, keys_.actions, pending.form));
}

void PolicyServer::Send(net::ClientId id, net::Outgoing message) {
  counts_.bytes_out += message.bytes.size();
  server_->Send(id, std::move(message));
}

void PolicyServer::SendRefusal(net::ClientId id, const ClientRequest& request, Refusal why,
                               const std::string& text) {
  ++counts_.n_refused[why];
  const auto client = clients_.find(id);
  if (client != clients_.end() && ++client->second.n_refused == 1) {  // others would flood the log
    log_.Write("refuse", {{"client", id}, {"reason", Name(why)}, {"text", text}});
  }
  Send(id, protocol_->Refuse(request, why, text));
}

std::string PolicyServer::OverloadText() const {
  const BatcherCounts counts = batcher_->counts();
  return fmt::format(
      "{} observations wait already; {:.1f} per second arrive, and {:.1f} per second are possible",
      counts.n_queued, counts.arrivals_per_s, counts.capacity_per_s);
}

std::optional<net::HttpAnswer> PolicyServer::Get(std::string_view path) {
  if (path != "/metrics") return protocol_->Health(path);
  return net::HttpAnswer{.body = PrometheusText(counts_, batcher_->counts(), info_),
                         .content_type = "text/plain; version=0.0.4"};
}

}  // namespace dp_bench::serve
