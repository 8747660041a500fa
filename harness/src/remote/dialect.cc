#include "remote/dialect.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/clock.h"
#include "core/errors.h"
#include "media/resize.h"
#include "serve/protocol.h"

namespace dp_bench::remote {
namespace {

using Clock = net::Connection::Clock;

constexpr std::string_view kHarnessVersion = "0.8.0";

// The steps, each in the size that the server wants.
std::vector<std::byte> Resized(std::span<const std::byte> steps, const serve::InputKey& key) {
  const Shape own = key.spec.StorageShape();
  const auto [height, width] = *key.size;
  const std::size_t from_bytes = key.spec.ByteSize();
  const auto to_bytes = static_cast<std::size_t>(height * width * 3);
  std::vector<std::byte> resized(steps.size() / from_bytes * to_bytes);
  for (std::size_t step = 0; step < steps.size() / from_bytes; ++step) {
    media::ResizeWithPad({.data = steps.data() + step * from_bytes,
                          .height = static_cast<int>(own[0]),
                          .width = static_cast<int>(own[1]),
                          .strides = {3 * own[1], 3, 1}},
                         std::span(resized).subspan(step * to_bytes, to_bytes),
                         static_cast<int>(height), static_cast<int>(width));
  }
  return resized;
}

// Images [C, H, W] of steps [H, W, C].
std::vector<std::byte> ChannelsFirst(std::span<const std::byte> steps, const Shape& step,
                                     std::size_t item) {
  const auto n_channels = static_cast<std::size_t>(step[0]);
  const auto n_pixels = static_cast<std::size_t>(step[1] * step[2]);
  const std::size_t step_bytes = n_channels * n_pixels * item;
  std::vector<std::byte> planes(steps.size());
  for (std::size_t begin = 0; begin < steps.size(); begin += step_bytes) {
    for (std::size_t channel = 0; channel < n_channels; ++channel) {
      for (std::size_t pixel = 0; pixel < n_pixels; ++pixel) {
        std::memcpy(&planes[begin + (channel * n_pixels + pixel) * item],
                    &steps[begin + (pixel * n_channels + channel) * item], item);
      }
    }
  }
  return planes;
}

// The latest `n_steps` of a key, as the server wants it: [n_steps, ...], without that dimension if
// it is one step and `is_window` is false.
wire::NdArray StepsOf(const Array& window, const serve::InputKey& key, std::int64_t n_steps,
                      bool is_window) {
  const auto all = window.bytes();
  auto latest = all.subspan(all.size() - static_cast<std::size_t>(n_steps) * key.spec.ByteSize());
  std::vector<std::byte> resized;
  std::vector<std::byte> planes;
  if (key.size) latest = resized = Resized(latest, key);
  Shape shape = key.MessageShape();
  if (key.is_channels_first) latest = planes = ChannelsFirst(latest, shape, SizeOf(window.dtype()));
  if (is_window) shape.insert(shape.begin(), n_steps);
  return wire::CopyOf(wire::NumpyName(window.dtype()), shape, latest);
}

// Several keys that are parts of one array: one behind the other in its last dimension.
wire::NdArray Joined(const wire::NdArray& front, const wire::NdArray& back, bool is_window) {
  Shape shape = front.shape;
  shape.back() += back.shape.back();
  Shape of_back = back.shape;
  of_back.back() = front.shape.back();
  const bool is_vector = front.shape.size() == (is_window ? 2U : 1U);
  if (!is_vector || of_back != front.shape || front.dtype != back.dtype) {
    throw ConfigError("keys that share an array must have the same type, and one dimension a step");
  }
  const auto n_rows = static_cast<std::size_t>(is_window ? shape[0] : 1);
  const std::size_t n_front = front.bytes().size() / n_rows;
  const std::size_t n_back = back.bytes().size() / n_rows;
  std::vector<std::byte> bytes;
  for (std::size_t row = 0; row < n_rows; ++row) {
    std::ranges::copy(front.bytes().subspan(row * n_front, n_front), std::back_inserter(bytes));
    std::ranges::copy(back.bytes().subspan(row * n_back, n_back), std::back_inserter(bytes));
  }
  return wire::CopyOf(front.dtype, shape, bytes);
}

// {"a": {"b": value}} for the path "a/b" if `is_nested`, else {"a/b": value}.
using Leaves = std::vector<std::pair<std::string, wire::Value>>;
wire::Map ToMap(Leaves&& leaves, bool is_nested) {
  wire::Map map;
  const auto add = [&map](const std::string& name, wire::Value value) {
    if (map.Find(name) != nullptr) {
      throw ConfigError(
          "two parts of a request are called '{}': an observation, and another one or what the "
          "protocol adds. Give the observation another name in policy.params.keys or "
          "env.params.obs",
          name);
    }
    map.Add(name, std::move(value));
  };
  std::vector<std::pair<std::string, Leaves>> groups;
  for (auto& [path, value] : leaves) {
    const std::size_t slash = is_nested ? path.find('/') : std::string::npos;
    if (slash == std::string::npos) {
      add(path, std::move(value));
      continue;
    }
    const std::string head = path.substr(0, slash);
    auto group = std::ranges::find(groups, head, &std::pair<std::string, Leaves>::first);
    if (group == groups.end()) group = groups.insert(group, {head, {}});
    group->second.emplace_back(path.substr(slash + 1), std::move(value));
  }
  for (auto& [head, inner] : groups) add(head, ToMap(std::move(inner), is_nested));
  return map;
}

Leaves LeavesOf(const DialectOptions& options, const Question& question, std::int64_t n_steps,
                bool is_window) {
  Leaves leaves;
  std::vector<serve::InputKey> keys = options.keys.obs;
  std::ranges::stable_sort(keys, {},
                           [](const serve::InputKey& key) { return key.first.value_or(0); });
  for (const serve::InputKey& key : keys) {
    wire::NdArray array =
        StepsOf(question.obs.find(key.spec.name)->second, key, n_steps, is_window);
    const auto same = std::ranges::find(leaves, key.path, &Leaves::value_type::first);
    const bool is_joined = same != leaves.end();
    const std::int64_t place = is_joined ? same->second.If<wire::NdArray>()->shape.back() : 0;
    if (key.first && *key.first != place) {
      throw ConfigError(
          "policy.params.keys: '{}' begins at {} of '{}', and the keys before it have {} numbers; "
          "expected a key for each number",
          key.spec.name, *key.first, key.path, place);
    }
    if (is_joined) {
      same->second = Joined(*same->second.If<wire::NdArray>(), array, is_window);
    } else {
      leaves.emplace_back(key.path, std::move(array));
    }
  }
  return leaves;
}

std::vector<float> ToFloats(const wire::NdArray& array) {
  const auto n = static_cast<std::size_t>(NumElements(array.shape));
  std::vector<float> numbers(n);
  const std::byte* const from = array.data.get();
  if (array.dtype == "<f4") {
    std::memcpy(numbers.data(), from, n * sizeof(float));
  } else if (array.dtype == "<f8") {
    for (std::size_t i = 0; i < n; ++i) {
      double number = 0.0;
      std::memcpy(&number, from + i * sizeof number, sizeof number);
      numbers[i] = static_cast<float>(number);
    }
  } else {
    throw DataError("the actions are {}, expected <f4 or <f8", array.dtype);
  }
  return numbers;
}

// Rows in front of the steps must be one.
Reply ToReply(const wire::Map& answer, std::string_view key) {
  const wire::Value* const value = answer.Find(key);
  const auto* const array = value == nullptr ? nullptr : value->If<wire::NdArray>();
  if (array == nullptr) {
    throw DataError("the answer has no '{}' with an array, but {}", key,
                    value == nullptr ? "nothing there" : wire::Describe(*value));
  }
  Reply reply{.shape = array->shape, .actions = ToFloats(*array)};
  if (reply.shape.size() == 3 && reply.shape[0] == 1) reply.shape.erase(reply.shape.begin());
  return reply;
}

Reply Refused(const std::string& text) {
  return {.refusal = text, .is_overloaded = text.find("overloaded") != std::string::npos};
}

const wire::Map& RequireMap(const wire::Value& value) {
  if (const auto* const map = value.If<wire::Map>()) return *map;
  throw DataError("expected an answer that is a map, found {}", wire::Describe(value));
}

std::string TextOf(const wire::Map& map, std::string_view key) {
  const auto* const text = map.Find<std::string>(key);
  return text == nullptr ? "" : *text;
}

// openpi and starVLA: the server speaks first.
class MetadataFirst : public Dialect {
 public:
  using Dialect::Dialect;

