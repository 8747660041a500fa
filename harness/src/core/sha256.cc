#include "core/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <new>

#include "core/errors.h"

namespace dp_bench::core {
namespace {

constexpr std::size_t kDigestBytes = 32;

void Check(int result, const char* call) {
  if (result != 1) throw InternalError("OpenSSL refused {}", call);
}

}  // namespace

void Sha256::FreeContext::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  Restart();
}

void Sha256::Restart() {
  Check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}

void Sha256::Update(std::span<const std::byte> bytes) {
  Check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Sha256::HexDigestSoFar() const {
  Sha256 copy;
  Check(EVP_MD_CTX_copy_ex(copy.context_.get(), context_.get()), "EVP_MD_CTX_copy_ex");
  return copy.HexDigest();
}

std::string Sha256::HexDigest() {
  std::array<unsigned char, kDigestBytes> digest{};
  Check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr), "EVP_DigestFinal_ex");
  Restart();
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

}  // namespace dp_bench::core
