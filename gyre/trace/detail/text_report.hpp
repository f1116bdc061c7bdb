// SPDX-License-Identifier: Apache-2.0
// text_report: describes a snapshot for people.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/function_names.hpp>
#include <gyre/trace/detail/snapshot.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace gyre::trace::detail {

/// Returns a length of time with three digits and a unit, such as "20.3 ms".
std::string describe_duration(std::chrono::nanoseconds length);

/// Returns what an event of this kind and object is, such as "handler GET /report".
std::string describe_activity(event_kind kind, std::uint64_t object, function_names& names);

/// Returns the report of dump_text(), without events shorter than `slow`.
std::string report_as_text(const snapshot& records, duration min_length, function_names& names);

}  // namespace gyre::trace::detail
