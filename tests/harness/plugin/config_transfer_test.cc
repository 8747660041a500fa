// A config that another process reads gives the same values, errors and defaults, and its offer of
// an env is read as it was written.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "config/document.h"
#include "config/json_source.h"
#include "plugin/env_message.h"
#include "support/error_of.h"

namespace dp_bench::plugin {
namespace {

Config EnvParams(const char* text) {
  return Config(
             std::make_shared<config::ConfigDocument>(config::ParseJsonSource(text, "task.json")))
      .Sub("env")
      .Sub("params");
}

constexpr const char* kText = R"({
  "env": {"params": {
    "size": 96,
    "obs": ["a", "b"],
    "noise": {"std": 0.5},
    "faults": [{"seed": 3}, {"seed": 18446744073709551615}]
  }}
})";

TEST(ConfigTransfer, ErrorsNameTheSamePlaceAsHere) {
  const Config here = EnvParams(kText);
  const Config there = ReceiveConfig(TransferConfig(here));
  const auto errors = [](const Config& config) {
    return MessageOf(ErrorCode::kConfig, [&] { config.Get<std::string>("size"); }) +
           MessageOf(ErrorCode::kConfig, [&] { config.Sub("noise").Get<int>("std"); }) +
           MessageOf(ErrorCode::kConfig, [&] { config.Get<int>("missing"); }) +
           MessageOf(ErrorCode::kConfig, [&] { config.Sub("faults").Sub("1").Get<int>("seed"); });
  };
  EXPECT_EQ(errors(there), errors(here));
  EXPECT_EQ(there.Where("size"), "task.json:3: env.params.size");
}

TEST(ConfigTransfer, UnreadKeysAreReportedWithTheirLine) {
  const Config there =
      ReceiveConfig(TransferConfig(EnvParams(R"({"env": {"params": {"sise": 1}}})")));
  there.Get<int>("size", 96);
  const std::string message = MessageOf(ErrorCode::kConfig, [&] { there.RejectUnread(); });
  EXPECT_NE(message.find("task.json:1: env.params.sise (did you mean 'size'?)"), std::string::npos)
      << message;
}

TEST(ConfigTransfer, WholeDocumentsTravelToo) {
  const Config there = ReceiveConfig(TransferConfig(Config::FromJson(R"({"a": 1})", "--params")));
  EXPECT_EQ(there.Where("a"), "--params:1: a");
  EXPECT_EQ(there.Get<int>("a"), 1);
}

TEST(ConfigTransfer, WhatWasReadThereCountsAsReadHereWithItsDefaults) {
  const Config here = EnvParams(kText);
  const Config there = ReceiveConfig(TransferConfig(here));
  there.Get<int>("size");
  there.Get<std::vector<std::string>>("obs");
  there.Sub("noise").Get<double>("std");
  for (const std::string& key : there.Sub("faults").Keys()) {
    there.Sub("faults").Sub(key).Get<std::uint64_t>("seed");
    there.Sub("faults").Sub(key).Get<std::string>("in", "step");
  }
  there.Get<bool>("is_dark", false);
  there.Get<double>("scale", 1.0);
  there.Get<int>("offset", -3);
  there.GetOptional<int>("limit");
  there.Get<std::vector<double>>("range", {0.5, 1.0});
  there.Get<std::vector<std::int64_t>>("none", {});
  there.Sub("render").Get<std::string>("camera", "head");

  here.ReadAll(there.ToJson());
  EXPECT_EQ(here.ToJson(), there.ToJson());
  EXPECT_NO_THROW(here.RejectUnread());
}

// Hosts in Python write JSON text.
TEST(EnvOffers, AreTheSameAsTextAndAsCbor) {
  EnvOffer offer;
  offer.spec.shape_meta.obs = {{.name = "pos", .shape = {2}}};
  offer.spec.shape_meta.action = {.name = "action", .shape = {2}};
  offer.spec.action_low = {-0.1F, -1.0F};
  offer.spec.action_high = {0.1F, 1.0F};
  offer.spec.control_hz = 100.0 / 3.0;
  offer.spec.max_steps = 30;
  offer.spec.abilities.has_expert = true;
  offer.params = R"({"word": "\u00fc"})";
  const std::vector<std::uint8_t> bytes = Encode(offer);
  const std::string text = nlohmann::json::from_cbor(bytes).dump();
  for (const EnvOffer& read : {DecodeOffer(std::as_bytes(std::span(bytes))),
                               DecodeOffer(std::as_bytes(std::span(text)))}) {
    EXPECT_EQ(read.spec, offer.spec);
    EXPECT_EQ(read.params, offer.params);
  }
}

}  // namespace
}  // namespace dp_bench::plugin
