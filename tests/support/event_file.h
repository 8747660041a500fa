// The content of a TensorBoard event file, for expectations.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "train/event_writer.h"

namespace dp_bench {

/// The events of the file; each record must have the framing of AppendTfRecord.
inline std::vector<std::string> ReadRecords(const std::filesystem::path& path) {
  const std::string file = core::ReadTextFile(path, 1U << 24);
  std::vector<std::string> records;
  for (std::size_t begin = 0; begin < file.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, file.data() + begin, std::min(sizeof(length), file.size() - begin));
    if (length > file.size() - begin) {
      ADD_FAILURE() << "the record at byte " << begin << " is not complete";
      break;
    }
    records.push_back(file.substr(begin + 12, length));
    std::string framed;
    train::AppendTfRecord(records.back(), &framed);
    EXPECT_EQ(file.substr(begin, framed.size()), framed);
    begin += framed.size();
  }
  return records;
}

/// Events without their wall time, which comes first: a byte of tag and a double. They equal those
/// of train/event_proto.h for a wall time of 0.
inline std::vector<std::string> ReadEvents(const std::filesystem::path& path) {
  std::vector<std::string> events = ReadRecords(path);
  for (std::string& event : events) event.erase(0, 9);
  return events;
}

inline train::EventTime Step(std::int64_t step) { return {.wall_time = 0.0, .step = step}; }

}  // namespace dp_bench