  wire::Map Greet(net::Connection& connection, Clock::time_point until) override {
    const wire::Message message = wire::Read(connection.Receive(until).bytes);
    const auto* const metadata = message.value.If<wire::Map>();
    if (metadata == nullptr) throw DataError("the server greets without metadata");
    is_own_ = metadata->Find("dp_bench") != nullptr;
    RequireSameHistory(*metadata);
    takes_windows_ = IsSet(*metadata, "windows");
    is_stateful_ = IsSet(*metadata, "stateful");
    return *metadata;
  }

  bool is_stateful() const override { return is_stateful_; }

 protected:
  // Servers of dp_bench take whole windows, and the numbers for the noise.
  Leaves Observation(const Question& question) const {
    const int n_steps = is_own_ ? options().spec.horizons.n_obs_steps : 1;
    Leaves leaves = LeavesOf(options(), question, n_steps, takes_windows_ || n_steps > 1);
    if (!options().instruction.empty()) {
      leaves.emplace_back(options().keys.instruction, options().instruction);
    }
    if (is_own_) {
      leaves.emplace_back("seed", wire::IntegerOf(question.seed));
      leaves.emplace_back("step", wire::IntegerOf(question.step));
    }
    return leaves;
  }

 private:
  static bool IsSet(const wire::Map& metadata, std::string_view key) {
    const bool* const flag = OwnEntry<bool>(metadata, key);
    return flag != nullptr && *flag;
  }

