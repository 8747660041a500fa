// Known answers of FIPS 180-4.
#include "core/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace dp_bench::core {
namespace {

std::string HexOf(std::string_view text) { return Sha256Hex(std::as_bytes(std::span(text))); }

TEST(Sha256, GivesTheKnownAnswers) {
  EXPECT_EQ(HexOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  Sha256 hash;
  for (const char letter : std::string_view("abc")) hash.Update(letter);
  EXPECT_EQ(hash.HexDigest(), HexOf("abc"));
}

TEST(Sha256, TheDigestSoFarEndsNothing) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span("ab", 2)));
  EXPECT_EQ(hash.HexDigestSoFar(), HexOf("ab"));
  hash.Update(std::as_bytes(std::span("c", 1)));
  EXPECT_EQ(hash.HexDigest(), HexOf("abc"));
}

TEST(Sha256, DigestStartsOver) {
  Sha256 hash;
  hash.Update('x');
  hash.HexDigest();
  EXPECT_EQ(hash.HexDigest(), HexOf(""));
}

}  // namespace
}  // namespace dp_bench::core
