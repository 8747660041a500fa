// A string is parsed by recursive descent. The keys that it names are resolved first, depth first,
// and the strings that are being resolved are the stack that detects cycles.
#include "config/references.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "config/name.h"
#include "core/errors.h"
#include "core/split.h"

namespace dp_bench::config {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxReferenceChain = 32;  // references that lead to each other
constexpr int kMaxNesting = 32;                 // of parentheses and references in one string
constexpr std::size_t kMaxReferencedBytes = std::size_t{1} << 20;  // of all text that is copied

constexpr std::string_view kBegin = "${";
constexpr std::string_view kEscaped = "$${";

// Arithmetic on numbers of a config. Two integers give an integer, except for a division with a
// remainder. // rounds down and the result of % has the sign of b, as in Python.

[[noreturn]] void ThrowTooLarge(const Json& a, std::string_view op, const Json& b) {
  throw ConfigError("the result of {} {} {} is too large", a.dump(), op, b.dump());
}

void RequireNumber(const Json& value) {
  if (!value.is_number()) {
    throw ConfigError("expected a number in the calculation, found {}", Describe(value));
  }
  const bool is_huge =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (is_huge) {
    throw ConfigError("expected a number below 2^63 in the calculation, found {}", value.dump());
  }
}

Json OfIntegers(std::int64_t a, std::string_view op, std::int64_t b) {
  std::int64_t result = 0;
  bool is_too_large = false;
  if (op == "+") {
    is_too_large = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    is_too_large = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    is_too_large = __builtin_mul_overflow(a, b, &result);
  } else if (b == -1) {  // a / b may be too large, and a % b is undefined then
    if (op == "%") return 0;
    is_too_large = __builtin_sub_overflow(std::int64_t{0}, a, &result);
  } else {
    const std::int64_t rest = a % b;
    const bool rounds_up = rest != 0 && (rest < 0) != (b < 0);
    if (op == "%") return rounds_up ? rest + b : rest;
    if (op == "/" && rest != 0) return static_cast<double>(a) / static_cast<double>(b);
    result = a / b - (rounds_up ? 1 : 0);
  }
  if (is_too_large) ThrowTooLarge(a, op, b);
  return result;
}

Json OfNumbers(double a, std::string_view op, double b) {
  double result = 0.0;
  if (op == "+") result = a + b;
  if (op == "-") result = a - b;
  if (op == "*") result = a * b;
  if (op == "/") result = a / b;
  if (op == "//") result = std::floor(a / b);
  if (op == "%") {
    result = std::fmod(a, b);
    if (result != 0.0 && (result < 0.0) != (b < 0.0)) result += b;
  }
  if (!std::isfinite(result)) ThrowTooLarge(a, op, b);
  return result;
}

Json Calculate(const Json& a, std::string_view op, const Json& b) {
  RequireNumber(a);
  RequireNumber(b);
  const bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b.get<double>() == 0.0) {
    throw ConfigError("{} {} {} is a division by zero", a.dump(), op, b.dump());
  }
  if (a.is_number_integer() && b.is_number_integer()) {
    return OfIntegers(a.get<std::int64_t>(), op, b.get<std::int64_t>());
  }
  return OfNumbers(a.get<double>(), op, b.get<double>());
}

/// Evaluates one string. Errors do not name its place.
class ReferenceParser {
 public:
  using LookUp = std::function<Json(const std::string& name)>;

  ReferenceParser(std::string_view text, LookUp look_up)
      : text_(text), look_up_(std::move(look_up)) {}

  Json Run() {
    std::string result;
    while (!IsAtEnd()) {
      if (Take(kEscaped)) {
        result += kBegin;
      } else if (IsAt(kBegin)) {
        const bool is_first = position_ == 0;
        Json value = Reference();
        if (is_first && IsAtEnd()) return value;
        result += AsText(value);
      } else {
        result += text_[position_++];
      }
    }
    return result;
  }

 private:
  bool IsAtEnd() const { return position_ >= text_.size(); }
  bool IsAt(std::string_view token) const { return text_.substr(position_).starts_with(token); }

  bool Take(std::string_view token) {
    const bool is_here = IsAt(token);
    if (is_here) position_ += token.size();
    return is_here;
  }