  // A server that wants more steps would take the latest ones for those of consecutive control
  // steps.
  void RequireSameHistory(const wire::Map& metadata) const {
    const auto* const n = OwnEntry<std::int64_t>(metadata, "n_obs_steps");
    if (n == nullptr || *n == options().spec.horizons.n_obs_steps) return;
    throw ConfigError(
        "the server's policy observes {0} steps, but n_obs_steps is {1}; set n_obs_steps={0}", *n,
        options().spec.horizons.n_obs_steps);
  }

  bool is_own_ = false;
  bool takes_windows_ = false;  // also of one step
  bool is_stateful_ = false;    // it knows an episode by its connection
};

class OpenPiDialect final : public MetadataFirst {
 public:
  using MetadataFirst::MetadataFirst;

  std::string Ask(const Question& question) const override {
    return wire::Write(ToMap(Observation(question), options().keys.is_nested),
                       wire::ArrayForm::kOpenPi);
  }

  Reply Read(const net::Incoming& answer) const override {
    if (answer.is_text) return Refused(*answer.bytes);
    const wire::Message message = wire::Read(answer.bytes);
    const wire::Map& map = RequireMap(message.value);
    if (TextOf(map, "type") == "error") return Refused(TextOf(map, "message"));
    return ToReply(map, options().keys.actions);
  }
};

class StarVlaDialect final : public MetadataFirst {
 public:
  using MetadataFirst::MetadataFirst;

  std::string Ask(const Question& question) const override {
    return wire::Write(
        wire::Map{{"type", "infer"},
                  {"request_id", "dp_bench"},
                  {"payload", ToMap(Observation(question), options().keys.is_nested)}},
        wire::ArrayForm::kOpenPi);
  }

  Reply Read(const net::Incoming& answer) const override {
    if (answer.is_text) return Refused(*answer.bytes);
    const wire::Message message = wire::Read(answer.bytes);
    const wire::Map& map = RequireMap(message.value);
    if (const wire::Value* const error = map.Find("error")) {
      return Refused(TextOf(RequireMap(*error), "message"));
    }
    const wire::Value* const data = map.Find("data");
    if (data == nullptr) throw DataError("the answer has no 'data'");
    return ToReply(RequireMap(*data), options().keys.actions);
  }
};

class VlaEvalDialect final : public Dialect {
 public:
  using Dialect::Dialect;

  wire::Map Greet(net::Connection& connection, Clock::time_point until) override {
    connection.Send(Frame("hello", {{"harness_version", std::string(kHarnessVersion)},
                                    {"protocol_version", std::int64_t{1}}}),
                    until);
    const wire::Message message = wire::Read(connection.Receive(until).bytes);
    const wire::Map& hello = RequireMap(message.value);
    const wire::Value* const payload = hello.Find("payload");
    if (TextOf(hello, "type") != "hello" || payload == nullptr) {
      throw DataError("the server did not answer hello");
    }
    return RequireMap(*payload);
  }

  bool is_stateful() const override { return true; }

