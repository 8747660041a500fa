// Converts the element types of a zarr array to those of the dataset: float32 numbers, uint8
// images, uint16 depth, int64 episode ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "data/zarr/element_type.h"

namespace dp_bench::zarr {

enum class Target { kFloat32, kImage, kDepth, kInt64 };

std::size_t TargetSize(Target target);

/// Whether arrays of `type` can be converted to `target`: numbers of any type, images from uint8
/// or float32, depth from uint16, episode ends from integers.
bool CanConvert(ElementType type, Target target);

/// Converts `n` elements. For images, returns the index of the first value that is not an integer
/// within 0..255 (values after it are not converted), or nullopt if there is none.
std::optional<std::int64_t> Convert(ElementType type, Target target, const std::byte* in,
                                    std::int64_t n, std::byte* out);

/// An element as text, for messages.
std::string ElementText(ElementType type, const std::byte* element);

}  // namespace dp_bench::zarr
