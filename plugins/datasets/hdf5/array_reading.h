// What an array is read as: numbers, colour or depth.
#pragma once

#include <optional>
#include <string>

#include "data/hdf5/h5_file.h"
#include "dp_bench/dataset.h"

namespace dp_bench::hdf5 {

enum class StoredAs {
  kNumbers,      // of any type
  kPixels,       // images as the harness stores them
  kPlanes,       // [3, H, W]
  kFloatColour,  // [H, W, 3] of 0 to 255
  kFiles         // a JPEG or PNG file per row
};

struct ArrayReading {
  KeySpec spec;
  StoredAs stored = StoredAs::kNumbers;
};

/// The type of an array for which neither the config nor the file gives one.
struct ArrayQuestion {
  std::string key;
  ArrayHeader header;
  std::optional<KeyType> type;  // what the config or the attribute of dp_bench says
  Shape image;                  // [H, W] if the rows are image files
  bool has_colours = false;     // whether the first rows of MayBeFloatColour are colours
};

/// Whether it is read as images if its numbers are whole ones of 0 to 255:
/// diffusion_policy stores images as float32. As numbers they would take four times the memory.
bool MayBeFloatColour(const ArrayHeader& header);

/// What to do if an array holds no images.
std::string AdviceForNumbers(const std::string& key);

/// The reading of an array, or in `*obstacle` why there is none.
std::optional<ArrayReading> ReadAs(const ArrayQuestion& question, std::string* obstacle);

}  // namespace dp_bench::hdf5
