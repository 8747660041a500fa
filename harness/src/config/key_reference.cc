// A breadth-first search through the configs that make the code read further keys. Independent
// changes share a config, because creating a policy takes a while. If that config is refused, each
// half of its changes is tried.
#include "config/key_reference.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "config/json_source.h"
#include "dp_bench/error.h"

namespace dp_bench::config {
namespace {

using Json = nlohmann::json;

constexpr const char* kAnyKey = "<name>";

struct KeyChange {
  std::string pointer;
  Json value;
};

struct KeySample {
  Json base;
  std::vector<KeyChange> changes;

  Json Value() const {
    Json value = base;
    for (const KeyChange& change : changes)
      value[Json::json_pointer(change.pointer)] = change.value;
    return value;
  }
};

class KeySearch {
 public:
  explicit KeySearch(const std::function<void(const Config&)>& read) : read_(read) {}

  std::vector<KeyRead> Run() {
    samples_.push_back({.base = Json::object(), .changes = {}});
    while (!samples_.empty()) {
      const KeySample sample = std::move(samples_.front());
      samples_.pop_front();
      Try(sample);
    }
    for (KeyRead& key : keys_) key.pointer = Place(key.pointer);
    return std::move(keys_);
  }

 private:
  void Try(const KeySample& sample) {
    const Json value = sample.Value();
    const auto document =
        std::make_shared<ConfigDocument>(JsonSource{.value = value, .origins = {}});
    document->StartNotes();
    bool is_refused = false;
    try {
      read_(Config(document));
    } catch (const Error&) {
      is_refused = true;
    }
    MergeKeys(document->reads().keys, &keys_);
    if (is_refused && sample.changes.size() > 1) {
      Split(sample);
    } else {
      Follow(document->reads(), value);
    }
  }

  void Split(const KeySample& sample) {
    const auto middle = sample.changes.begin() + std::ssize(sample.changes) / 2;
    samples_.push_back({sample.base, {sample.changes.begin(), middle}});
    samples_.push_back({sample.base, {middle, sample.changes.end()}});
  }

  // Queues the configs that `reads` suggest on top of `base`: the k-th holds the k-th alternative
  // of every key.
  void Follow(const KeyReads& reads, const Json& base) {
    std::vector<std::vector<KeyChange>> alternatives(1);
    const auto offer = [&](const std::string& pointer, std::size_t k, Json value) {
      if (!offered_.emplace(pointer, value.dump()).second) return;
      if (k >= alternatives.size()) alternatives.resize(k + 1);
      alternatives[k].push_back({pointer, std::move(value)});
    };
    for (const KeyRead& key : reads.keys) {
      for (std::size_t k = 1; k < key.choices.size(); ++k) {
        offer(key.pointer, k - 1, key.choices[k]);
      }
    }
    for (const std::string& pointer : reads.asked) {
      if (!base.contains(Json::json_pointer(pointer))) offer(pointer, 0, Json::object());
    }
    for (const std::string& pointer : reads.lists) {
      lists_.insert(pointer);
      offer(pointer, 0, Json::array({Json::object()}));
    }
    for (const std::string& pointer : reads.with_any_key) {
      offer(ChildPointer(pointer, kAnyKey), 0, Json::object());
    }
    for (std::vector<KeyChange>& changes : alternatives) {
      if (!changes.empty()) samples_.push_back({base, std::move(changes)});
    }
  }

  // "/param_groups/0/pattern" as "param_groups[].pattern".
  std::string Place(std::string pointer) const {
    for (const std::string& list : lists_) {
      const std::string element = list + "/0";
      if (pointer.starts_with(element + "/")) pointer.replace(0, element.size(), list + "[]");
    }
    return DottedKey(pointer);
  }

  const std::function<void(const Config&)>& read_;
  std::deque<KeySample> samples_;
  std::set<std::pair<std::string, std::string>> offered_;
  std::set<std::string> lists_;
  std::vector<KeyRead> keys_;
};

}  // namespace

std::vector<KeyRead> FindKeys(const std::function<void(const Config&)>& read) {
  return KeySearch(read).Run();
}

void MergeKeys(const std::vector<KeyRead>& more, std::vector<KeyRead>* keys) {
  auto next = keys->begin();
  for (const KeyRead& key : more) {
    auto known = std::ranges::find(*keys, key.pointer, &KeyRead::pointer);
    if (known == keys->end()) {
      known = keys->insert(next, key);
    } else {
      FillIn(key, &*known);
    }
    next = std::next(known);
  }
}

}  // namespace dp_bench::config