  void SkipBlanks() {
    while (!IsAtEnd() && std::isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
  }

  bool TakeToken(std::string_view token) {
    SkipBlanks();
    return Take(token);
  }

  [[noreturn]] void FailHere(std::string_view expected) const {
    constexpr std::size_t kMaxShown = 30;
    throw ConfigError("expected {}, found {}", expected,
                      IsAtEnd() ? std::string("the end of the string")
                                : fmt::format("'{}'", text_.substr(position_, kMaxShown)));
  }

  void Expect(std::string_view token) {
    if (!TakeToken(token)) FailHere(fmt::format("'{}'", token));
  }

  Json Reference() {
    Enter();
    Expect(kBegin);
    SkipBlanks();
    const std::size_t end = std::min(text_.find_first_of("}:{$", position_), text_.size());
    std::string name(text_.substr(position_, end - position_));
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    Json value;
    if (end < text_.size() && text_[end] == ':') {
      if (name != "eval") FailHere("a key or 'eval:' behind '${'");
      position_ = end + 1;
      value = Evaluation();
    } else {
      if (name.empty()) FailHere("a key or 'eval:' behind '${'");
      position_ = end;
      if (!IsAt("}")) FailHere(fmt::format("'}}' behind '${{{}'", name));
      value = look_up_(name);
    }
    Expect("}");
    --nesting_;
    return value;
  }

  // diffusion_policy's configs write quotes around the expression.
  Json Evaluation() {
    const bool is_quoted = TakeToken("'");
    Json value = Sum();
    if (is_quoted) Expect("'");
    return value;
  }

  Json Sum() { return Chain({"+", "-"}, &ReferenceParser::Product); }
  Json Product() { return Chain({"*", "//", "/", "%"}, &ReferenceParser::Factor); }

  Json Chain(std::initializer_list<std::string_view> operators,
             Json (ReferenceParser::*operand)()) {
    Json value = (this->*operand)();
    while (true) {
      const auto* op = std::ranges::find_if(
          operators, [this](std::string_view token) { return TakeToken(token); });
      if (op == operators.end()) return value;
      value = Calculate(value, *op, (this->*operand)());
    }
  }

  Json Factor() {
    Enter();
    Json value;
    if (TakeToken("-")) {
      value = Calculate(0, "-", Factor());
    } else if (TakeToken("+")) {
      value = Calculate(0, "+", Factor());
    } else if (TakeToken("(")) {
      value = Sum();
      Expect(")");
    } else if (IsAt(kBegin)) {
      value = Calculate(0, "+", Reference());  // throws unless it is a number
    } else {
      value = Number();
    }
    --nesting_;
    return value;
  }

  Json Number() {
    const char* const begin = text_.data() + position_;
    const char* const end = text_.data() + text_.size();
    const bool is_number =
        begin != end && (std::isdigit(static_cast<unsigned char>(*begin)) || *begin == '.');
    double number = 0.0;
    const auto [number_end, number_fault] = std::from_chars(begin, end, number);
    if (!is_number || number_fault != std::errc()) FailHere("a number, '(' or '${'");
    std::int64_t integer = 0;
    const auto [integer_end, integer_fault] = std::from_chars(begin, end, integer);
    position_ += static_cast<std::size_t>(number_end - begin);
    const bool is_integer = integer_end == number_end;
    if (is_integer && integer_fault != std::errc())
      throw ConfigError("a number is too large to calculate with");
    return is_integer ? Json(integer) : Json(number);
  }

  void Enter() {
    if (++nesting_ > kMaxNesting) throw ConfigError("nested deeper than {} levels", kMaxNesting);
  }

  static std::string AsText(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    throw ConfigError(
        "expected a string, a number or true or false inside a longer string, found {}",
        Describe(value));
  }

  std::string_view text_;
  LookUp look_up_;
  std::size_t position_ = 0;
  int nesting_ = 0;
};

/// Containers around the innermost value; 0 for a number or a string.
std::size_t DepthOf(const Json& value) {
  if (!value.is_structured()) return 0;
  std::size_t depth = 0;
  for (const Json& child : value) depth = std::max(depth, DepthOf(child));
  return depth + 1;
}

class ReferenceResolver {
 public:
  ReferenceResolver(JsonSource* source, const DefaultsOf& defaults)
      : source_(source), make_defaults_(defaults) {}

  void Run() { Resolve("", &source_->value); }

 private:
  // What is being resolved, the outermost first.
  struct Open {
    const Json* value;
    std::string name;
    bool is_text;
  };

  void Resolve(const std::string& pointer, Json* value) {
    if (done_.contains(value)) return;
    if (value->is_structured() || HasReference(*value)) {
      RequireNoCycle(pointer, value);
      open_.push_back({value, DottedKey(pointer), value->is_string()});
      if (value->is_object()) {
        for (auto& [key, child] : value->items()) Resolve(ChildPointer(pointer, key), &child);
      } else if (value->is_array()) {
        for (std::size_t i = 0; i < value->size(); ++i) {
          Resolve(ChildPointer(pointer, std::to_string(i)), &(*value)[i]);
        }
      } else {
        Replace(pointer, value);
      }
      open_.pop_back();
    } else if (value->is_string()) {
      *value = ReferenceParser(value->get_ref<const std::string&>(), {}).Run();  // "$${"
    }
    done_.insert(value);
  }

