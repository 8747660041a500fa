// SHA-256 (FIPS 180-4) over OpenSSL's EVP: checksums of files and tensors, trace hashes of
// episodes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace dp_bench::core {

/// A running hash. Feeding it in pieces gives the same digest as feeding it at once.
class Sha256 {
 public:
  Sha256();

  void Update(std::span<const std::byte> bytes);

  /// The bytes of one number or enum, in the machine's order.
  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void Update(const T& value) { Update(std::as_bytes(std::span<const T, 1>(&value, 1))); }

  /// 64 lower-case hexadecimal digits of everything fed so far; starts over with nothing fed.
  std::string HexDigest();

  /// The digits so far; more may be fed afterwards.
  std::string HexDigestSoFar() const;

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const;
  };

  void Restart();

  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
};

std::string Sha256Hex(std::span<const std::byte> bytes);

inline std::string Sha256Hex(std::string_view text) {
  return Sha256Hex(std::as_bytes(std::span(text)));
}

}  // namespace dp_bench::core
