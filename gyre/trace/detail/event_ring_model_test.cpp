// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the flight recorder's ring: a reader that copies while the writer overwrites gets
// whole events only, in their order.
#include <gyre/trace/detail/event_ring.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace {

namespace model = gyre::model;
using gyre::trace::detail::event;
using gyre::trace::detail::event_kind;
using gyre::trace::detail::event_ring;

event numbered(std::uint64_t number) {
  return {.begin = number,
          .length = number,
          .kind = event_kind::task,
          .object = number,
          .value = number};
}

void check_whole_and_ordered(const std::vector<event>& events, std::uint64_t last_number) {
  std::uint64_t previous = 0;
  for (const event& each : events) {
    model::assert_that(each.length == each.begin && each.object == each.begin &&
                           each.value == each.begin && each.kind == event_kind::task,
                       "all words are of one event");
    model::assert_that(each.begin > previous && each.begin <= last_number,
                       "the events are in the order of the pushes");
    previous = each.begin;
  }
}

TEST(EventRingModel, AReaderCopiesWholeEventsWhileTheWriterOverwrites) {
  const auto checked = model::check({}, [] {
    std::array<event_ring::slot, 2> slots{};
    event_ring ring(slots);
    ring.push(numbered(1));
    ring.push(numbered(2));
    {
      // The second push overwrites an event that the reader keeps unless it has seen the first.
      model::thread writer{[&] {
        ring.push(numbered(3));
        ring.push(numbered(4));
      }};
      std::vector<event> events;
      ring.append_to(events);
      check_whole_and_ordered(events, 4);
    }
    std::vector<event> events;
    ring.append_to(events);
    check_whole_and_ordered(events, 4);
    model::assert_that(!events.empty() && events.back().begin == 4, "the last event is kept");
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(EventRingModel, AReaderOfAnEmptyRingGetsWholeEvents) {
  const auto checked = model::check({}, [] {
    std::array<event_ring::slot, 2> slots{};
    event_ring ring(slots);
    model::thread writer{[&] {
      ring.push(numbered(1));
      ring.push(numbered(2));
    }};
    std::vector<event> events;
    ring.append_to(events);
    check_whole_and_ordered(events, 2);
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
