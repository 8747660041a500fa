// What metadata of both versions mean, as numcodecs and zarr-python write them.
#include "data/zarr/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "dp_bench/error.h"
#include "support/error_of.h"

namespace dp_bench::zarr {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

template <class T>
T FillOf(const json& value, ElementType type) {
  T number = {};
  std::memcpy(&number, ParseFillValue(value, type).value().data(), sizeof(number));
  return number;
}

TEST(FillValue, IsReadInEveryForm) {
  EXPECT_EQ(FillOf<float>(2.5, ElementType::kFloat32), 2.5F);
  EXPECT_EQ(FillOf<double>(1e300, ElementType::kFloat64), 1e300);
  EXPECT_EQ(FillOf<std::uint16_t>(1.0, ElementType::kFloat16), 0x3C00);
  EXPECT_TRUE(std::isnan(FillOf<float>("NaN", ElementType::kFloat32)));
  EXPECT_EQ(FillOf<double>("-Infinity", ElementType::kFloat64), -INFINITY);
  EXPECT_EQ(FillOf<std::uint32_t>("0x7fc00001", ElementType::kFloat32), 0x7FC00001U);
  EXPECT_EQ(FillOf<std::int8_t>(-128, ElementType::kInt8), -128);
  EXPECT_EQ(FillOf<std::uint64_t>(18446744073709551615U, ElementType::kUInt64),
            18446744073709551615U);
  EXPECT_EQ(FillOf<std::int64_t>(-5.0, ElementType::kInt64), -5);
  EXPECT_EQ(FillOf<std::uint8_t>(true, ElementType::kBool), 1);
}

TEST(FillValue, IsNoneIfTheTypeHasNoSuchValue) {
  EXPECT_FALSE(ParseFillValue(nullptr, ElementType::kFloat32));
  EXPECT_FALSE(ParseFillValue("AAAA", ElementType::kFloat32));
  EXPECT_FALSE(ParseFillValue("0x7fc0", ElementType::kFloat32));
  EXPECT_FALSE(ParseFillValue("0x7fc0000g", ElementType::kFloat32));
  EXPECT_FALSE(ParseFillValue("NaN", ElementType::kInt32));
  for (const json& value : {json(256), json(-1), json(0.5), json(1e30)}) {
    EXPECT_FALSE(ParseFillValue(value, ElementType::kUInt8)) << value;
  }
  EXPECT_FALSE(ParseFillValue(2, ElementType::kBool));
  EXPECT_FALSE(ParseFillValue(-129, ElementType::kInt8));
  EXPECT_FALSE(ParseFillValue(128, ElementType::kInt8));
}

// An array of version 3 as zarr-python 3 writes it.
json Node() {
  return json::parse(R"({"zarr_format": 3, "node_type": "array", "shape": [10, 4],
    "data_type": "float32", "fill_value": 0.0, "attributes": {"dp_bench_type": "low_dim"},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4],
      "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                 {"name": "zstd", "configuration": {"level": 0, "checksum": false}}],
      "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                       {"name": "crc32c"}], "index_location": "end"}}],
    "storage_transformers": []})");
}

std::optional<ZarrMetadata> ParseNode(const json& node) {
  const std::string text = node.dump();
  return ParseZarrNode(std::as_bytes(std::span(text)), "zarr.json");
}

TEST(Version3, DescribesShards) {
  const ZarrMetadata metadata = ParseNode(Node()).value();
  EXPECT_EQ(metadata.shape, (Shape{10, 4}));
  EXPECT_EQ(metadata.chunks, (Shape{2, 4}));
  EXPECT_EQ(metadata.num_chunks, 5);
  EXPECT_EQ(metadata.shards->shape, (Shape{8, 4}));
  EXPECT_EQ(metadata.shards->index_bytes(), 4U * 16U + 4U);
  EXPECT_EQ(metadata.compressor, Compressor::kZstd);
  EXPECT_EQ(metadata.chunk_prefix, "c/");
  EXPECT_EQ(metadata.key_type, "low_dim");
}

TEST(Version3, AGroupIsNoArrayAndATextIsUnreadable) {
  EXPECT_FALSE(ParseNode({{"zarr_format", 3}, {"node_type", "group"}}));
  json node = Node();
  for (const json& type :
       {json("string"), json("complex64"), json({{"name", "numpy.datetime64"}})}) {
    node["data_type"] = type;
    EXPECT_THAT(ParseNode(node)->unreadable, HasSubstr("data_type is ")) << type;
  }
  node = Node();
  node["shape"] = json::array();
  EXPECT_THAT(ParseNode(node)->unreadable, HasSubstr("shape is []"));
}

// The error of a node with another value at a place.
std::string ErrorWith(const std::string& place, const json& value) {
  json node = Node();
  node[json::json_pointer(place)] = value;
  return MessageOf(ErrorCode::kData, [&] { ParseNode(node); });
}

TEST(Version3, WhatIsNotUnderstoodIsNamed) {
  const std::string inner = "/codecs/0/configuration";
  EXPECT_THAT(ErrorWith(inner + "/codecs/1/name", "lz4"),
              ::testing::AllOf(HasSubstr("codecs is \"lz4\""), HasSubstr("dataset.params.keys")));
  EXPECT_THAT(ErrorWith(inner + "/chunk_shape", {3, 4}), HasSubstr("whole chunks"));
  EXPECT_THAT(ErrorWith(inner + "/chunk_shape", {2}), HasSubstr("whole chunks"));
  EXPECT_THAT(ErrorWith(inner + "/codecs", Node()["codecs"]), HasSubstr("sharding"));
  EXPECT_THAT(ErrorWith(inner + "/index_codecs/1/name", "zstd"), HasSubstr("codecs"));
  EXPECT_THAT(ErrorWith("/codecs", json::array()), HasSubstr("codecs hold []"));
  EXPECT_THAT(ErrorWith("/codecs", {{{"name", "transpose"}, {"configuration", {{"order", {0, 0}}}}},
                                    {{"name", "bytes"}}}),
              HasSubstr("codecs hold [0,0]"));
  EXPECT_THAT(ErrorWith("/chunk_grid/name", "rectangular"), HasSubstr("chunk_grid is "));
  EXPECT_THAT(ErrorWith("/chunk_key_encoding/name", "hash"), HasSubstr("chunk_key_encoding is "));
  EXPECT_THAT(ErrorWith("/storage_transformers", {1}), HasSubstr("storage_transformers is "));
  EXPECT_THAT(ErrorWith("/zarr_format", 4), HasSubstr("zarr_format is 4"));
}

TEST(Version3, ImpossibleSizesAreRefused) {
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_THAT(ErrorWith("/shape", {huge, 4}), HasSubstr("zarr.json: "));
  EXPECT_THAT(ErrorWith("/chunk_grid/configuration/chunk_shape", {huge, 4}),
              HasSubstr("zarr.json: "));  // an index of 2^65
  EXPECT_THAT(ErrorWith("/chunk_grid/configuration/chunk_shape", {1 << 24, 4}),
              HasSubstr("zarr.json: "));
  EXPECT_THAT(ErrorWith("/codecs/0/configuration/chunk_shape", {0, 4}), HasSubstr("zarr.json: "));
}

}  // namespace
}  // namespace dp_bench::zarr
