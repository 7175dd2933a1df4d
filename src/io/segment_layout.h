// Where a picture puts segments and blocks: memory stacked without gaps, over events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "io/trace_reader.h"

namespace zplan {

// A stretch of memory over a stretch of events.
struct Rectangle {
  std::size_t from = 0, to = 0;
  std::int64_t low = 0, bytes = 0;
  StreamId stream = 0;
  std::int32_t context = -1;
};

struct SegmentLayout {
  std::vector<Rectangle> segments, blocks;
  std::int64_t height = 0;  // of everything, in bytes
};
// Segments stack from the bottom, each in the lowest place with room while it lives. An expandable
// range keeps its place for all it ever maps.
SegmentLayout segment_layout(const RecordedHistory& history);

}  // namespace zplan
