// Round trips, agreement with the Python library, and damaged or malicious files.
#include "run/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

template <class T>
Array Filled(Shape shape) {
  Array array(DTypeOf<T>::value, std::move(shape));
  std::iota(array.as<T>().begin(), array.as<T>().end(), static_cast<T>(1));
  return array;
}

ArrayMap EveryDType() {
  ArrayMap map;
  map["bytes"] = Filled<std::uint8_t>({3});
  map["depth"] = Filled<std::uint16_t>({1, 5});
  map["ends"] = Filled<std::int64_t>({2});
  map["ids"] = Filled<std::int32_t>({2, 2});
  map["net.weight"] = Filled<float>({2, 3});
  map["nothing"] = Filled<float>({0, 4});
  map["scalar"] = Filled<double>({});
  return map;
}

bool AreEqual(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

std::string FileWith(const std::string& header, const std::string& buffer) {
  const std::uint64_t size = header.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + buffer;
}

/// The error of reading a file of these bytes; empty if it can be read.
std::string ErrorFor(const fs::path& path, const std::string& content) {
  fs::remove(path);  // ext4 waits for the disk when a file is truncated and rewritten
  std::ofstream(path, std::ios::binary) << content;
  try {
    ReadSafetensors(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    return error.what();
  }
  return "";
}

class SafetensorsTest : public testing::Test {
 protected:
  const ScratchFolder scratch_;
};

TEST_F(SafetensorsTest, Float16TakesHalfOfTheBytesOfFloat32TensorsAlone) {
  ArrayMap tensors = EveryDType();
  tensors["net.weight"].as<float>()[0] = 0.1F;
  WriteSafetensors(scratch_.path() / "half.safetensors", tensors, {}, FloatStorage::kFloat16);
  const Safetensors read = ReadSafetensors(scratch_.path() / "half.safetensors");
  for (const auto& [name, array] : tensors) {
    if (name != "net.weight") {
      EXPECT_TRUE(AreEqual(read.tensors.at(name), array)) << name;
    }
  }
  const std::span<const float> weights = read.tensors.at("net.weight").as<float>();
  EXPECT_EQ(weights[0], 0.0999755859375F);  // torch.tensor(0.1).half()
  EXPECT_EQ(weights[5], 6.0F);
}

TEST_F(SafetensorsTest, Bfloat16IsRoundedToTheNearestEvenNumber) {
  const fs::path path = scratch_.path() / "bf16.safetensors";
  ArrayMap tensors;
  tensors["w"] = Filled<float>({3});
  // torch.tensor([0.1, 1.00390625, 1.01171875]).bfloat16(): two ties
  std::ranges::copy(std::array{0.1F, 1.00390625F, 1.01171875F}, tensors["w"].as<float>().begin());
  WriteSafetensors(path, tensors, {}, FloatStorage::kBfloat16);
  EXPECT_EQ(core::ReadTextFile(path, 1000).substr(fs::file_size(path) - 6),
            std::string("\xcd\x3d\x80\x3f\x82\x3f", 6));
  EXPECT_THAT(ReadSafetensors(path).tensors.at("w").as<float>(),
              testing::ElementsAre(0.10009765625F, 1.0F, 1.015625F));
  tensors["w"].as<float>()[2] = 3.4e38F;
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                        [&] { WriteSafetensors(path, tensors, {}, FloatStorage::kBfloat16); }),
              HasSubstr("as BF16: tensor 'w' contains 3.4e+38, expected at most 3.38"));
}

TEST_F(SafetensorsTest, ReadsBfloat16AsFloat32) {
  const std::string header = R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";
  core::WriteFileAtomically(scratch_.path() / "bf16.safetensors",
                            FileWith(header, std::string("\x80\x3f\xcd\xbd", 4)));
  const Safetensors read = ReadSafetensors(scratch_.path() / "bf16.safetensors");
  EXPECT_EQ(read.tensors.at("w").as<float>()[0], 1.0F);
  EXPECT_EQ(read.tensors.at("w").as<float>()[1], -0.10009765625F);  // torch.tensor(-0.1).bfloat16()
}

TEST_F(SafetensorsTest, ANumberTooLargeForFloat16IsAnErrorThatNamesTheTensor) {
  ArrayMap tensors;
  tensors["big"] = Filled<float>({2});
  tensors["big"].as<float>()[1] = 70000.0F;
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                        [&] {
                          WriteSafetensors(scratch_.path() / "half.safetensors", tensors, {},
                                           FloatStorage::kFloat16);
                        }),
              testing::AllOf(HasSubstr("tensor 'big' contains 70000"), HasSubstr("65504")));
  EXPECT_FALSE(fs::exists(scratch_.path() / "half.safetensors"));
}

TEST_F(SafetensorsTest, KeepsEveryDTypeShapeAndTheMetadata) {
  const fs::path path = scratch_.path() / "a.safetensors";
  const ArrayMap written = EveryDType();
  WriteSafetensors(path, written, {{"format", "pt"}, {"ключ", "\"quoted\"\n"}});
  const Safetensors read = ReadSafetensors(path);
  ASSERT_EQ(read.tensors.size(), written.size());
  for (const auto& [name, array] : written) {
    EXPECT_TRUE(AreEqual(read.tensors.at(name), array)) << name;
  }
  EXPECT_EQ(read.metadata.at("ключ"), "\"quoted\"\n");
}

