// Prints where the parts of a type are, a line each, so that a change of the binary interface
// shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <typeinfo>

namespace dp_bench {

// Members of types that are not of standard layout have a fixed place too; GCC and Clang compute
// it.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

template <class T>
void PrintType(const char* name) {
  std::cout << name << ": " << sizeof(T) << " bytes, aligned to " << alignof(T) << "\n";
}

/// The place of a virtual function in the table of `T`, from the representation of member pointers
/// in the Itanium C++ ABI (2.3): 1 plus the offset in the table. And its type.
template <class Function>
void PrintVirtual(const char* name, Function function) {
  std::ptrdiff_t place = 0;
  static_assert(sizeof(function) == 2 * sizeof(place));
  std::memcpy(&place, &function, sizeof(place));
  std::cout << "  " << name << ": entry "
            << (place - 1) / static_cast<std::ptrdiff_t>(sizeof(void*)) << ", "
            << typeid(function).name() << "\n";
}

}  // namespace dp_bench

#define DPB_TYPE(T) PrintType<T>(#T)
#define DPB_FIELD(T, field)                                      \
  std::cout << "  " #field ": at " << offsetof(T, field) << ", " \
            << typeid(decltype(T::field)).name() << "\n"
#define DPB_VIRTUAL(T, function) PrintVirtual(#function, &T::function)
#define DPB_VALUE(value) std::cout << #value " = " << static_cast<std::int64_t>(value) << "\n"
