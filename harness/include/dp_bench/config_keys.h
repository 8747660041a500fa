// A config section as a struct whose keys are written once: name, range and meaning in one call,
// type and default in the field. Reading, the defaults in the resolved config and `dp_bench keys`
// follow from it.
//
//   EmaConfig c;  // with power = 0.75
//   const ConfigKeys keys(config);
//   keys("power", &c.power, 0.0, 10.0, "exponent of the warm-up curve");
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/error.h"

namespace dp_bench {

/// Visits the keys of an object. Every call reads one key into a field. The value that the field
/// holds is the default; a std::optional has none, and null makes it std::nullopt. Errors are those
/// of Config.
class ConfigKeys {
  template <class T>
  struct Field {  // T: a type that Config::Get reads
    using Value = T;
    static constexpr bool kIsOptional = false;
  };
  template <class T>
  struct Field<std::optional<T>> {
    using Value = T;
    static constexpr bool kIsOptional = true;
  };
  template <class T>  // of a range
  using Number =
      std::conditional_t<std::is_integral_v<typename Field<T>::Value>, std::int64_t, double>;

 public:
  explicit ConfigKeys(Config config) : config_(std::move(config)) {}

  template <class T>
  void operator()(std::string_view key, T* field, const KeyMeaning& meaning) const {
    if constexpr (Field<T>::kIsOptional) {
      *field = config_.GetOptional<typename Field<T>::Value>(key, meaning);
    } else {
      *field = config_.Get<T>(key, *field, meaning);
    }
  }

  /// A number within [low, high].
  template <class T>
  void operator()(std::string_view key, T* field, Number<T> low, Number<T> high,
                  const KeyMeaning& meaning) const {
    if constexpr (Field<T>::kIsOptional) {
      *field = config_.GetOptionalInRange(key, low, high, meaning);
    } else {
      *field = static_cast<T>(
          config_.GetInRange(key, static_cast<Number<T>>(*field), low, high, meaning));
    }
  }

  /// A list of n numbers.
  template <std::size_t n>
  void operator()(std::string_view key, std::array<double, n>* field,
                  const KeyMeaning& meaning) const {
    const auto found =
        config_.Get<std::vector<double>>(key, {field->begin(), field->end()}, meaning);
    if (found.size() != n) {
      throw Error(ErrorCode::kConfig, config_.Where(key) + ": expected " + std::to_string(n) +
                                          " numbers, found " + std::to_string(found.size()));
    }
    std::copy(found.begin(), found.end(), field->begin());
  }

  /// One of these names, of which each stands for a value. The first is the default.
  template <class T>
  void Choice(std::string_view key, T* field,
              const std::vector<std::pair<std::string, std::type_identity_t<T>>>& choices,
              const KeyMeaning& meaning) const {
    std::vector<std::string> names;
    for (const auto& choice : choices) names.push_back(choice.first);
    const std::string found = config_.GetChoice(key, names, meaning);
    for (const auto& [name, value] : choices) {
      if (name == found) *field = value;
    }
  }

 private:
  Config config_;
};

}  // namespace dp_bench