TEST_F(SafetensorsTest, EqualContentGivesEqualBytes) {
  WriteSafetensors(scratch_.path() / "a", EveryDType(), {{"b", "1"}, {"a", "2"}});
  WriteSafetensors(scratch_.path() / "b", EveryDType(), {{"a", "2"}, {"b", "1"}});
  EXPECT_EQ(core::ReadFile(scratch_.path() / "a", 10000),
            core::ReadFile(scratch_.path() / "b", 10000));
}

TEST_F(SafetensorsTest, EmptyFileOfNoTensorsIsValid) {
  WriteSafetensors(scratch_.path() / "a", ArrayMap{});
  EXPECT_TRUE(ReadSafetensors(scratch_.path() / "a").tensors.empty());
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  WriteSafetensors(scratch_.path() / "whole", EveryDType());
  const std::string whole = core::ReadTextFile(scratch_.path() / "whole", 10000);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(ErrorFor(scratch_.path() / "cut", whole.substr(0, size)), "") << size << " bytes";
  }
  EXPECT_NE(ErrorFor(scratch_.path() / "longer", whole + "x"), "");
}

TEST_F(SafetensorsTest, TenThousandBitFlipsNeverCrash) {
  WriteSafetensors(scratch_.path() / "whole", EveryDType(), {{"format", "pt"}});
  const std::string whole = core::ReadTextFile(scratch_.path() / "whole", 10000);
  RandomStream random(1, StreamId::kAugment);
  int n_refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string damaged = whole;
    const std::size_t byte = random.UniformInt(static_cast<std::uint32_t>(whole.size()));
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << random.UniformInt(8)));
    n_refused += ErrorFor(scratch_.path() / "damaged", damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(n_refused, 5000);  // most of this small file is header
}

TEST_F(SafetensorsTest, HeaderLengthIsCheckedBeforeMemoryIsTaken) {
  EXPECT_THAT(ErrorFor(scratch_.path() / "a", std::string(8, '\xff') + "{}"),
              HasSubstr("a header of 18446744073709551615 bytes"));
}

TEST_F(SafetensorsTest, TellsWhatIsWrongWithAHeader) {
  struct Case {
    std::string header, buffer, message;
  };
  const std::string deep = "{\"a\":" + std::string(1000000, '[');
  const std::vector<Case> cases = {
      {"[]", "", "does not begin with '{'"},
      {"{\"a\":", "", "not JSON"},
      {deep, "", "nested deeper"},
      {R"({"a":[]})", "", "a: expected an object"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "1234", "a: the key 'data_offsets' is missing"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "1234", "dtype 'F8_E4M3'"},
      {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,4]}})", "1234",
       "a.dtype: expected a string"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "list of at most"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "1234", "an integer"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234", "[begin, end]"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", "1234", "[begin, end]"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234", "needs 8 bytes"},
      {R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "",
       "overflows"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678", "gap or overlap"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
       R"("b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
       "12345", "gap or overlap"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "1234", "take 3 bytes"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "1", "twice"},
      {R"({"__metadata__":{"a":1}})", "", "__metadata__.a: expected a string"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ErrorFor(scratch_.path() / "a", FileWith(c.header, c.buffer)), HasSubstr(c.message))
        << c.header.substr(0, 200);
  }
}

// Takes time linear in their number: a quadratic reader would take 20 s.
TEST_F(SafetensorsTest, AHundredThousandTensorsAreReadQuickly) {
  std::string header;
  for (int i = 0; i < 100'000; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          header.empty() ? "{" : ",", i);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ErrorFor(scratch_.path() / "a", FileWith(header + "}", "")), "");
#if defined(__SANITIZE_THREAD__)
  constexpr std::chrono::seconds kLimit(80);
#else
  constexpr std::chrono::seconds kLimit(8);
#endif
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
}

TEST_F(SafetensorsTest, NamesTheFileThatIsMissing) {
  EXPECT_THROW(ReadSafetensors("/no/such/file.safetensors"), Error);
}

TEST_F(SafetensorsTest, RefusesNamesThatAreNotText) {
  ArrayMap map;
  map["\xff\xfe"] = Filled<float>({1});
  EXPECT_THROW(WriteSafetensors(scratch_.path() / "a", map), Error);
  EXPECT_FALSE(fs::exists(scratch_.path() / "a"));
}

TEST_F(SafetensorsTest, PythonReadsWhatWeWriteAndWeReadWhatPythonWrites) {
  const fs::path python = fs::path(DPB_SOURCE_DIR) / ".venv/bin/python";
  const fs::path ours = scratch_.path() / "ours.safetensors";
  const fs::path theirs = scratch_.path() / "theirs.safetensors";
  const ArrayMap written = EveryDType();
  WriteSafetensors(ours, written, {{"format", "pt"}});
  core::WriteFileAtomically(
      scratch_.path() / "copy.py",
      "import sys\n"
      "from safetensors.numpy import load_file, save_file\n"
      "save_file(load_file(sys.argv[1]), sys.argv[2], metadata={'by': 'python'})\n");
  const std::string command =
      fmt::format("{} {} {} {}", python.string(), (scratch_.path() / "copy.py").string(),
                  ours.string(), theirs.string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  const Safetensors read = ReadSafetensors(theirs);
  EXPECT_EQ(read.metadata.at("by"), "python");
  for (const auto& [name, array] : written) {
    EXPECT_TRUE(AreEqual(read.tensors.at(name), array)) << name;
  }
}

}  // namespace
}  // namespace dp_bench::run