  std::optional<std::string> Begin(const Question& question) const override {
    return Frame("episode_start", {{"task", wire::Map{{"name", options().instruction},
                                                      {"seed", wire::IntegerOf(question.seed)}}}});
  }

  std::string Ask(const Question& question) const override {
    Leaves leaves = LeavesOf(options(), question, 1, /*is_window=*/false);
    leaves.emplace_back(options().keys.instruction, options().instruction);
    return Frame("observation", ToMap(std::move(leaves), options().keys.is_nested));
  }

  Reply Read(const net::Incoming& answer) const override {
    const wire::Message message = wire::Read(answer.bytes);
    const wire::Map& map = RequireMap(message.value);
    const wire::Value* const payload = map.Find("payload");
    if (payload == nullptr) throw DataError("the answer has no 'payload'");
    if (TextOf(map, "type") == "error") return Refused(TextOf(RequireMap(*payload), "error"));
    return ToReply(RequireMap(*payload), options().keys.actions);
  }

 private:
  static std::string Frame(std::string_view type, wire::Map payload) {
    return wire::Write(wire::Map{{"type", std::string(type)},
                                 {"payload", std::move(payload)},
                                 {"seq", std::int64_t{0}},
                                 {"timestamp", core::UnixTime()}},
                       wire::ArrayForm::kVlaEval);
  }
};

class GrootDialect final : public Dialect {
 public:
  using Dialect::Dialect;

  std::unique_ptr<net::Connection> Connect(const std::string& url, const std::string& api_key,
                                           Clock::time_point /*until*/) override {
    api_key_ = api_key;
    return net::ConnectZmq(url);
  }

  wire::Map Greet(net::Connection& connection, Clock::time_point until) override {
    connection.Send(WithKey({{"endpoint", "ping"}}), until);
    const wire::Message message = wire::Read(connection.Receive(until).bytes);
    const wire::Map& answer = RequireMap(message.value);
    if (answer.Find("error") != nullptr) {
      throw PluginError("the server refuses: {}", TextOf(answer, "error"));
    }
    return answer;
  }

  std::string Ask(const Question& question) const override {
    const int n_steps = options().spec.horizons.n_obs_steps;
    Leaves leaves = LeavesOf(options(), question, n_steps, /*is_window=*/true);
    for (auto& [path, value] : leaves) {
      wire::NdArray array = *value.If<wire::NdArray>();
      array.shape.insert(array.shape.begin(), 1);
      value = std::move(array);
    }
    if (!options().instruction.empty()) {
      leaves.emplace_back(options().keys.instruction,
                          wire::List{wire::List{options().instruction}});
    }
    const wire::Map noise = {{"seed", wire::IntegerOf(question.seed)},
                             {"step", wire::IntegerOf(question.step)}};
    return WithKey(
        {{"endpoint", "get_action"},
         {"data", wire::Map{{"observation", ToMap(std::move(leaves), options().keys.is_nested)},
                            {"options", noise}}}});
  }

  // [action, info]
  Reply Read(const net::Incoming& answer) const override {
    const wire::Message message = wire::Read(answer.bytes);
    if (const auto* const map = message.value.If<wire::Map>())
      return Refused(TextOf(*map, "error"));
    const auto* const list = message.value.If<wire::List>();
    if (list == nullptr || list->empty()) {
      throw DataError("expected a list of actions and info, found {}",
                      wire::Describe(message.value));
    }
    return ToReply(RequireMap(list->front()), options().keys.actions);
  }

 private:
  std::string WithKey(wire::Map request) const {
    if (!api_key_.empty()) request.Add("api_token", api_key_);
    return wire::Write(request, wire::ArrayForm::kMsgpackNumpy);
  }

  std::string api_key_;
};

}  // namespace

std::unique_ptr<Dialect> MakeDialect(std::string_view protocol, DialectOptions options) {
  if (protocol == "starvla") return std::make_unique<StarVlaDialect>(std::move(options));
  if (protocol == "vla_eval") return std::make_unique<VlaEvalDialect>(std::move(options));
  if (protocol == "groot") return std::make_unique<GrootDialect>(std::move(options));
  DPB_ASSERT(protocol == "openpi");
  return std::make_unique<OpenPiDialect>(std::move(options));
}

serve::KeyMap DefaultKeys(std::string_view protocol, const PolicySpec& spec) {
  return serve::MakeProtocol(protocol, /*api_key=*/"")->DefaultKeys(spec);
}

}  // namespace dp_bench::remote