  void Replace(const std::string& pointer, Json* value) {
    const std::string text = value->get<std::string>();
    try {
      Json found =
          ReferenceParser(text, [this](const std::string& name) { return LookUp(name); }).Run();
      if (PointerKeys(pointer).size() + DepthOf(found) > kMaxConfigDepth) {
        throw ConfigError("nested deeper than {} levels", kMaxConfigDepth);
      }
      *value = std::move(found);
    } catch (Error& fault) {
      const std::string where = OriginOf(*source_, pointer) + ": " + DottedKey(pointer);
      if (std::exchange(is_placed_, true)) {
        fault.AddContext(fmt::format("used by {}: {}", where, Describe(text)));
        throw;
      }
      throw ConfigError("{}: {}, in {}", where, fault.what(), Describe(text));
    }
    source_->references[pointer] = text;
  }

  // The value of a key, and all references below it, are resolved then.
  Json LookUp(const std::string& name) {
    if (std::ranges::count(open_, true, &Open::is_text) > std::ptrdiff_t{kMaxReferenceChain}) {
      throw ConfigError("more than {} references lead to each other", kMaxReferenceChain);
    }
    std::string pointer;
    Json* value = &source_->value;
    bool is_done = false;
    for (const std::string& key : core::Split(name, '.')) {
      if (!is_done && value->is_string()) Resolve(pointer, value);  // refers to an object or a list
      is_done = is_done || done_.contains(value);
      Json* const child = ChildOf(key, value);
      if (child == nullptr) return Default(name);
      pointer = ChildPointer(pointer, key);
      value = child;
    }
    if (!is_done) Resolve(pointer, value);
    Count(*value);
    return *value;
  }

  // The default of a key that the config leaves out.
  Json Default(const std::string& name) {
    if (!defaults_) defaults_ = make_defaults_ ? make_defaults_(source_->value) : source_->value;
    Json* value = &*defaults_;
    for (const std::string& key : core::Split(name, '.')) {
      Json* const child = ChildOf(key, value);
      if (child == nullptr) FailUnknown(name, key, *value);
      value = child;
    }
    Count(*value);
    return *value;
  }

  [[noreturn]] static void FailUnknown(const std::string& name, const std::string& key,
                                       const Json& parent) {
    std::vector<std::string> siblings;
    if (parent.is_object()) {
      for (const auto& item : parent.items()) siblings.push_back(item.key());
    }
    throw ConfigError(
        "no key '{}' is in a config file, on the command line or among the harness's defaults{}",
        name, DidYouMean(key, siblings));
  }

  void RequireNoCycle(const std::string& pointer, const Json* value) const {
    const auto begin = std::ranges::find(open_, value, &Open::value);
    if (begin == open_.end()) return;
    std::vector<std::string> names;
    for (auto open = begin; open != open_.end(); ++open) {
      if (open->is_text) names.push_back(open->name);
    }
    names.push_back(DottedKey(pointer));
    throw ConfigError("the references form a cycle: {}", fmt::join(names, " -> "));
  }

  // Copies can multiply, so their sum is limited.
  void Count(const Json& value) {
    ++n_values_;
    if (value.is_string()) n_bytes_ += value.get_ref<const std::string&>().size();
    if (value.is_object()) {
      for (const auto& item : value.items()) {
        n_bytes_ += item.key().size();
        Count(item.value());
      }
    } else if (value.is_array()) {
      for (const Json& child : value) Count(child);
    }
    if (n_values_ + source_->origins.size() > kMaxConfigKeys || n_bytes_ > kMaxReferencedBytes) {
      throw ConfigError("the references of a config copy at most {} values and {} bytes of text",
                        kMaxConfigKeys, kMaxReferencedBytes);
    }
  }

  JsonSource* source_;
  const DefaultsOf& make_defaults_;
  std::optional<Json> defaults_;  // once they are needed
  std::vector<Open> open_;
  std::set<const Json*> done_;  // resolved with everything below
  std::size_t n_values_ = 0;
  std::size_t n_bytes_ = 0;
  bool is_placed_ = false;  // the error that ends the work already names its place
};

bool HasDollar(const Json& value) {
  if (value.is_string())
    return value.get_ref<const std::string&>().find(kBegin) != std::string::npos;
  return value.is_structured() && std::ranges::any_of(value, HasDollar);
}

}  // namespace

void ResolveReferences(JsonSource* source, const DefaultsOf& defaults) {
  if (HasDollar(source->value)) ReferenceResolver(source, defaults).Run();
}

bool HasReference(const Json& value) {
  if (!value.is_string()) return false;
  std::string_view text = value.get_ref<const std::string&>();
  for (auto dollar = text.find('$'); dollar != text.npos; dollar = text.find('$')) {
    text.remove_prefix(dollar);
    if (text.starts_with(kBegin)) return true;
    text.remove_prefix(text.starts_with(kEscaped) ? kEscaped.size() : 1);
  }
  return false;
}

std::string EscapeReferences(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kBegin)) escaped += '$';
    escaped += text[i];
  }
  return escaped;
}

void EscapeReferences(Json* value) {
  if (value->is_string()) {
    *value = EscapeReferences(value->get_ref<const std::string&>());
  } else if (value->is_structured()) {
    for (Json& child : *value) EscapeReferences(&child);
  }
}

}  // namespace dp_bench::config
