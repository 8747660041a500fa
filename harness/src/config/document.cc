// Book-keeping of a config document; the typed reads on top of it are in config.cc.
#include "config/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/loader.h"
#include "config/name.h"
#include "core/errors.h"

namespace dp_bench::config {

using Json = nlohmann::json;

namespace {

constexpr std::size_t kMaxUnreadLines = 20;  // computing a suggestion for each takes time

bool IsListOfObjects(const Json& value) {
  return value.is_array() && std::ranges::all_of(value, &Json::is_object);
}

}  // namespace

bool HoldsKeys(const Json& value) {
  return value.is_object() || (!value.empty() && IsListOfObjects(value));
}

void FillIn(const KeyRead& later, KeyRead* read) {
  const auto fill = [](const auto& from, auto* to) {
    if (to->empty()) *to = from;
  };
  fill(later.type, &read->type);
  fill(later.default_value, &read->default_value);
  fill(later.range, &read->range);
  fill(later.choices, &read->choices);
  fill(later.meaning, &read->meaning);
  fill(later.reader, &read->reader);
}

ConfigDocument::ConfigDocument(JsonSource source) : source_(std::move(source)) {}

const Json* ConfigDocument::Find(std::string_view pointer) const {
  const Json* value = &source_.value;
  for (const std::string& key : PointerKeys(pointer)) {
    value = ChildOf(key, value);
    if (value == nullptr) break;
  }
  return value;
}

std::optional<Json> ConfigDocument::Read(const std::string& pointer) {
  const std::lock_guard lock(mutex_);
  read_.insert(pointer);
  known_.insert(pointer);
  const Json* value = Find(pointer);
  return value ? std::optional<Json>(*value) : std::nullopt;
}

void ConfigDocument::RecordDefault(const std::string& pointer, Json value) {
  const std::lock_guard lock(mutex_);
  Json* place = &source_.value;
  for (const std::string& key : PointerKeys(pointer)) {
    if (place->is_null()) *place = Json::object();
    if (!place->is_array()) {
      place = &(*place)[key];
      continue;
    }
    const auto index = IndexIn(*place, key);
    if (!index) {
      throw ConfigError("{}: expected an object around this key, found {}", WhereLocked(pointer),
                        Describe(*place));
    }
    place = &(*place)[*index];
  }
  *place = std::move(value);
}

void ConfigDocument::OpenObject(const std::string& pointer) {
  const std::lock_guard lock(mutex_);
  read_.insert(pointer);
  known_.insert(pointer);
  const Json* value = Find(pointer);
  if (value && !value->is_object() && !value->is_null() && !IsListOfObjects(*value)) {
    throw ConfigError("{}: expected an object, found {}", WhereLocked(pointer), Describe(*value));
  }
}

bool ConfigDocument::Has(const std::string& pointer) {
  const std::lock_guard lock(mutex_);
  known_.insert(pointer);
  if (reads_) reads_->asked.insert(pointer);
  const Json* value = Find(pointer);
  return value && !value->is_null();
}

void ConfigDocument::StartNotes() { reads_.emplace(); }

void ConfigDocument::Note(KeyRead read) {
  const std::lock_guard lock(mutex_);
  // a key that is asked for with Has may be left out, whatever its read says
  if (!read.default_value.empty() && reads_->asked.contains(read.pointer)) {
    read.default_value = "none";
  }
  const auto known = std::ranges::find(reads_->keys, read.pointer, &KeyRead::pointer);
  if (known == reads_->keys.end()) {
    reads_->keys.push_back(std::move(read));
  } else {
    FillIn(read, &*known);
  }
}

void ConfigDocument::NoteList(const std::string& pointer) {
  const std::lock_guard lock(mutex_);
  reads_->lists.insert(pointer);
}

void ConfigDocument::NoteAnyKey(const std::string& pointer) {
  const std::lock_guard lock(mutex_);
  reads_->with_any_key.insert(pointer);
}

Json ConfigDocument::Copy(const std::string& pointer) const {
  const std::lock_guard lock(mutex_);
  const Json* value = Find(pointer);
  return value ? *value : Json();
}

std::string ConfigDocument::Where(const std::string& pointer) const {
  const std::lock_guard lock(mutex_);
  return WhereLocked(pointer);
}

std::vector<std::string> ConfigDocument::DescribeReferences() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& [pointer, text] : source_.references) {
    const Json* value = Find(pointer);
    if (value == nullptr) continue;
    lines.push_back(fmt::format("{} = {}, from {} ({})", DottedKey(pointer), value->dump(), text,
                                OriginOf(source_, pointer)));
  }
  return lines;
}

void ConfigDocument::Remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  TakeMember(key, &source_);
}

std::string ConfigDocument::WhereLocked(const std::string& pointer) const {
  std::string where = OriginOf(source_, pointer);
  if (!pointer.empty()) where += ": " + DottedKey(pointer);
  return where;
}

bool ConfigDocument::IsGiven(const std::string& pointer) const {
  const std::lock_guard lock(mutex_);
  return source_.origins.contains(pointer);
}

bool ConfigDocument::HasOverride(const std::string& pointer) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(source_.origins, [&pointer](const auto& item) {
    const auto& [place, origin] = item;
    const bool is_below = place == pointer || place.starts_with(pointer + "/");
    return is_below && IsOverrideOrigin(origin);
  });
}

std::vector<std::string> ConfigDocument::DescribeUnread(const std::string& pointer,
                                                        const KeyFilter& counts) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  const Json* object = Find(pointer);
  std::size_t n_more = 0;
  if (object && object->is_object()) AppendUnread(pointer, *object, counts, &lines, &n_more);
  if (n_more > 0) lines.push_back(fmt::format("and {} more", n_more));
  return lines;
}

void ConfigDocument::AppendUnread(const std::string& pointer, const Json& object,
                                  const KeyFilter& counts, std::vector<std::string>* lines,
                                  std::size_t* n_more) const {
  for (const auto& [key, value] : object.items()) {
    const std::string child = ChildPointer(pointer, key);
    const bool is_unread = !read_.contains(child);
    if (is_unread && (!counts || counts(child, IsOverrideOrigin(OriginOf(source_, child))))) {
      if (lines->size() == kMaxUnreadLines) {
        ++*n_more;
      } else {
        lines->push_back(WhereLocked(child) + Suggestion(pointer, key));
      }
    } else if (HoldsKeys(value)) {
      AppendUnread(child, value, counts, lines, n_more);
    }
  }
}

std::string ConfigDocument::Suggestion(const std::string& parent, const std::string& key) const {
  std::vector<std::string> siblings;
  std::vector<std::string> elsewhere;
  for (const std::string& pointer : known_) {
    if (pointer.empty()) continue;
    const std::string name = PointerKeys(pointer).back();
    if (pointer.substr(0, pointer.rfind('/')) == parent) {
      siblings.push_back(name);
    } else if (name == key) {
      elsewhere.push_back(DottedKey(pointer));
    }
  }
  if (std::string question = DidYouMean(key, siblings); !question.empty()) return question;
  if (!elsewhere.empty()) return fmt::format(" (did you mean '{}'?)", elsewhere.front());
  if (siblings.empty()) return "";
  return fmt::format(" (known here: {})", fmt::join(siblings, ", "));
}

void RejectUnread(const std::vector<std::string>& unread) {
  if (unread.empty()) return;
  throw ConfigError("nothing reads {} of the config; correct or remove {}:\n  {}",
                    unread.size() == 1 ? "this key" : "these keys",
                    unread.size() == 1 ? "it" : "them", fmt::join(unread, "\n  "));
}

}  // namespace dp_bench::config
